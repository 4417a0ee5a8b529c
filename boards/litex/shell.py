# SPDX-License-Identifier: BSD-2-Clause
"""Shell for a LiteX design, between two LiteEth MACs, which neither wait nor mark a bad frame."""

from typing import Any

from amaranth.hdl import Cat, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.attach.frame_queue import FrameQueue
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.axi_lite import AXI4Lite
from inceptionn.hdl.nic import Nic
from inceptionn.hdl.parts.axi import AXIStream

from ..shell_parts import EnginePair, clock_domain, link_registers

STORE_BYTES = 16384
"""Size of each queue of whole frames. A frame may fill it but for one beat."""


class LitexShell(wiring.Component):
    """An engine pair between two MACs of LiteEth's (``LiteEthMACCore``).

    ::

        s_axis_tx ─► register ─► lossy queue ─► compression engine ───────────────► m_axis_tx
        m_axis_rx ◄─ queue ◄─────────── decompression engine ◄─ lossy queue ◄─ register ◄─ s_axis_rx

    The registers part the MAC's check of a frame, twelve LUTs deep with 32 bits, from the queues' room.

    LiteEth's MAC loses data if its stream waits on receive, so ``tready`` of both inputs is always high, and
    a frame that finds no room is dropped, whole. On transmit it ignores ``error`` and would send any frame
    with a good check sequence, so a bad frame leaves on neither side: one from the host is dropped before
    the engine, one from the wire after it, as is one with a malformed block; the engine counts these.

    That is so with 8 lanes. An engine of one lane stores frames itself, so it needs no lossy queue, and an
    ECP5 has 16 block RAMs more to spare. It drops a bad frame before any register counts it.

    Throughput: one beat per cycle into each queue, then as the engine. A frame leaves without a gap. Latency
    of register and queue: the frame and 7 cycles.

    Parameters
    ----------
    shape : :class:`EngineShape`
        Of the engines: 1 or 8 lanes, so streams of 32 or 256 bits.
    """

    def __init__(self, shape: EngineShape):
        self.shape = shape
        stream = AXIStream(shape.bytes)
        super().__init__(
            {
                "clk": In(1),  #: Clock of all streams and registers.
                "rst": In(1),  #: Reset, active high.
                "s_axis_tx": In(stream),  #: Frames from the host; ``tuser`` with any beat: bad frame.
                "m_axis_tx": Out(stream),  #: Frames to the wire; ``tuser`` is 0.
                "s_axis_rx": In(stream),  #: Frames from the wire; ``tuser`` with any beat: bad frame.
                "m_axis_rx": Out(stream),  #: Frames to the host; ``tuser`` is 0.
                "s_axil": In(AXI4Lite()),  #: The registers.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        clock_domain(m, "sync", self.clk, self.rst)
        size = self.shape.bytes
        depth = STORE_BYTES // size
        m.submodules.to_host = to_host = FrameQueue(size, depth=depth, drop_bad=True)
        if self.shape.serial:
            m.submodules.engines = engines = Nic(self.shape, lossy=True)
            from_host, from_wire = engines.s_axis_tx, engines.s_axis_rx
        else:
            m.submodules.engines = engines = EnginePair(shape=self.shape)
            m.submodules.from_host = queue_tx = FrameQueue(size, depth=depth, lossy=True, drop_bad=True)
            m.submodules.from_wire = queue_rx = FrameQueue(size, depth=depth, lossy=True)
            wiring.connect(m, queue_tx.m_axis, engines.s_axis_tx)
            wiring.connect(m, queue_rx.m_axis, engines.s_axis_rx)
            from_host, from_wire = queue_tx.s_axis, queue_rx.s_axis
        link_registers(m, self.s_axil, engines.s_axil)
        self._enter(m, "tx", self.s_axis_tx, from_host)
        self._enter(m, "rx", self.s_axis_rx, from_wire)
        for source, sink in (
            (engines.m_axis_tx, wiring.flipped(self.m_axis_tx)),
            (engines.m_axis_rx, to_host.s_axis),
            (to_host.m_axis, wiring.flipped(self.m_axis_rx)),
        ):
            wiring.connect(m, source, sink)
        with m.If(ResetSignal()):  # AXI4-Stream requires it from the first cycle of a reset
            m.d.comb += [self.m_axis_tx.tvalid.eq(0), self.m_axis_rx.tvalid.eq(0)]
        return m

    @staticmethod
    def _enter(m: Module, name: str, source: Any, sink: Any) -> None:
        """Register an input for a sink that is always ready; a mark of any beat goes to the frame's last."""
        bad = Signal(name=f"{name}_bad")  # an earlier beat of the frame had the mark
        marked = source.tuser | bad
        given = Cat(source.tdata, source.tkeep, source.tlast, marked)
        there = Signal(name=f"{name}_there")
        beat = Signal(len(given), name=f"{name}_beat", reset_less=True)
        m.d.sync += [there.eq(source.tvalid), beat.eq(given)]
        m.d.comb += [
            source.tready.eq(1),
            sink.tvalid.eq(there),
            Cat(sink.tdata, sink.tkeep, sink.tlast, sink.tuser).eq(beat),
        ]
        with m.If(source.tvalid):
            m.d.sync += bad.eq(~source.tlast & marked)
