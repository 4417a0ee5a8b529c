# SPDX-License-Identifier: BSD-2-Clause
"""Words of a payload in, a block out: what the serial compressors of both codecs share."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import GROUP_LANES, MAX_LANES

from ..codec.compressor import CodecParameters
from ..codec.shape import EngineShape
from ..parts.checksum import add16
from ..parts.delay import delayed
from ..parts.memory import BlockRam
from ..parts.pipeline import Pipeline
from .byte_packer import BytePacker

STORE_WORDS = 4096
"""Words of 4 bytes of a block's store: the longest block, 9360 bytes, from byte 2 on."""


class BlockWrite(data.Struct):
    """A word of a block, which begins at byte 2 of word 0."""

    address: range(STORE_WORDS)
    data: 32  # zero in a half that is not written
    halves: 2  # the 16-bit halves that are written


class WordSum(wiring.Component):
    """Sums 32-bit words, one a cycle: their little-endian 16-bit halves modulo 65535.

    It has no end-around carry: 44 bits hold the sum of 4096 words, and are folded once.
    """

    LATENCY = 3

    start: In(1)  #: Clears the sum.
    valid: In(1)  #: Adds ``word`` and ``carry``.
    word: In(32)  #: Two halves.
    carry: In(1)  #: 1 more.
    sum: Out(16)  #: Folded, :attr:`LATENCY` cycles after the last word; 0 only if every word was 0.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        total = Signal(44)
        halves = Signal(17, reset_less=True)
        self.probes = {"total": total}
        with m.If(self.start):
            m.d.sync += total.eq(0)
        with m.Elif(self.valid):
            m.d.sync += total.eq((Cat(self.carry, total) + Cat(self.carry, self.word))[1:])
        m.d.sync += [
            halves.eq(total[:16] + total[16:32]),
            self.sum.eq(add16(halves[:16], total[32:] + halves[16])),
        ]
        return m


class Encoded(NamedTuple):
    """What a codec makes of the slots of a group, in step: eight of data, then one of its table."""

    data: Value
    """Bytes of the slot, zero above ``size``."""
    size: Value
    """0 to 4."""
    table: Value
    """In the group's last slot: its 16-bit word of the table, up to this group."""
    full: Value
    """Likewise: the word has room for no other group."""


