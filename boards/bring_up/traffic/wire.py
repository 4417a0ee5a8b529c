# SPDX-License-Identifier: BSD-2-Clause
"""The path between the two engines: it announces and measures each block, and injects faults on command."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.parts.axi import AXIStream
from inceptionn.hdl.parts.pipeline import Pipeline
from inceptionn.hdl.parts.queue import PushQueue
from inceptionn.wire import BURST_BYTES

from .checker import BLOCK_BITS
from .pattern_source import LengthSequence
from .patterns import SourceConfig

COUNT_BITS = 16
"""Bits of a packet's lane count in the decompressor's ``tuser``."""


class BlockLength(wiring.Component):
    """Length in bytes of every packet on a stream that it watches, ``LATENCY`` cycles after the last beat."""

    LATENCY = 3

    fire: In(1)  #: A beat is handed over.
    tkeep: In(BURST_BYTES)  #: Of the beat. It must have its low bits set.
    tlast: In(1)  #: The beat is its block's last.
    bytes: Out(BLOCK_BITS)  #: Bytes of the block, with ``done``.
    beat_bytes: Out(6)  #: Bytes of the beat ``LATENCY`` cycles ago, 0 in cycles without one.
    done: Out(1)  #: One cycle: a block is complete.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        p = Pipeline(m, control={"last"})
        p.let(last=self.fire & self.tlast)
        p.stage(keep=self.tkeep & self.fire.replicate(BURST_BYTES))
        # The edge of a thermometer is one-hot; its place is encoded by OR.
        edge = Cat(p.keep[i] & ~(p.keep[i + 1] if i + 1 < BURST_BYTES else 0) for i in range(BURST_BYTES))
        places = range(1, BURST_BYTES + 1)
        p.stage(length=Cat(Cat(edge[n - 1] for n in places if n >> bit & 1).any() for bit in range(6)))
        total = Signal(BLOCK_BITS)
        summed = (total + p.length)[:BLOCK_BITS]
        m.d.sync += [
            total.eq(Mux(p.last, 0, summed)),
            self.bytes.eq(summed),
            self.beat_bytes.eq(p.length),
            self.done.eq(p.last),
        ]
        return m


class Wire(wiring.Component):
    """Hands blocks from the compressor to the decompressor, with the lane count in ``tuser``."""

    config: In(SourceConfig)  #: What the lane counts follow from.
    s_axis: In(AXIStream(BURST_BYTES))  #: Blocks from the compressor.
    #: Blocks to the decompressor; ``tuser`` is the lane count.
    m_axis: Out(AXIStream(BURST_BYTES, COUNT_BITS))
    corrupt: In(1)  #: Invert bit 0 of the next block that begins.
    corrupted: Out(1)  #: One cycle: done.
    stall: In(1)  #: Pass nothing on, except a beat that is offered already.
    beat_bytes: Out(6)  #: Bytes of the beat passed on 3 cycles ago, 0 in cycles without one.
    block_bytes: Out(stream.Signature(BLOCK_BITS))  #: Each block's length, 5 cycles after its last beat.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        blocks, taken = self.s_axis, self.m_axis
        m.submodules.counts = counts = LengthSequence()
        m.submodules.measure = measure = BlockLength()
        # Larger than what the decompressor can hold at once: 32 block ends, 32 bursts, and its pipeline.
        m.submodules.lengths = lengths = PushQueue(BLOCK_BITS, 128, slack=BlockLength.LATENCY + 3)
        # A beat that is offered stays unchanged, whatever command comes meanwhile.
        first = Signal(init=1)
        offered = Signal()
        fire = Signal()
        flow = Signal()
        broken = Signal()
        kept = Signal()
        m.d.comb += [
            flow.eq(offered | (lengths.room & ~self.stall)),
            fire.eq(taken.tvalid & taken.tready),
            broken.eq(Mux(offered, kept, self.corrupt & first)),
            taken.tvalid.eq(blocks.tvalid & flow),
            blocks.tready.eq(taken.tready & flow),
            taken.tdata.eq(blocks.tdata ^ broken),
            taken.tkeep.eq(blocks.tkeep),
            taken.tlast.eq(blocks.tlast),
            taken.tuser.eq(counts.lanes),
            self.corrupted.eq(fire & broken),
            counts.config.eq(self.config),
            counts.step.eq(fire & blocks.tlast),
            measure.fire.eq(fire),
            measure.tkeep.eq(blocks.tkeep),
            measure.tlast.eq(blocks.tlast),
            self.beat_bytes.eq(measure.beat_bytes),
            lengths.i.valid.eq(measure.done),
            lengths.i.payload.eq(measure.bytes),
        ]
        wiring.connect(m, lengths.o, wiring.flipped(self.block_bytes))
        m.d.sync += [offered.eq(taken.tvalid & ~taken.tready), kept.eq(broken)]
        with m.If(fire):
            m.d.sync += first.eq(blocks.tlast)
        return m
