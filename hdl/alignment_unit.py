# SPDX-License-Identifier: BSD-2-Clause
"""Alignment Unit: collects aligned vectors and puts out a beat when 256 bits are together (paper, Fig. 9)."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.delay import delayed
from inceptionn.wire import BURST_BYTES


def rotate_left_bytes(value: Any, digit: Any, step: int) -> Any:
    """``value`` rotated up by ``digit * step`` bytes: one multiplexer of 2**len(digit) inputs."""
    result = value
    for position in range(len(digit)):
        result = Mux(digit[position], result.rotate_left(8 * step << position), result)
    return result


class AlignmentUnit(wiring.Component):
    """Packs vectors of 0 to 32 bytes back to back into beats of 32 bytes, block by block.

    The only loop that carries an address is the 5-bit fill level; the vector is rotated by it, one
    base-4 digit per stage, split at the level into the part that completes the beat at hand and
    the part that begins the next, and ORed into the beat. Latency :attr:`LATENCY` cycles from the
    vector that completes a beat to the beat.

    A block's last vector may complete one beat and begin another, which follows one cycle later;
    so **the cycle after** ``last`` **must be idle**.

    Members
    -------
    valid : :py:`In(1)`
    last : :py:`In(1)`
        The block's last vector; only with ``valid``.
    size : :py:`In(6)`
        Bytes of ``vector``, 0..32.
    vector : :py:`In(256)`
        Zero above ``size``.
    beat : :py:`Out(256)`
        Packed bytes, zero behind the block's end.
    beat_valid : :py:`Out(1)`
        High for one cycle per beat.
    done : :py:`Out(1)`
        High for one cycle when the block is complete, with its last beat (or alone, where no byte was
        left for one), one cycle after ``LATENCY`` at the latest.
    """

    LATENCY = 5

    valid: In(1)
    last: In(1)
    size: In(6)
    vector: In(8 * BURST_BYTES)
    beat: Out(8 * BURST_BYTES)
    beat_valid: Out(1)
    done: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()

        # Stage 1: fill level. `over`: the last vector has completed a beat and begun one more.
        # `valid` comes in behind the adder, whose result alone takes most of the cycle.
        level, total = Signal(5), Signal(6)
        over, full, rest = Signal(), Signal(), Signal()
        m.d.comb += [total.eq(level + self.size), full.eq(total[5]), rest.eq(total[:5].any())]
        rotation1 = Signal(5, reset_less=True)
        vector1 = Signal(8 * BURST_BYTES, reset_less=True)
        emit1, done1 = Signal(), Signal()
        ending = self.valid & self.last
        with m.If(self.valid):
            m.d.sync += level.eq(Mux(self.last, 0, total[:5]))
        m.d.sync += [
            over.eq(ending & full & rest),
            rotation1.eq(level),
            vector1.eq(Mux(self.valid, self.vector, 0)),
            emit1.eq(over | (self.valid & (full | (self.last & rest)))),
            done1.eq(over | (ending & ~(full & rest))),
        ]

        # Stages 2 to 4: rotate by the level; the last stage also splits at it.
        rotated2 = Signal(8 * BURST_BYTES, reset_less=True)
        rotated3 = Signal(8 * BURST_BYTES, reset_less=True)
        rotation2, rotation3 = Signal(5, reset_less=True), Signal(1, reset_less=True)
        current3 = Signal(BURST_BYTES, reset_less=True)
        m.d.sync += [
            rotated2.eq(rotate_left_bytes(vector1, rotation1[0:2], 1)),
            rotation2.eq(rotation1),
            rotated3.eq(rotate_left_bytes(rotated2, rotation2[2:4], 4)),
            rotation3.eq(rotation2[4]),
        ]
        for i in range(BURST_BYTES):
            m.d.sync += current3[i].eq(rotation2 <= i)
        current4 = Signal(8 * BURST_BYTES, reset_less=True)
        following4 = Signal(8 * BURST_BYTES, reset_less=True)
        rotated = rotate_left_bytes(rotated3, rotation3, 16)
        for i in range(BURST_BYTES):
            byte = rotated.word_select(i, 8)
            m.d.sync += [
                current4.word_select(i, 8).eq(Mux(current3[i], byte, 0)),
                following4.word_select(i, 8).eq(Mux(current3[i], 0, byte)),
            ]
        emit4 = delayed(m, emit1, 3, name="emit", reset=True)
        done4 = delayed(m, done1, 3, name="done", reset=True)

        # Stage 5: the beat at hand. It is zero whenever a block begins: every block's end emits.
        pending = Signal(8 * BURST_BYTES)
        # Only what was let in counts: the rotation has no reset.
        counts4 = delayed(m, self.valid, 4, name="counts", reset=True)
        with m.If(emit4 | counts4):
            m.d.sync += pending.eq(Mux(emit4, following4, pending | current4))
        m.d.sync += [
            self.beat.eq(pending | current4),
            self.beat_valid.eq(emit4),
            self.done.eq(done4),
        ]
        return m
