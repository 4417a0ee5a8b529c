# SPDX-License-Identifier: BSD-2-Clause
"""Shell for the connectivity reference NIC of the VC709 (UG962): between packet DMA and virtual FIFO."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.boards.shells.common import (
    PAGE_WIDTH,
    EnginePair,
    TargetStream,
    clock_domain,
    link,
    share_registers,
)
from inceptionn.hdl.axi_lite import AXI4Lite
from inceptionn.hdl.clock_crossing import StreamCrossing
from inceptionn.wire import BURST_BYTES

MAX_PORTS = 4
ADDRESS_WIDTH = 12
"""The shell's aperture: 4 KiB, which fits the reference design's unmapped 0xA000 to 0xAFFF."""
S2C_USER_WIDTH = 64
"""The descriptor's user word, from the driver; nothing behind the shell reads it."""


class Vc709Shell(wiring.Component):
    """One engine pair per port, in the streams of the reference NIC.

    S2C ("system to card") runs to the wire through the compression engine, C2S to the host through the
    decompression engine. Either reset of a port resets its engine pair, registers included. Neither
    stream out has ``tuser``: a frame whose block was malformed reaches the host with a payload that its TCP
    or UDP checksum does not fit, and the stack drops it.

    Parameters
    ----------
    ports : :class:`int`
        1 to 4.
    engine_clock : :class:`bool`
        The engines run from the port ``engine_clk``, each stream through an asynchronous queue.

    Members
    -------
    user_clk : :py:`In(1)`
        Clock of all streams, 250 MHz.
    engine_clk, engine_aresetn : :py:`In(1)`
        With ``engine_clock``; the reset lasts until the clock is there.
    s2c{n}_aresetn, c2s{n}_aresetn : :py:`In(1)`
    s_axis_s2c{n} : :py:`In(TargetStream(32, 64))`
    m_axis_s2c{n} : :py:`Out(TargetStream(32))`
    s_axis_c2s{n} : :py:`In(TargetStream(32))`
    m_axis_c2s{n} : :py:`Out(TargetStream(32))`
    s_axil_aclk, s_axil_aresetn : :py:`In(1)`
        Any clock.
    s_axil : :py:`In(AXI4Lite(12))`
        Port n's registers from ``0x400 * n`` on.
    """

    def __init__(self, ports: int = MAX_PORTS, *, engine_clock: bool = False):
        if not 1 <= ports <= MAX_PORTS:
            raise ValueError(f"ports must be 1..{MAX_PORTS}, not {ports!r}")
        self.ports = ports
        self.engine_clock = engine_clock
        members: dict[str, Any] = {"user_clk": In(1)} | (
            {"engine_clk": In(1), "engine_aresetn": In(1)} if engine_clock else {}
        )
        plain = TargetStream(BURST_BYTES)
        for n in range(ports):
            members |= {
                f"s2c{n}_aresetn": In(1),
                f"c2s{n}_aresetn": In(1),
                f"s_axis_s2c{n}": In(TargetStream(BURST_BYTES, S2C_USER_WIDTH)),
                f"m_axis_s2c{n}": Out(plain),
                f"s_axis_c2s{n}": In(plain),
                f"m_axis_c2s{n}": Out(plain),
            }
        members |= {"s_axil_aclk": In(1), "s_axil_aresetn": In(1), "s_axil": In(AXI4Lite(ADDRESS_WIDTH))}
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        engines = []
        for n in range(self.ports):
            reset = ~getattr(self, f"s2c{n}_aresetn") | ~getattr(self, f"c2s{n}_aresetn")
            clock_domain(m, f"user{n}", self.user_clk, reset)
            if self.engine_clock:
                clock_domain(m, f"engine{n}", self.engine_clk, reset | ~self.engine_aresetn)
            domain = f"engine{n}" if self.engine_clock else f"user{n}"
            m.submodules[f"engines{n}"] = engine = EnginePair(domain)
            engines.append(engine)
            for way, to_engine, from_engine in (
                ("s2c", engine.s_axis_tx, engine.m_axis_tx),
                ("c2s", engine.s_axis_rx, engine.m_axis_rx),
            ):
                source, sink = getattr(self, f"s_axis_{way}{n}"), getattr(self, f"m_axis_{way}{n}")
                if self.engine_clock:
                    there = StreamCrossing(write_domain=f"user{n}", read_domain=domain)
                    back = StreamCrossing(write_domain=domain, read_domain=f"user{n}")
                    m.submodules[f"{way}{n}_to_engine"] = there
                    m.submodules[f"{way}{n}_from_engine"] = back
                    link(m, source, there.s_axis, user=0)
                    wiring.connect(m, there.m_axis, to_engine)
                    wiring.connect(m, from_engine, back.s_axis)
                    link(m, back.m_axis, sink)
                else:
                    link(m, source, to_engine, user=0)
                    link(m, from_engine, sink)
        clock_domain(m, "axil", self.s_axil_aclk, ~self.s_axil_aresetn)
        share_registers(m, self.s_axil, engines, page_width=PAGE_WIDTH)
        return m
