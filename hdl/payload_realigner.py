# SPDX-License-Identifier: BSD-2-Clause
"""Moves a frame's payload from where the headers end to the start of a burst."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.delay import delayed
from inceptionn.wire import BURST_BYTES


class PayloadRun(data.Struct):
    """Where a run of bytes lies in a frame, as :class:`PayloadRealigner` counts."""

    skip: 2  # beats between the frame's second beat and the one in which the run begins
    lane: 3  # its place in that beat: byte 4 * lane + 2
    bursts: 11  # the run's length in bursts, rounded up, 1..2047
    ending: 5  # bytes in the last of them; 0: all


class PayloadRealigner(wiring.Component):
    """Cuts a run of bytes out of a frame and lays it out from byte 0 of a burst on.

    With an IPv4 header of 20 bytes, payload and block begin at a byte that is 2 modulo 4: eight places,
    so the beat is rotated by two bytes (wires) and then by 0..7 lanes, one base-4 digit per stage. What
    lies behind the place is held for the next beat to complete.

    No stall: a burst leaves :attr:`LATENCY` cycles after the beat behind the one in which it begins. If
    that one is the frame's last, the burst is a rest, which leaves one cycle later than a burst of the
    last beat; it never meets the next frame's bytes, because these begin in the second beat at the
    earliest. Should the frame end too early, the run ends with it: every run that was loaded gives at
    least one burst, and exactly one with ``out_last``.

    Members
    -------
    load : :py:`In(1)`
        Takes ``run``; in the cycle before the frame's second beat.
    run : :py:`In(PayloadRun)`
    valid, last : :py:`In(1)`
        A beat of the frame; its last.
    beat : :py:`In(256)`
    out_valid, out_first, out_last : :py:`Out(1)`
    out_count : :py:`Out(6)`
        Bytes of the run in the burst, 1..32; with ``out_last``, as if the frame had not ended too early.
    out_burst : :py:`Out(256)`
        Not cleared behind the run. :attr:`LATENCY` cycles after the beat in which the run begins, it
        holds the 32 bytes in front of the run, as far as they lie behind the frame's first beat: the
        shim, if the run is a block.
    """

    LATENCY = 3

    load: In(1)
    run: In(PayloadRun)
    valid: In(1)
    last: In(1)
    beat: In(8 * BURST_BYTES)
    out_valid: Out(1)
    out_first: Out(1)
    out_last: Out(1)
    out_count: Out(6)
    out_burst: Out(8 * BURST_BYTES)

    def elaborate(self, platform: Any) -> Module:
        m = Module()

        # Control, in step with the incoming beat. `left`: bursts still to leave.
        skip, lane = Signal(2), Signal(3)
        left, ending = Signal(11), Signal(5)
        begun, first, flush = Signal(), Signal(), Signal()
        emit, take, closing = Signal(), Signal(), Signal()
        running = Signal()  # left != 0
        m.d.comb += [
            take.eq(self.valid & running & ~flush & (skip == 0)),
            emit.eq(flush | (take & begun)),
            closing.eq(flush | (left == 1)),
        ]
        following = Signal.like(left)
        m.d.comb += following.eq(left - (take & begun))
        # While the rest leaves, a beat at the input is the next frame's, and may be its last, too.
        m.d.sync += flush.eq(self.valid & self.last & running & ~flush & (following != 0))
        with m.If(self.valid & running & (skip != 0)):
            m.d.sync += skip.eq(skip - 1)
        with m.If(take):
            m.d.sync += [begun.eq(1), left.eq(following), running.eq(following != 0)]
        with m.If(emit):
            m.d.sync += first.eq(0)
        with m.If(flush):
            m.d.sync += [left.eq(0), running.eq(0)]
        with m.If(self.load):
            m.d.sync += [
                skip.eq(self.run.skip),
                lane.eq(self.run.lane),
                left.eq(self.run.bursts),
                running.eq(1),
                ending.eq(self.run.ending),
                begun.eq(0),
                first.eq(1),
            ]

        # Stages 1 and 2: rotate right by 4 * lane + 2 bytes and split into what completes the burst at hand
        # (the upper words) and what is held. Stage 3: join.
        def rotate_right_lanes(value: Any, digit: Any, step: int) -> Any:
            for position in range(len(digit)):
                value = Mux(digit[position], value.rotate_right(32 * step << position), value)
            return value

        rotated1 = Signal(8 * BURST_BYTES, reset_less=True)
        lane1 = Signal(3, reset_less=True)
        m.d.sync += [rotated1.eq(rotate_right_lanes(self.beat.rotate_right(16), lane[:2], 1)), lane1.eq(lane)]
        completing2 = Signal(8 * BURST_BYTES, reset_less=True)
        holding2 = Signal(8 * BURST_BYTES, reset_less=True)
        rotated = rotate_right_lanes(rotated1, lane1[2:], 4)
        for i in range(BURST_BYTES // 2):
            word = rotated.word_select(i, 16)
            behind = Signal(name=f"behind{i}")  # word i lies behind the place, so it is held
            m.d.comb += behind.eq((lane1 << 1) < 15 - i)
            m.d.sync += [
                completing2.word_select(i, 16).eq(Mux(behind, 0, word)),
                holding2.word_select(i, 16).eq(Mux(behind, word, 0)),
            ]
        held = Signal(8 * BURST_BYTES, reset_less=True)
        flush2 = delayed(m, flush, 2, name="flush")
        valid2 = delayed(m, self.valid, 2, name="valid", reset=True)
        # The first beat was rotated by the last frame's place: nothing of it is held.
        loaded2 = delayed(m, self.load, 2, name="loaded", reset=True)
        with m.If(valid2 | loaded2):
            m.d.sync += held.eq(Mux(loaded2, 0, holding2))
        m.d.sync += self.out_burst.eq(held | Mux(flush2, 0, completing2))

        marks = Cat(emit, first, closing)
        m.d.comb += Cat(self.out_valid, self.out_first, self.out_last).eq(
            delayed(m, marks, self.LATENCY, name="marks", reset=True)
        )
        count = Mux(closing & (ending != 0), ending, BURST_BYTES)
        m.d.comb += self.out_count.eq(delayed(m, count, self.LATENCY, name="count"))
        return m
