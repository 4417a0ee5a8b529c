# SPDX-License-Identifier: BSD-2-Clause
"""Pattern source, compressor, decompressor and checker in a row."""

from enum import IntEnum
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.boards.bring_up.checker import BLOCK_BITS, Checker, CheckEvents
from inceptionn.boards.bring_up.pattern_source import LengthSequence, PatternSource, present
from inceptionn.boards.bring_up.patterns import SourceConfig
from inceptionn.hdl.compressor import StandaloneCompressor
from inceptionn.hdl.decompressor import Decompressor
from inceptionn.hdl.delay import delayed
from inceptionn.hdl.queue import PushQueue
from inceptionn.wire import BURST_BYTES


class Fault(IntEnum):
    """What the command ``inject`` breaks."""

    WIRE = 0
    """Bit 0 of the next block on the wire, in the first lane's tag: its group changes its size."""
    VALUE = 1
    """Bit 0 of the next restored beat: the last mantissa bit of one value."""
    BASE = 2
    """The decompressor is told a B that is one too high, until the next start: 8-bit values double."""
    STALL = 3
    """Nothing passes between the engines any more, until the next start: a hang."""


class DataPathConfig(data.Struct):
    """What the sources are set to, and what engines and checker need besides.

    Members
    -------
    source : :class:`SourceConfig`
    t : 8 bits
        :class:`inceptionn.wire.Parameters`.
    k : 4 bits
        Error bound ``2**-k``.
    """

    source: SourceConfig
    t: 8
    k: 4


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


class BlockLength(wiring.Component):
    """Length in bytes of every packet on a stream that it looks at, ``LATENCY`` cycles after the last beat.

    Members
    -------
    fire, tkeep, tlast : :py:`In`
        A beat is handed over. ``tkeep`` must have its low bits set.
    bytes : :py:`Out(14)`
    beat_bytes : :py:`Out(6)`
        Of the beat ``LATENCY`` cycles ago, 0 in cycles without one.
    done : :py:`Out(1)`
    """

    LATENCY = 3

    fire: In(1)
    tkeep: In(BURST_BYTES)
    tlast: In(1)
    bytes: Out(BLOCK_BITS)
    beat_bytes: Out(6)
    done: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        keep1 = Signal(BURST_BYTES, reset_less=True)
        m.d.sync += keep1.eq(self.tkeep & self.fire.replicate(BURST_BYTES))
        # The edge of a thermometer is one-hot; its place is encoded by OR.
        edge = Cat(keep1[i] & ~(keep1[i + 1] if i + 1 < BURST_BYTES else 0) for i in range(BURST_BYTES))
        length2 = Signal(6, reset_less=True)
        places = range(1, BURST_BYTES + 1)
        m.d.sync += length2.eq(
            Cat(Cat(edge[n - 1] for n in places if n >> bit & 1).any() for bit in range(6))
        )
        last2 = delayed(m, self.fire & self.tlast, 2, name="last", reset=True)
        total = Signal(BLOCK_BITS)
        summed = (total + length2)[:BLOCK_BITS]
        m.d.sync += [
            total.eq(Mux(last2, 0, summed)),
            self.bytes.eq(summed),
            self.beat_bytes.eq(length2),
            self.done.eq(last2),
        ]
        return m


