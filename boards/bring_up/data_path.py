# SPDX-License-Identifier: BSD-2-Clause
"""Pattern source, compressor, decompressor and checker in a row."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.codec.standalone_compressor import StandaloneCompressor
from inceptionn.hdl.codec.standalone_decompressor import StandaloneDecompressor
from inceptionn.wire import BURST_BYTES

from .registers import Fault
from .traffic.checker import Checker, CheckEvents
from .traffic.pattern_source import PatternSource, present
from .traffic.patterns import SourceConfig
from .traffic.wire import Wire


class DataPathConfig(data.Struct):
    """Settings of the sources, the engines and the checker."""

    source: SourceConfig  #: What is sent.
    t: 8  #: :class:`inceptionn.wire.paper.Parameters`.
    k: 4  #: Error bound ``2**-k``.


class Probe(wiring.Signature):
    """A stream as a logic analyser sees it: ``fire`` marks the cycles in which a beat is handed over."""

    def __init__(self) -> None:
        super().__init__(
            {"fire": Out(1), "tdata": Out(8 * BURST_BYTES), "tkeep": Out(BURST_BYTES), "tlast": Out(1)}
        )


def _probe(m: Module, probe: Any, stream: Any) -> None:
    m.d.comb += [
        probe.fire.eq(stream.tvalid & stream.tready),
        probe.tdata.eq(stream.tdata),
        probe.tkeep.eq(stream.tkeep),
        probe.tlast.eq(stream.tlast),
    ]


class DataPath(wiring.Component):
    """Source, compressor, decompressor, checker: one beat of values per cycle goes round.

    Reset it to start; :attr:`config` must not change while it is out of reset.
    """

    config: In(DataPathConfig)  #: Constant except in reset.
    run: In(1)  #: Packets are sent; when it falls, a packet in flight is finished.
    inject: In(1)  #: One cycle: inject ``fault``.
    fault: In(2)  #: A :class:`Fault`.
    events: Out(CheckEvents)  #: What the checker found.
    wire_bytes: Out(6)  #: Bytes of a beat between the engines; 0 without one.
    sent: Out(1)  #: One cycle for each packet that has gone into the compressor.
    probe_sent: Out(Probe())  #: The stream into the compressor, for a logic analyser or a test bench.
    probe_wire: Out(Probe())  #: The stream between the engines, likewise.
    probe_restored: Out(Probe())  #: The stream out of the decompressor, likewise.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config = self.config
        m.submodules.source = source = PatternSource(expectation=False)
        m.submodules.compressor = compressor = StandaloneCompressor()
        m.submodules.decompressor = decompressor = StandaloneDecompressor()
        m.submodules.checker = checker = Checker()
        m.submodules.expected = expected = PatternSource(expectation=True)

        stream, beat = compressor.s_axis, source.beats.payload
        m.d.comb += [
            source.config.eq(config.source),
            source.run.eq(self.run),
            stream.tvalid.eq(source.beats.valid),
            stream.tdata.eq(beat.values),
            stream.tkeep.eq(Cat(lane.replicate(4) for lane in present(beat))),
            stream.tlast.eq(beat.last),
            source.beats.ready.eq(stream.tready),
            compressor.cfg_e0.eq(config.source.e0),
            compressor.cfg_t.eq(config.t),
            compressor.cfg_b.eq(config.source.b),
            self.sent.eq(stream.tvalid & stream.tready & stream.tlast),
        ]
        _probe(m, self.probe_sent, stream)

        armed = {fault: self._armed(m, fault) for fault in Fault}
        m.submodules.wire = wire = Wire()
        wiring.connect(m, compressor.m_axis, wire.s_axis)
        wiring.connect(m, wire.m_axis, decompressor.s_axis)
        _probe(m, self.probe_wire, wire.m_axis)
        m.d.comb += [
            wire.config.eq(config.source),
            wire.corrupt.eq(armed[Fault.WIRE]),
            wire.stall.eq(armed[Fault.STALL]),
            self.wire_bytes.eq(wire.beat_bytes),
        ]
        with m.If(wire.corrupted):
            m.d.sync += armed[Fault.WIRE].eq(0)
        base = Signal(8)
        m.d.sync += base.eq(config.source.b + armed[Fault.BASE])
        m.d.comb += decompressor.cfg_b.eq(base)

        wiring.connect(m, decompressor.m_axis, checker.s_axis)
        wiring.connect(m, expected.beats, checker.expected)
        wiring.connect(m, wire.block_bytes, checker.block_bytes)
        _probe(m, self.probe_restored, decompressor.m_axis)
        m.d.comb += [
            checker.k.eq(config.k),
            expected.config.eq(config.source),
            # Only sent packets are expected back: the source runs ahead, as far as its queue has room.
            expected.run.eq(1),
            checker.flip.eq(armed[Fault.VALUE]),
            self.events.eq(checker.events),
        ]
        with m.If(self.probe_restored.fire & armed[Fault.VALUE]):
            m.d.sync += armed[Fault.VALUE].eq(0)
        return m

    def _armed(self, m: Module, fault: Fault) -> Signal:
        """Set by ``inject``; cleared by the fault's execution or by the next start."""
        armed = Signal(name=f"armed_{fault.name.lower()}")
        with m.If(self.inject & (self.fault == fault)):
            m.d.sync += armed.eq(1)
        return armed
