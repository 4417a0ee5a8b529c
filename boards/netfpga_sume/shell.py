# SPDX-License-Identifier: BSD-2-Clause
"""Shell for the NetFPGA-SUME reference NIC: between output port lookup and output queues."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.attach.frame_queue import FrameQueue
from inceptionn.hdl.attach.user_forwarder import UserForwarder
from inceptionn.hdl.control.axi_lite import AXI4Lite
from inceptionn.hdl.control.registers import ADDRESS_WIDTH
from inceptionn.hdl.parts.axi import AXIStream
from inceptionn.wire import BURST_BYTES

from ..shell_parts import EnginePair, TargetStream, clock_domain, link, share_registers

USER_WIDTH = 128
LENGTH_WIDTH = 16
"""``tuser[15:0]``: bytes of the frame. Above it source port (23:16) and destination ports (31:24)."""
CPU_PORTS = 0xAA
"""Destination bits of the host's queues: the odd ones. The even ones are the cages."""
DESTINATION = slice(24, 32)
FRAMES = 256
"""Whole frames, of two beats or more, that the queue after an engine holds."""


class _Way(wiring.Component):
    """One direction: ``tuser`` bypasses the engine; whole frames and their lengths are queued after it."""

    def __init__(self) -> None:
        target = AXIStream(BURST_BYTES, USER_WIDTH)
        super().__init__(
            {
                "s_axis": In(target),  #: From the target.
                "to_engine": Out(AXIStream()),  #: To the engine.
                "from_engine": In(AXIStream()),  #: From the engine.
                "m_axis": Out(target),  #: To the target.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width = USER_WIDTH - LENGTH_WIDTH
        m.submodules.user = user = UserForwarder(BURST_BYTES, width, bad_bit=True)
        m.submodules.frames = frames = FrameQueue(drop_bad=True, word_width=width, frames=FRAMES)
        link(m, self.s_axis, user.s_axis, user=Cat(0, self.s_axis.tuser[LENGTH_WIDTH:]))
        wiring.connect(m, user.to_engine, wiring.flipped(self.to_engine))
        wiring.connect(m, wiring.flipped(self.from_engine), user.from_engine)
        link(m, user.m_axis, frames.s_axis, user=user.m_axis.tuser[0])
        m.d.comb += frames.s_word.eq(user.m_axis.tuser[1:])
        link(m, frames.m_axis, self.m_axis, user=Cat(frames.length[:LENGTH_WIDTH], frames.word))
        return m


class NetfpgaSumeShell(wiring.Component):
    """One engine pair for all ports of the reference NIC, which here share one stream.

    A frame for the host (an odd bit among its destination ports) passes through the decompression engine, any
    other frame through the compression engine. Each is stored after its engine until its new length is known,
    then leaves with that length in ``tuser``. The rest of ``tuser`` is that of its first beat, on all beats.
    Frames of a direction stay in order. A frame with a malformed block is dropped, since these streams
    cannot mark bad frames; ``RX_MALFORMED`` counts it. A frame of more than 16 KB is dropped, too.
    """

    def __init__(self) -> None:
        stream = TargetStream(BURST_BYTES, USER_WIDTH)
        super().__init__(
            {
                "axis_aclk": In(1),  #: Clock of both streams.
                "axis_resetn": In(1),  #: Their reset, active low.
                "s_axis": In(stream),  #: From output port lookup.
                "m_axis": Out(stream),  #: To the output queues.
                "s_axi_aclk": In(1),  #: Any clock.
                "s_axi_aresetn": In(1),  #: Its reset, active low.
                "s_axi": In(AXI4Lite(ADDRESS_WIDTH)),  #: The NIC's registers.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        clock_domain(m, "sync", self.axis_aclk, ~self.axis_resetn)
        clock_domain(m, "axil", self.s_axi_aclk, ~self.s_axi_aresetn)
        m.submodules.engines = engine = EnginePair()
        m.submodules.transmit = transmit = _Way()
        m.submodules.receive = receive = _Way()
        wiring.connect(m, transmit.to_engine, engine.s_axis_tx)
        wiring.connect(m, engine.m_axis_tx, transmit.from_engine)
        wiring.connect(m, receive.to_engine, engine.s_axis_rx)
        wiring.connect(m, engine.m_axis_rx, receive.from_engine)
        share_registers(m, self.s_axi, [engine], page_width=ADDRESS_WIDTH)
        self._split(m, transmit.s_axis, receive.s_axis)
        self._merge(m, transmit.m_axis, receive.m_axis)
        return m

    def _split(self, m: Module, transmit: Any, receive: Any) -> None:
        """Select the frame's destination by its first beat; the others follow it."""
        source = self.s_axis
        first = Signal(init=1)
        to_host = Signal()
        kept = Signal()
        m.d.comb += to_host.eq(Mux(first, (source.tuser[DESTINATION] & CPU_PORTS).any(), kept))
        for way, chosen in ((transmit, ~to_host), (receive, to_host)):
            m.d.comb += [
                way.tdata.eq(source.tdata),
                way.tkeep.eq(source.tkeep),
                way.tlast.eq(source.tlast),
                way.tuser.eq(source.tuser),
                way.tvalid.eq(source.tvalid & chosen),
            ]
        m.d.comb += source.tready.eq(Mux(to_host, receive.tready, transmit.tready))
        with m.If(source.tvalid & source.tready):
            m.d.sync += [first.eq(source.tlast), kept.eq(to_host)]

    def _merge(self, m: Module, transmit: Any, receive: Any) -> None:
        """Send whole frames in turn.

        A choice holds from the cycle in which it is offered to its last beat.
        """
        sink = self.m_axis
        bound = Signal()
        before = Signal()
        to_host = Signal()
        free_choice = Mux(before, ~transmit.tvalid, receive.tvalid)
        m.d.comb += to_host.eq(Mux(bound, before, free_choice))
        for way, chosen in ((transmit, ~to_host), (receive, to_host)):
            m.d.comb += way.tready.eq(sink.tready & chosen)
            with m.If(chosen):
                m.d.comb += [
                    getattr(sink, name).eq(getattr(way, name))
                    for name in ("tdata", "tkeep", "tlast", "tuser", "tvalid")
                ]
        with m.If(ResetSignal()):  # AXI4-Stream requires it from the first cycle of a reset
            m.d.comb += sink.tvalid.eq(0)
        m.d.sync += bound.eq(sink.tvalid & ~(sink.tready & sink.tlast))
        with m.If(sink.tvalid):
            m.d.sync += before.eq(to_host)
