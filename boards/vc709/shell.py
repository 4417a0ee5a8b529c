# SPDX-License-Identifier: BSD-2-Clause
"""Shell for the connectivity reference NIC of the VC709 (UG962): between packet DMA and virtual FIFO."""

from typing import Any

from amaranth.hdl import DomainRenamer, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.attach.clock_crossing import StreamCrossing, reset_seen
from inceptionn.hdl.attach.frame_guard import FrameGuard
from inceptionn.hdl.control.axi_lite import AXI4Lite
from inceptionn.wire import BURST_BYTES

from ..shell_parts import PAGE_WIDTH, EnginePair, TargetStream, clock_domain, link, share_registers

MAX_PORTS = 4
ADDRESS_WIDTH = 12
"""The shell's aperture: 4 KiB, which fits the reference design's unmapped 0xA000 to 0xAFFF."""
S2C_USER_WIDTH = 64
"""The descriptor's user word, from the driver; nothing after the shell reads it."""


class Vc709Shell(wiring.Component):
    """One engine pair per port, in the streams of the reference NIC.

    S2C ("system to card") leads to the wire through the compression engine, C2S to the host through the
    decompression engine. A direction's reset affects that direction only. A frame that it cuts ends in the
    engine as a bad one. Frames in flight after the engine wait and leave afterwards, from the beginning of a
    frame. Only both resets of a port together reset its engine pair, registers included.

    Neither output stream has ``tuser``. A bad frame, or one with a malformed block, leaves with the lowest
    bit of its last byte inverted. So the receiving stack's checksum test refuses it, also where the damage
    left the sum as it was.

    Parameters
    ----------
    ports : :class:`int`
        1 to 4.
    engine_clock : :class:`bool`
        The engines run from the port ``engine_clk``, each stream through an asynchronous queue.
    """

    def __init__(self, ports: int = MAX_PORTS, *, engine_clock: bool = False):
        if not 1 <= ports <= MAX_PORTS:
            raise ValueError(f"ports must be 1..{MAX_PORTS}, not {ports!r}")
        self.ports = ports
        self.engine_clock = engine_clock
        members: dict[str, Any] = {"user_clk": In(1)}  #: Clock of all streams, 250 MHz.
        if engine_clock:
            members["engine_clk"] = In(1)  #: With ``engine_clock``: clock of the engines.
            #: With ``engine_clock``: low until the clock is stable. A frame that it cuts is ended by one
            #: more beat, and its rest is not read as a frame.
            members["engine_aresetn"] = In(1)
        plain = TargetStream(BURST_BYTES)
        for n in range(ports):
            members |= {
                #: Resets both ends of the direction; at least 8 cycles of ``user_clk`` (Xilinx: 16).
                f"s2c{n}_aresetn": In(1),
                f"c2s{n}_aresetn": In(1),  #: Likewise of the other direction.
                #: Frames from the packet DMA.
                f"s_axis_s2c{n}": In(TargetStream(BURST_BYTES, S2C_USER_WIDTH)),
                f"m_axis_s2c{n}": Out(plain),  #: Frames to the wire.
                f"s_axis_c2s{n}": In(plain),  #: Frames from the wire.
                f"m_axis_c2s{n}": Out(plain),  #: Frames to the packet DMA.
            }
        members |= {
            "s_axil_aclk": In(1),  #: Any clock.
            "s_axil_aresetn": In(1),  #: Its reset, active low.
            "s_axil": In(AXI4Lite(ADDRESS_WIDTH)),  #: Port n's registers from ``0x400 * n`` on.
        }
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        engines = []
        for n in range(self.ports):
            both = ~getattr(self, f"s2c{n}_aresetn") & ~getattr(self, f"c2s{n}_aresetn")
            clock_domain(m, f"user{n}", self.user_clk, both)
            stopped: Any = 0
            if self.engine_clock:
                clock_domain(m, f"engine{n}", self.engine_clk, both | ~self.engine_aresetn)
                stopped = reset_seen(m, f"stopped{n}", ResetSignal(f"engine{n}"), f"user{n}", f"engine{n}")
            engine = EnginePair(f"engine{n}" if self.engine_clock else f"user{n}")
            m.submodules[f"engines{n}"] = engine
            engines.append(engine)
            self._way(m, f"s2c{n}", engine.s_axis_tx, engine.m_axis_tx, stopped, n)
            self._way(m, f"c2s{n}", engine.s_axis_rx, engine.m_axis_rx, stopped, n)
        clock_domain(m, "axil", self.s_axil_aclk, ~self.s_axil_aresetn)
        share_registers(m, self.s_axil, engines, page_width=PAGE_WIDTH)
        return m

    def _way(self, m: Module, way: str, to_engine: Any, from_engine: Any, stopped: Any, n: int) -> None:
        """Connect one direction of a port.

        Guards at both ends handle its own reset and the engines'.
        """
        aresetn = getattr(self, f"{way}_aresetn")
        source, sink = getattr(self, f"s_axis_{way}"), getattr(self, f"m_axis_{way}")
        in_reset = reset_seen(m, f"{way}_in_reset", ~aresetn, f"user{n}")
        entry, leave = (DomainRenamer(f"user{n}")(FrameGuard()) for _ in range(2))
        m.submodules[f"{way}_entry"], m.submodules[f"{way}_exit"] = entry, leave
        m.d.comb += [
            entry.source_reset.eq(in_reset),
            entry.sink_reset.eq(stopped),
            leave.source_reset.eq(stopped),
            leave.sink_reset.eq(in_reset),
        ]
        link(m, source, entry.s_axis, user=0)
        if self.engine_clock:
            there = StreamCrossing(write_domain=f"user{n}", read_domain=f"engine{n}")
            back = StreamCrossing(write_domain=f"engine{n}", read_domain=f"user{n}")
            m.submodules[f"{way}_to_engine"], m.submodules[f"{way}_from_engine"] = there, back
            wiring.connect(m, entry.m_axis, there.s_axis)
            wiring.connect(m, there.m_axis, to_engine)
            wiring.connect(m, from_engine, back.s_axis)
            wiring.connect(m, back.m_axis, leave.s_axis)
        else:
            wiring.connect(m, entry.m_axis, to_engine)
            wiring.connect(m, from_engine, leave.s_axis)
        link(m, leave.m_axis, sink)
        keep = leave.m_axis.tkeep
        spoils = leave.m_axis.tlast & leave.m_axis.tuser
        for i in range(BURST_BYTES):
            ends = keep[i] & ~keep[i + 1] if i + 1 < BURST_BYTES else keep[i]
            m.d.comb += sink.tdata[8 * i].eq(leave.m_axis.tdata[8 * i] ^ (spoils & ends))
        # AXI4-Stream requires it low from the first cycle of a reset, before the guard reacts.
        m.d.comb += sink.tvalid.eq(leave.m_axis.tvalid & aresetn)
