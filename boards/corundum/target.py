# SPDX-License-Identifier: BSD-2-Clause
"""Corundum, on any of its boards: an application block ``mqnic_app_block`` at the ``sync`` tap."""

from typing import NamedTuple

from inceptionn.hdl.control.registers import ADDRESS_WIDTH
from inceptionn.hdl.engine.transmit_decision import TransmitDecision

from ..board import Board, Clock, Interface, Options, RegisterAccess, Reset, Target
from ..templates import render
from .ports import port_list, tie_offs
from .shell import BUS_ADDRESS_WIDTH, MAX_PORTS, RX_TIMESTAMP_WIDTH, TX_TAG_WIDTH, CorundumShell

APP_ID = int.from_bytes(b"INCP", "big")
"""The block's application number, which the driver shows; Corundum compares it with the build's."""
_PARTS = {64: "xc7vx690tffg1761-3", 512: "xcu200-fsgd2104-2-e"}
"""Parts that the generated projects name: the NetFPGA-SUME's and the Alveo U200's; any other is possible."""


class Link(NamedTuple):
    """The link of a stream's width in Gbit/s, and the share of an overload that is not lost.

    ``restored``: of 24 compressed frames of 1514 bytes, back to back at the link's rate, the number that are
    restored correctly after Corundum's receive queue, measured by ``tests/boards/shells/bench_line_rate.py``.
    """

    gbps: int
    restored: int


LINKS = {64: Link(10, 11), 128: Link(25, 14), 256: Link(40, 16), 512: Link(100, 21)}
"""By width in bits. No board of Corundum's has 256."""


def _target(board: Board, options: Options) -> Target:
    ports, width = options.ports or 1, options.data_width or board.data_widths[-1]
    on = ("clk", ("rst",))
    tx = "bit 0 at tlast: bad frame; above it the transmit tag, first beat"
    rx = "bit 0 at tlast: bad frame; above it the PTP timestamp, first beat"
    interfaces = []
    for n in range(ports):
        interfaces += [
            Interface(f"s_axis_tx{n}", "axis", "slave", *on, "from the host's queues", tx),
            Interface(f"m_axis_tx{n}", "axis", "master", *on, "to the MAC", tx),
            Interface(f"s_axis_rx{n}", "axis", "slave", *on, "from the MAC", rx),
            Interface(f"m_axis_rx{n}", "axis", "master", *on, "to the host's queues", rx),
        ]
    interfaces.append(Interface("s_axil", "axil", "slave", *on, "registers"))
    context = {
        "ports": ports,
        "width": width,
        "engine_width": options.shape.bits,
        "pace": TransmitDecision.pace_of(options.shape),
        "link": LINKS[width].gbps,
        "restored": LINKS[width].restored,
        "app_id": f"32'h{APP_ID:08x}",
        "tag_width": TX_TAG_WIDTH,
        "timestamp_width": RX_TIMESTAMP_WIDTH,
        "bus_address_width": BUS_ADDRESS_WIDTH,
        "address_width": ADDRESS_WIDTH + (ports - 1).bit_length(),
        "port_list": port_list(),
        "tie_offs": tie_offs(),
    }
    return Target(
        module="inceptionn_corundum",
        make=lambda: CorundumShell(ports, data_bytes=width // 8, shape=options.shape),
        clocks=(Clock("clk", board.clock_mhz, "everything"),),
        resets=(Reset("rst", "high", "everything"),),
        interfaces=tuple(interfaces),
        part=options.part or _PARTS.get(width, _PARTS[512]),
        parameters={"ports": ports, "data_width": width},
        top="mqnic_app_block",
        sources={"mqnic_app_block.v": render("corundum/mqnic_app_block.v.j2", context)},
        context=context,
    )


BOARD = Board(
    name="corundum",
    description="Corundum, application block",
    target=_target,
    access=RegisterAccess(
        2, "The application's BAR, `dev->app_regs` in Corundum's library.", stride=1 << ADDRESS_WIDTH
    ),
    clock_mhz=250,
    max_ports=MAX_PORTS,
    default_ports=1,
    data_widths=(64, 128, 256, 512),
    max_lanes=16,
)
