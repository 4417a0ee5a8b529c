# SPDX-License-Identifier: BSD-2-Clause
"""AMD VC709 (UG887): the Virtex-7 board of the paper (section VI-A), four 10G SFP+ cages.

The shell fits the Virtex-7 XT Connectivity Targeted Reference Design (UG962), version 2014.3.
"""

from fractions import Fraction
from typing import Any

from ..board import Board, Clock, Interface, Options, RegisterAccess, Reset, Target
from ..templates import render, text
from .shell import MAX_PORTS, Vc709Shell

_SLOWEST = Fraction(4)
"""Most stream cycles per engine cycle: 62.5 MHz. At 10 Gbit/s a 60-byte frame comes every 67.2 ns, and the
transmit engine takes 4 cycles for it; one of 65 bytes every 71.2 ns, which is 3 beats for the receive engine.
"""
_VCO_MULTIPLE = 4
"""MMCM: 250 MHz x 4 = 1000 MHz, within the 600 to 1440 MHz of DS183 for speed grade -2."""


def _target(board: Board, options: Options) -> Target:
    ports, ratio = options.ports or MAX_PORTS, options.clock_ratio
    clocks = [Clock("user_clk", board.clock_mhz, "streams, from the PCIe core")]
    resets = []
    if ratio is not None:
        clocks.append(Clock("engine_clk", float(board.clock_mhz / ratio), "engines"))
        resets.append(Reset("engine_aresetn", "low", "engines, until engine_clk is there"))
    clocks.append(Clock("s_axil_aclk", board.clock_mhz, "registers; any clock"))
    interfaces = []
    for n in range(ports):
        names = (f"s2c{n}_aresetn", f"c2s{n}_aresetn")
        what = f"of port {n}; with the other one its engine pair"
        resets += [Reset(name, "low", f"{name[:3].upper()} {what}") for name in names]
        user = "descriptor's user word; not used"
        interfaces += [
            Interface(f"s_axis_s2c{n}", "axis", "slave", "user_clk", names[:1], "from the packet DMA", user),
            Interface(f"m_axis_s2c{n}", "axis", "master", "user_clk", names[:1], "to the virtual FIFO"),
            Interface(f"s_axis_c2s{n}", "axis", "slave", "user_clk", names[1:], "from the virtual FIFO"),
            Interface(f"m_axis_c2s{n}", "axis", "master", "user_clk", names[1:], "to the packet DMA"),
        ]
    resets.append(Reset("s_axil_aresetn", "low", "registers' bus"))
    interfaces.append(Interface("s_axil", "axil", "slave", "s_axil_aclk", ("s_axil_aresetn",), "registers"))
    context: dict[str, Any] = {"ports": ports, "ratio": ratio, "stream_mhz": board.clock_mhz}
    sources = {}
    if ratio is not None:
        context |= {"multiply": _VCO_MULTIPLE, "divide": float(_VCO_MULTIPLE * ratio)}
        context |= {"engine_mhz": float(board.clock_mhz / ratio)}
        sources["inceptionn_engine_clock.v"] = render("vc709/engine_clock.v.j2", context)
    return Target(
        module="inceptionn_vc709",
        make=lambda: Vc709Shell(ports, engine_clock=ratio is not None),
        clocks=tuple(clocks),
        resets=tuple(resets),
        interfaces=tuple(interfaces),
        part=options.part or board.part,
        parameters={"ports": ports, "clock_ratio": None if ratio is None else str(ratio)},
        sources=sources,
        extras={"patch_trd.py": text("vc709/patch_trd.py")},
        context=context,
    )


BOARD = Board(
    name="vc709",
    description="AMD VC709, Virtex-7 690T",
    target=_target,
    access=RegisterAccess(
        0,
        "The connectivity design's BAR 0; step 4 of the integration puts them there.",
        offset=0xA000,
        stride=0x400,
    ),  # fmt: skip
    part="xc7vx690tffg1761-2",
    clock_mhz=250,
    max_ports=MAX_PORTS,
    default_ports=MAX_PORTS,
    clock_ratio=(Fraction(1), _SLOWEST),
)
