# SPDX-License-Identifier: BSD-2-Clause
"""What the generator knows of a board."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Board:
    """A target of ``inceptionn generate``.

    ``part`` is the FPGA's ordering code, empty for any; ``clock_mhz`` the engine's clock that is aimed at, 0
    if that is open; ``constraints`` are files of :mod:`inceptionn.constraints` that go with the Verilog.
    """

    name: str
    description: str
    part: str = ""
    clock_mhz: int = 0
    constraints: tuple[str, ...] = ()
