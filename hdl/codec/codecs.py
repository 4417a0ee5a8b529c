# SPDX-License-Identifier: BSD-2-Clause
"""The codecs that an engine can have: one table.

Choosing a codec is choosing a compressor and a decompressor with the same ports; the record says what else
depends on it. Nothing here needs Amaranth: the components are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from inceptionn.system.text import nearest
from inceptionn.wire import (
    CODES,
    EXPONENT_BIAS,
    GROUP_LANES,
    MAX_K,
    MAX_LANES,
    MIN_K,
    SHIM_VERSION,
    SHIM_VERSION_PLANES,
    Tag,
)

PAPER = "paper"
"""Name of the default codec."""
_TAG_TEXT = {
    Tag.ZERO: "dropped, 0 bits kept",
    Tag.BITS8: "8 bits kept",
    Tag.BITS16: "16 bits kept",
    Tag.RAW: "32 bits kept",
}


@dataclass(frozen=True)
class LaneCodec:
    """A codec's components, and what engines, registers and reports must know of it.

    ``shim_version`` is the wire format's, and ``shim_parameter`` the setting (``b`` or ``e0``) in byte 3 of
    the shim. ``classes`` are what a compressor counts in a block: a counter's name and text for each;
    ``most`` is the highest count in a block. ``accepted`` are the values of byte 3 that a receiver accepts.
    """

    name: str
    shim_version: int
    shim_parameter: str
    classes: tuple[tuple[str, str], ...]
    most: int
    accepted: range

    @property
    def classes_are_lanes(self) -> bool:
        """Whether the classes count all lanes of a block, so that their sum is its length."""
        return self.most == MAX_LANES

    @property
    def count_bits(self) -> int:
        """Bits of a class's count in a report."""
        return self.most.bit_length()

    @property
    def compressor(self) -> Callable[..., Any]:
        """The class of :class:`~.compressor.Compressor`."""
        return self._component("compressor", "Compressor")

    @property
    def decompressor(self) -> Callable[..., Any]:
        """The class of :class:`~.decompressor.Decompressor`."""
        return self._component("decompressor", "Decompressor")

    @property
    def statistics(self) -> Any:
        """Layout of the compressor's report on a block: sizes, sums and ``counts`` of the classes."""
        return self._component("block_statistics", "Statistics")

    def _component(self, module: str, name: str) -> Any:
        return getattr(import_module(f".{self.name}.{module}", __package__), name)


CODECS = {
    codec.name: codec
    for codec in (
        LaneCodec(
            PAPER,
            SHIM_VERSION,
            "b",
            tuple(
                (f"LANES_{tag.name}", f"Lanes with tag {tag:02b} ({_TAG_TEXT[tag]}) in compressed frames.")
                for tag in Tag
            ),
            MAX_LANES,
            range(256),
        ),
        LaneCodec(
            "planes",
            SHIM_VERSION_PLANES,
            "e0",
            tuple(
                (f"GROUPS_CODE_{code}", f"Groups of 8 lanes with code {code} in compressed frames.")
                for code in range(CODES)
            ),
            MAX_LANES // GROUP_LANES,
            range(EXPONENT_BIAS - MAX_K, EXPONENT_BIAS - MIN_K + 1),
        ),
    )
}
"""By name."""


def codec_of(name: str) -> LaneCodec:
    """The codec of this name; ``ValueError`` for any other."""
    if name not in CODECS:
        raise ValueError(f"codec must be one of {', '.join(CODECS)}, not {name!r}{nearest(name, CODECS)}")
    return CODECS[name]