class DataPath(wiring.Component):
    """Source, compressor, decompressor, checker: one beat of values per cycle goes round.

    Reset it to start; :attr:`config` must not change while it is out of reset.

    Members
    -------
    config : :py:`In(DataPathConfig)`
    run : :py:`In(1)`
        Packets are sent; one under way is finished.
    inject : :py:`In(1)`
        One cycle: break what ``fault`` says.
    fault : :py:`In(2)`
        A :class:`Fault`.
    events : :py:`Out(CheckEvents)`
    wire_bytes : :py:`Out(6)`
        Bytes of a beat between the engines; 0 without one.
    sent : :py:`Out(1)`
        One cycle for each packet that has gone into the compressor.
    probe_sent, probe_wire, probe_restored : :py:`Out(Probe())`
        The three streams, for a logic analyser or a test bench.
    """

    config: In(DataPathConfig)
    run: In(1)
    inject: In(1)
    fault: In(2)
    events: Out(CheckEvents)
    wire_bytes: Out(6)
    sent: Out(1)
    probe_sent: Out(Probe())
    probe_wire: Out(Probe())
    probe_restored: Out(Probe())

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config = self.config
        m.submodules.source = source = PatternSource(expectation=False)
        m.submodules.compressor = compressor = StandaloneCompressor()
        m.submodules.decompressor = decompressor = Decompressor()
        m.submodules.checker = checker = Checker()
        m.submodules.expected = expected = PatternSource(expectation=True)

        stream = compressor.s_axis
        m.d.comb += [
            source.config.eq(config.source),
            source.run.eq(self.run),
            stream.tvalid.eq(source.valid),
            stream.tdata.eq(source.beat.values),
            stream.tkeep.eq(Cat(lane.replicate(4) for lane in present(source.beat))),
            stream.tlast.eq(source.beat.last),
            source.pop.eq(stream.tready),
            compressor.cfg_e0.eq(config.source.e0),
            compressor.cfg_t.eq(config.t),
            compressor.cfg_b.eq(config.source.b),
            self.sent.eq(stream.tvalid & stream.tready & stream.tlast),
        ]
        _probe(m, self.probe_sent, stream)

        armed = {fault: self._armed(m, fault) for fault in Fault}
        lengths = self._wire(m, compressor.m_axis, decompressor.s_axis, config.source, armed)
        base = Signal(8)
        m.d.sync += base.eq(config.source.b + armed[Fault.BASE])
        m.d.comb += decompressor.cfg_b.eq(base)

        wiring.connect(m, decompressor.m_axis, checker.s_axis)
        _probe(m, self.probe_restored, decompressor.m_axis)
        m.d.comb += [
            checker.k.eq(config.k),
            expected.config.eq(config.source),
            # What is told to come back is what was sent: the source runs on as far as its queue lets it.
            expected.run.eq(1),
            expected.pop.eq(checker.expected_pop),
            checker.expected_valid.eq(expected.valid),
            checker.expected.eq(expected.beat),
            checker.block_bytes.eq(lengths.data),
            checker.block_bytes_valid.eq(lengths.valid),
            lengths.pop.eq(checker.block_bytes_pop),
            checker.flip.eq(armed[Fault.VALUE]),
            self.events.eq(checker.events),
        ]
        with m.If(self.probe_restored.fire & armed[Fault.VALUE]):
            m.d.sync += armed[Fault.VALUE].eq(0)
        return m

    def _armed(self, m: Module, fault: Fault) -> Signal:
        """Set by ``inject``; whoever breaks something clears it, or the next start does."""
        armed = Signal(name=f"armed_{fault.name.lower()}")
        with m.If(self.inject & (self.fault == fault)):
            m.d.sync += armed.eq(1)
        return armed

    def _wire(
        self, m: Module, blocks: Any, taken: Any, config: Value, armed: dict[Fault, Signal]
    ) -> PushQueue:
        """Compressor to decompressor: announce the lane count, measure the block, break it if told to."""
        m.submodules.counts = counts = LengthSequence()
        m.submodules.measure = measure = BlockLength()
        # More than the decompressor can hold at once: 32 block ends, 32 bursts, and its pipeline.
        m.submodules.lengths = lengths = PushQueue(BLOCK_BITS, 128, slack=BlockLength.LATENCY + 2)
        first = Signal(init=1)
        fire, flow = Signal(), Signal()
        m.d.comb += [
            flow.eq(lengths.room & ~armed[Fault.STALL]),
            fire.eq(blocks.tvalid & taken.tready & flow),
            taken.tvalid.eq(blocks.tvalid & flow),
            blocks.tready.eq(taken.tready & flow),
            taken.tdata.eq(blocks.tdata ^ (armed[Fault.WIRE] & first)),
            taken.tkeep.eq(blocks.tkeep),
            taken.tlast.eq(blocks.tlast),
            taken.tuser.eq(counts.lanes),
            counts.config.eq(config),
            counts.step.eq(fire & blocks.tlast),
            measure.fire.eq(fire),
            measure.tkeep.eq(blocks.tkeep),
            measure.tlast.eq(blocks.tlast),
            lengths.push.eq(measure.done),
            lengths.push_data.eq(measure.bytes),
            self.wire_bytes.eq(measure.beat_bytes),
        ]
        with m.If(fire):
            m.d.sync += first.eq(blocks.tlast)
        with m.If(fire & first & armed[Fault.WIRE]):
            m.d.sync += armed[Fault.WIRE].eq(0)
        _probe(m, self.probe_wire, taken)
        return lengths
