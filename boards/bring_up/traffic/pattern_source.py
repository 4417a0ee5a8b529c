# SPDX-License-Identifier: BSD-2-Clause
"""Generated gradients, and the values that must be restored from them."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.parts.delay import delayed
from inceptionn.hdl.parts.pipeline import Pipeline
from inceptionn.hdl.parts.queue import PushQueue
from inceptionn.wire import EXPONENT_BIAS, GROUP_LANES, MANTISSA_BITS, TAG_BYTES, TAG_WORD_BYTES, Tag

from .patterns import PALETTE_SLOTS, RAW_TOP, SHIFT_SLOTS, SourceConfig

SEEDS = tuple(0x9E3779B9 * (2 * lane + 1) & 0xFFFFFFFF for lane in range(GROUP_LANES))
"""Seeds of the lanes' random numbers: odd multiples of the golden ratio, so none is 0."""

LENGTH_SEED = 0xACE
LENGTH_TAPS = 0xE08  # x^12 + x^11 + x^10 + x^4 + 1: period 4095


class LengthSequence(wiring.Component):
    """Lane counts of successive packets, the same in every instance: a 12-bit Galois register."""

    config: In(SourceConfig)  #: Constant from one cycle before reset ends on.
    step: In(1)  #: To the next packet.
    lanes: Out(12)  #: Lanes of this packet; a register, valid one cycle after reset.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        state = Signal(12, init=LENGTH_SEED)
        following = Signal(12)
        m.d.comb += following.eq((state >> 1) ^ Mux(state[0], LENGTH_TAPS, 0))
        with m.If(self.step):
            m.d.sync += state.eq(following)
        chosen = Mux(self.step, following, state)
        m.d.sync += self.lanes.eq(self.config.least + (chosen & self.config.spread))
        return m


class SourceBeat(data.Struct):
    """Eight lanes of a packet.

    ``values`` as sent; ``lossy``: their expected restored values; ``size``: bytes that they and their tag
    word take in a block; ``more``: lanes present less one; ``last``: of the packet.
    """

    values: 32 * GROUP_LANES
    lossy: 32 * GROUP_LANES
    size: 6
    more: 3
    last: 1


def present(beat: Any) -> Value:
    """Return which lanes of a :class:`SourceBeat` exist; 8 bits."""
    return Cat(~beat.last | (beat.more >= lane) for lane in range(GROUP_LANES))


def xorshift32(state: Value) -> Value:
    """Return the next of Marsaglia's 32-bit xorshift numbers.

    *Xorshift RNGs*, 2003; shifts 13, 17, 5.
    """
    for shift in (13, -17, 5):
        state = (state ^ (state << shift if shift > 0 else state >> -shift))[:32]
    return state


