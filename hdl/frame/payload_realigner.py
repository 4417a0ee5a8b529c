# SPDX-License-Identifier: BSD-2-Clause
"""Moves a frame's payload from the end of the headers to the start of a burst."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import SHIM_BYTES

from ..parts.delay import copies
from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .frame_input import frame_beat


def payload_run(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a run: its bytes' position in a frame, in :class:`PayloadRealigner`'s units.

    ``skip``: beats from the frame's second beat (with 16 lanes its first) to the one in which the run begins.
    ``lane``: the run begins at byte ``4 * lane + 2`` of that beat. ``bursts``: the run's length in bursts,
    rounded up, 1..2047. ``ending``: bytes in the last burst, 0 for a full one.
    """
    place_bits = width.place_bits
    return data.StructLayout(
        {"skip": 7 - place_bits, "lane": place_bits - 2, "bursts": 11, "ending": place_bits}
    )


def payload_burst(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a burst of a run."""
    return data.StructLayout(
        {
            "data": width.bits,  # not cleared after the run
            "count": range(width.bytes + 1),  # bytes of the run in it; with `last` as for a whole frame
            "first": 1,
            "last": 1,
        }
    )


class PayloadRealigner(wiring.Component):
    """Extracts a run of bytes from a frame and aligns it to byte 0 of a burst.

    With an IPv4 header of 20 bytes, payload and block begin at a byte that is 2 modulo 4. There are as many
    such positions in a beat as lanes. So the beat is rotated by two bytes (wires only) and then by whole
    lanes, one base-4 digit per stage. The bytes that do not complete a burst are held until the next beat.

    One beat per cycle; nothing stalls. A burst leaves :attr:`LATENCY` cycles after the beat that follows the
    one in which it begins. If it begins in the frame's last beat, it is a *rest* and leaves one cycle later
    than a burst that the last beat completes. With 8 lanes a rest never meets the next frame's run, which
    begins in the second beat at the earliest. With 16 lanes that run may begin while the rest leaves; its own
    first burst leaves one cycle later. If the frame ends too early, the run ends with it. Every loaded run
    gives at least one burst, and exactly one with ``last``.
    """

    LATENCY = 3

    def __init__(self, width: Width = BURST):
        self.width = width
        members = {
            #: In the cycle before the frame's second beat; with 16 lanes before its first.
            "runs": In(stream.Signature(payload_run(width), always_ready=True)),
            #: The frames' beats.
            "beats": In(stream.Signature(frame_beat(self.width.bytes), always_ready=True)),
            "bursts": Out(stream.Signature(payload_burst(width), always_ready=True)),  #: The run's lanes.
            #: :attr:`LATENCY` cycles after the beat in which the run begins: the 8 bytes before the run,
            #: without those of the frame's first beat if that has 32 bytes. If the run is a block, they are
            #: the shim.
            "front": Out(8 * SHIM_BYTES),
        }
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        # Stages 1 and 2: rotate right by 4 * lane + 2 bytes and split into the words that complete the
        # current burst (the upper ones) and those that are held. Stage 3: join.
        m = Module()
        p = self._control(m)
        burst = self.bursts.payload

        def rotate_right_lanes(value: Any, digit: Any, step: int) -> Any:
            for position in range(len(digit)):
                value = Mux(digit[position], value.rotate_right(32 * step << position), value)
            return value

        far = copies(m, p.lane[2:], 4, name="far")
        p.stage(rotated=rotate_right_lanes(self.beats.payload.data.rotate_right(16), p.lane[:2], 1))
        rotated = [rotate_right_lanes(p.rotated, digit, 4) for digit in far]
        share = self.width.words // len(far)
        words = [(rotated[i // share].word_select(i, 16), hold) for i, hold in enumerate(p.held_back)]
        p.stage(
            completing=Cat(Mux(hold, 0, word) for word, hold in words),
            holding=Cat(Mux(hold, word, 0) for word, hold in words),
        )
        held = Signal(self.width.bits, reset_less=True)
        if self.width.payload_overlaps:
            with m.If(p.valid):
                m.d.sync += held.eq(p.holding)
            # One cycle after a run was loaded, the held words are the previous frame's.
            begins = Signal()
            m.d.sync += begins.eq(p.loaded)
            shim = slice(8 * (self.width.bytes - SHIM_BYTES), None)
            m.d.sync += self.front.eq(p.completing[shim] | Mux(begins, 0, held[shim]))
        else:
            # The first beat was rotated for the previous frame's position: nothing of it is held.
            m.d.comb += self.front.eq(burst.data[-8 * SHIM_BYTES :])
            with m.If(p.valid | p.loaded):
                m.d.sync += held.eq(Mux(p.loaded, 0, p.holding))
        m.d.sync += burst.data.eq(held | Mux(p.flush, 0, p.completing))
        p.stage()
        m.d.comb += [
            self.bursts.valid.eq(p.emit),
            burst.first.eq(p.first),
            burst.last.eq(p.last),
            burst.count.eq(p.count),
        ]
        return m

    def _control(self, m: Module) -> Pipeline:
        """Decide each beat's use, in step with it. `left`: bursts still to leave."""
        valid, beat, loaded = self.beats.valid, self.beats.payload, self.runs.payload
        run = payload_run(self.width).members
        skip = Signal(run["skip"])
        skipping = Signal()  # skip != 0
        lane = Signal(run["lane"])
        left = Signal(run["bursts"])
        ending = Signal(run["ending"])
        begun = Signal()
        first = Signal()
        flush = Signal()
        emit = Signal()
        take = Signal()
        completes = Signal()  # take & begun: nothing is skipped once the run has begun
        closing = Signal()
        running = Signal()  # while it is low, the two before and after it mean nothing
        last_left = Signal()  # left == 1
        # While the rest leaves, a beat at the input belongs to the next frame, and may be its last. It must
        # not count for a run that begins after it. A run that begins with it has been loaded already; then
        # two registers describe the rest.
        alone = 1 if self.width.payload_overlaps else ~flush
        m.d.comb += [
            take.eq(valid & running & alone & ~skipping),
            completes.eq(valid & running & alone & begun),
            emit.eq(flush | completes),
            closing.eq(flush | last_left),
        ]
        m.d.sync += flush.eq(valid & beat.last & running & alone & ~(begun & last_left))
        with m.If(valid & running & skipping):
            m.d.sync += [skip.eq(skip - 1), skipping.eq(skip != 1)]
        with m.If(take):
            m.d.sync += begun.eq(1)
        with m.If(completes):
            m.d.sync += [left.eq(left - 1), last_left.eq(left == 2), running.eq(~last_left)]
        with m.If(completes if self.width.payload_overlaps else emit):
            m.d.sync += first.eq(0)
        with m.If(valid & beat.last if self.width.payload_overlaps else flush):
            m.d.sync += running.eq(0)
        with m.If(self.runs.valid):
            m.d.sync += [
                skip.eq(loaded.skip),
                skipping.eq(loaded.skip != 0),
                lane.eq(loaded.lane),
                left.eq(loaded.bursts),
                last_left.eq(loaded.bursts == 1),
                running.eq(1),
                ending.eq(loaded.ending),
                begun.eq(0),
                first.eq(1),
            ]

        leaves_first, leaves_ending = first, ending
        if self.width.payload_overlaps:
            leaves_first, leaves_ending = self._rest(m, flush, first & ~completes, first, ending)

        last_word = self.width.words - 1
        p = Pipeline(m, control={"valid", "loaded", "emit", "first", "last"})
        p.let(
            valid=valid,
            loaded=self.runs.valid,
            lane=lane,
            # Each rotated word: it completes no burst. A bit for each, since a word's bit goes to 32 gates.
            held_back=Cat((lane << 1) < last_word - i for i in range(last_word + 1)),
            flush=flush,
            emit=emit,
            first=leaves_first,
            last=closing,
            count=Mux(closing & (leaves_ending != 0), leaves_ending, self.width.bytes),
        )
        return p

    def _rest(
        self, m: Module, flush: Value, rest_first_now: Value, first: Value, ending: Value
    ) -> tuple[Value, Value]:
        """Return the burst's ``first`` and ``ending`` where the next run may be loaded while a rest leaves.

        A run that begins in its frame's first beat follows at least 42 bytes of headers, so its rest has at
        most 22 bytes. If more than half a burst is announced, the frame has ended too early. The rest is cut
        to half a burst: the Compressor needs an idle cycle before or after two groups.
        """
        rest_first = Signal()
        rest_ending = Signal.like(ending)
        early = Signal()
        with m.If(self.runs.valid):
            m.d.sync += early.eq(self.runs.payload.skip == 0)
        half = self.width.words
        cut = early & ((ending == 0) | (ending > half))
        m.d.sync += [rest_first.eq(rest_first_now), rest_ending.eq(Mux(cut, half, ending))]
        return Mux(flush, rest_first, first), Mux(flush, rest_ending, ending)
