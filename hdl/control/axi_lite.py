# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Lite as all components use it (Arm IHI 0022)."""

from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from .register_map import DATA_WIDTH
from .registers import ADDRESS_WIDTH


class Response(enum.Enum, shape=2):
    """The values of ``bresp`` and ``rresp`` that the slaves of this project return."""

    OKAY = 0b00
    SLVERR = 0b10


class AXI4Lite(wiring.Signature):
    """AXI4-Lite, seen from the master; use ``In(AXI4Lite())`` for a slave.

    Parameters
    ----------
    addr_width : :class:`int`
        Width of ``awaddr`` and ``araddr``; addresses count bytes.
    data_width : :class:`int`
        Width of ``wdata`` and ``rdata``: 32 or 64.
    """

    def __init__(self, addr_width: int = ADDRESS_WIDTH, data_width: int = DATA_WIDTH):
        if not isinstance(addr_width, int) or not isinstance(data_width, int):
            raise TypeError(f"AXI4-Lite widths must be integers, not {(addr_width, data_width)!r}")
        if not 1 <= addr_width <= 64:
            raise ValueError(f"AXI4-Lite address width must be 1..64, not {addr_width!r}")
        if data_width not in (32, 64):
            raise ValueError(f"AXI4-Lite data width must be 32 or 64, not {data_width!r}")
        self.addr_width = addr_width
        self.data_width = data_width
        super().__init__(
            {
                "awaddr": Out(addr_width),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(data_width),
                "wstrb": Out(data_width // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(addr_width),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(data_width),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AXI4Lite)
            and self.addr_width == other.addr_width
            and self.data_width == other.data_width
        )

    def __repr__(self) -> str:
        return f"AXI4Lite(addr_width={self.addr_width}, data_width={self.data_width})"