class Compressor(wiring.Component):
    """Compresses one payload after the other, 8 words in 9 cycles.

    ::

        request ··► word ─► codec ─┬─ 0 to 4 bytes ─► BytePacker ─┬─► writes ─► sum
                                   └─ words of the table ─────────┘

    The table's words are written in the ninth cycle, in which there are no data. The place of the data
    follows from the payload's length. Base of :class:`.paper.compressor.Compressor` and
    :class:`.planes.compressor.Compressor`.

    Latency: :attr:`latency` cycles from ``start`` to ``done``, and 9 for each group of 8 words.
    """

    WORD_LATENCY = BlockRam.LATENCY
    """Cycles from ``request`` to ``word``."""
    TABLE_WORDS = GROUP_LANES
    """Words of the payload for each 16-bit word of the table."""
    LAG = 0
    """Groups by which what is sent follows what comes in."""

    def __init__(self, shape: EngineShape):
        self.shape = shape
        super().__init__(
            {
                "parameters": In(CodecParameters),  #: Hold from ``start`` to ``done``.
                "start": In(1),  #: A payload begins. Not before the previous block is done.
                "count": In(range(MAX_LANES + 1)),  #: The payload's words, at least 1; holds until ``done``.
                "request": Out(1),  #: The payload's next word is wanted.
                "word": In(32),  #: :attr:`WORD_LATENCY` cycles after its request.
                "writes": Out(stream.Signature(BlockWrite, always_ready=True)),  #: The block.
                "done": Out(1),  #: For one cycle: the block is written, and ``statistics`` hold.
                "statistics": Out(shape.codec.statistics),  #: From ``done`` to the next ``start``.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        p = self._slots(m)
        m.submodules.cleared = self._cleared = WordSum()
        m.d.comb += self._cleared.start.eq(self.start)
        encoded = self._encode(m, p)
        size, sends, ending = encoded.size, p.sends, p.sent & p.final
        p.let(table_half=encoded.table, table_written=p.sent & (encoded.full | p.final))

        # The table stands from half 1 of the store on; then come the data.
        table_halves = (self.count + self.TABLE_WORDS - 1)[exact_log2(self.TABLE_WORDS) :]
        data_at = Signal(range(2 + MAX_LANES // self.TABLE_WORDS))
        m.d.comb += data_at.eq(table_halves + 1)
        m.submodules.packer = packer = BytePacker()
        ends = Signal()
        length = Signal(14)
        m.d.sync += ends.eq(ending)
        with m.If(self.start):
            m.d.sync += length.eq(table_halves << 1)
        with m.Elif(sends):
            m.d.sync += length.eq(length + size)
        m.d.comb += [
            packer.start.eq(self.start),
            packer.place.eq(data_at[0]),
            packer.pieces.valid.eq(sends | ends),
            packer.pieces.payload.data.eq(encoded.data),
            packer.pieces.payload.size.eq(size),
            packer.pieces.payload.ends.eq(ends),
        ]
        for _ in range(BytePacker.LATENCY):
            p.stage()

        # In the slot of the table the packer has no word.
        writes, packed = self.writes.payload, packer.words
        data_word = Signal.like(writes.address, reset_less=True)
        table_half = Signal.like(data_at, reset_less=True)
        table, half = p.table_written, p.table_half
        with m.If(self.start):
            m.d.sync += [data_word.eq(data_at[1:]), table_half.eq(1)]
        with m.Else():
            m.d.sync += [data_word.eq(data_word + packed.valid), table_half.eq(table_half + table)]
        m.d.sync += [
            self.writes.valid.eq(packed.valid | table),
            writes.address.eq(Mux(table, table_half[1:], data_word)),
            writes.halves.eq(
                Mux(
                    table,
                    Cat(~table_half[0], table_half[0]),
                    Cat(~(packed.payload.begins & data_at[0]), Const(1, 1)),
                )
            ),
            writes.data.eq(
                Mux(
                    table,
                    Mux(table_half[0], half << 16, half),
                    packed.payload.data,
                )
            ),
        ]
        m.submodules.sum = total = WordSum()
        m.d.comb += [
            total.start.eq(self.start),
            total.valid.eq(self.writes.valid),
            total.word.eq(writes.data),
            self.statistics.block_bytes.eq(length),
            self.statistics.block_sum.eq(total.sum),
            self.done.eq(
                delayed(m, ends, BytePacker.LATENCY + 1 + WordSum.LATENCY, name="ended", reset=True)
            ),
        ]
        return m

    def _slots(self, m: Module) -> Pipeline:
        """Count the slots, request the words, and return the marks of each slot in step with its word."""
        slot = Signal(range(GROUP_LANES + 1))
        left = Signal.like(self.count)
        active = Signal()
        gathers = Signal()  # the slots of a group that comes in
        sends = Signal()  # the slots of a group that is sent
        gap = slot[-1]
        over = left == 0
        final = ~gathers if self.LAG else over  # in a gap: the group that is sent was the last
        m.d.comb += self.request.eq(active & ~gap & ~over)
        with m.If(self.start):
            m.d.sync += [active.eq(1), gathers.eq(1), sends.eq(not self.LAG), slot.eq(0), left.eq(self.count)]
        with m.Elif(active):
            m.d.sync += [slot.eq(Mux(gap, 0, slot + 1)), left.eq(left - self.request)]
            with m.If(gap):
                m.d.sync += [active.eq(~final), gathers.eq(~over), sends.eq(1)]
        p = Pipeline(m, control={"gathers", "gathered", "sends", "sent"})
        p.let(
            slot=slot[:-1],
            present=self.request,
            gathers=active & gathers & ~gap,
            gathered=active & gathers & gap,
            sends=active & sends & ~gap,
            sent=active & sends & gap,
            final=final,
        )
        p.until(self.WORD_LATENCY)
        return p

    def _encode(self, m: Module, p: Pipeline) -> Encoded:
        """Return what leaves, in the stage to which ``p`` is moved, and drive the rest of the statistics."""
        raise NotImplementedError