class PatternSource(wiring.Component):
    """Packets of fp32 values whose lossy image is known by construction. One beat per cycle.

    Two instances that are reset together yield the same packets: one feeds the compressor, the other gives
    the expected values. Packets are whole: when ``run`` falls, the packet in flight is finished.

    A lane is not classified, as in the engine, but *made*. First its class and its shift *n* are drawn. Its
    exponent follows from them (``127 - n`` or ``B - n``), and its mantissa is random. So it is known before
    the value which of its bits survive: all but the low ``8 + n`` (16-bit class) or ``16 + n`` (8-bit class).
    No exponent is compared with a threshold here, and nothing is shared with the engines.

    Parameters
    ----------
    expectation : :class:`bool`
        Whether the beats' ``lossy`` and ``size`` are wanted; 0 otherwise.
    """

    LATENCY = 5  # from a number's issue to its push

    def __init__(self, *, expectation: bool):
        self.expectation = expectation
        super().__init__(
            {
                "config": In(SourceConfig),  #: Constant from one cycle before reset ends on.
                "run": In(1),  #: Beats are made; when it falls, a packet that has begun is finished.
                "beats": Out(stream.Signature(SourceBeat)),  #: The packets' beats.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # Push flow: a beat is issued when the queue has room for it. After that nothing stalls.
        m = Module()
        m.submodules.queue = queue = PushQueue(SourceBeat, 32, slack=self.LATENCY + 3)
        wiring.connect(m, queue.o, wiring.flipped(self.beats))
        issue, last, more = self._packets(m, queue.room)

        lanes = [self._lane(m, lane, issue) for lane in range(GROUP_LANES)]
        pushed = queue.i.payload
        p = Pipeline(m, control={"issue"})
        p.let(issue=issue, last=last, more=more)
        if self.expectation:
            p.until(3)
            self._size(p, [tag for _, _, tag in lanes])
            m.d.comb += [pushed.lossy.eq(Cat(lossy for _, lossy, _ in lanes)), pushed.size.eq(p.size)]
        p.until(self.LATENCY)
        m.d.comb += [
            queue.i.valid.eq(p.issue),
            pushed.last.eq(p.last),
            pushed.more.eq(p.more),
            pushed.values.eq(Cat(value for value, _, _ in lanes)),
        ]
        return m

    def _packets(self, m: Module, room: Value) -> tuple[Signal, Signal, Signal]:
        """Tell when a beat is issued, whether it is its packet's last, and its lanes less one."""
        m.submodules.lengths = lengths = LengthSequence()
        # The first length is valid two cycles after reset; later the length of the next packet.
        started = delayed(m, Const(1), 2, name="started", reset=True)
        issue = Signal()
        last = Signal()
        first = Signal(init=1)
        left = Signal(9)
        above = Signal(9)
        count = Signal(12)
        m.d.comb += [
            count.eq(lengths.lanes - 1),
            left.eq(Mux(first, count[3:], above)),
            last.eq(left == 0),
            issue.eq(started & room & (self.run | ~first)),
            lengths.config.eq(self.config),
            lengths.step.eq(issue & last),
        ]
        with m.If(issue):
            m.d.sync += [above.eq(left - 1), first.eq(last)]
        return issue, last, count[:3]

    def _lane(self, m: Module, lane: int, issue: Value) -> tuple[Value, Value, Value]:
        """Return a lane's value and lossy image, ``LATENCY`` cycles after ``issue``.

        Its class is returned three cycles after ``issue``.
        """
        config = self.config
        state = Signal(32, init=SEEDS[lane], name=f"state_lane{lane}")
        with m.If(issue):
            m.d.sync += state.eq(xorshift32(state))
        p = Pipeline(m, f"lane{lane}_")
        p.stage(number=state)

        # The slots picked.
        palette = Array(config.palette.word_select(i, 2) for i in range(PALETTE_SLOTS))
        p.stage(tag=palette[p.number[:4]], slot=p.number[4:7], rest=p.number[8:])

        # Class and shift tell which mantissa bits remain, before there is an exponent.
        shift = Signal(3, name=f"shift_lane{lane}", reset_less=True)
        top = Signal(8, name=f"top_lane{lane}", reset_less=True)
        extreme = Signal(name=f"extreme_lane{lane}", reset_less=True)
        shifts8 = Array(config.shifts8.word_select(i, 3) for i in range(SHIFT_SLOTS))
        shifts16 = Array(config.shifts16.word_select(i, 3) for i in range(SHIFT_SLOTS))
        m.d.sync += extreme.eq(0)
        with m.Switch(p.tag):
            with m.Case(Tag.ZERO):
                # The largest that are dropped, and denormals and zeros.
                m.d.sync += [
                    shift.eq(p.slot),
                    top.eq(config.e0 - 1),
                    extreme.eq(p.slot == SHIFT_SLOTS - 1),
                ]
            with m.Case(Tag.BITS8):
                m.d.sync += [shift.eq(shifts8[p.slot]), top.eq(config.b)]
            with m.Case(Tag.BITS16):
                m.d.sync += [shift.eq(shifts16[p.slot]), top.eq(EXPONENT_BIAS)]
            with m.Case(Tag.RAW):
                # 1.0 and above, with infinities and NaNs of every kind.
                m.d.sync += [shift.eq(p.slot), top.eq(RAW_TOP), extreme.eq(p.slot == SHIFT_SLOTS - 1)]
        p.stage()
        tag = p.tag

        def is_lost(bit: int) -> Value:
            low8 = (tag == Tag.BITS8) & (shift > bit - 16)
            low16 = (tag == Tag.BITS16) & (shift > bit - 8)
            return low8 | low16

        p.stage(
            exponent=Mux(extreme, (tag == Tag.RAW).replicate(8), top - shift)[:8],
            lost=Cat(is_lost(bit) for bit in range(MANTISSA_BITS)),
            dropped=tag == Tag.ZERO,
        )
        mantissa, sign = p.rest[:MANTISSA_BITS], p.rest[MANTISSA_BITS]
        p.stage(
            value=Cat(mantissa, p.exponent, sign),
            lossy=Mux(p.dropped, 0, Cat(mantissa & ~p.lost, p.exponent, sign)),
        )
        return p.value, p.lossy, tag

    @staticmethod
    def _size(p: Pipeline, tags: list[Value]) -> None:
        """Return the bytes of the beat's vectors and its tag word, as ``size`` two stages later."""
        table = Array(TAG_BYTES)
        each = [Mux(~p.last | (p.more >= lane), table[tag], 0) for lane, tag in enumerate(tags)]
        p.stage(pairs=Cat((a + b)[:4] for a, b in zip(each[::2], each[1::2], strict=True)))
        pairs = [p.pairs.word_select(i, 4) for i in range(GROUP_LANES // 2)]
        p.stage(size=((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]) + TAG_WORD_BYTES)[:6])
