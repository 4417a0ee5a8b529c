# SPDX-License-Identifier: BSD-2-Clause
"""The record by which the kernels, in C and NumPy, know a codec and its bound."""

from __future__ import annotations

from typing import NamedTuple

from ..wire import CODECS, CodecName, CodecParameters, three_numbers

NUMBERS: dict[CodecName, int] = {spec.name: number for number, spec in enumerate(CODECS.values())}
"""The codecs' numbers, here and in the native module."""
LATTICE = len(NUMBERS)
"""That of ``planes`` where all values are on its lattice."""
LATTICES: dict[CodecName, int] = {"planes": LATTICE}
"""The number of each codec that has a lattice, where all values are on it."""


class Coder(NamedTuple):
    """A codec's number, and its parameters; ``t`` and ``b`` are 0 for ``planes``."""

    codec: int
    e0: int
    t: int
    b: int

    @classmethod
    def of(cls, parameters: CodecParameters) -> Coder:
        """Make the record of a codec's parameters."""
        return cls(NUMBERS[parameters.codec], *three_numbers(parameters))
