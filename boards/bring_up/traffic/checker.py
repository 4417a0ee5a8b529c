# SPDX-License-Identifier: BSD-2-Clause
"""Compares the restored values with the expected ones, bit for bit."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.parts.axi import AXIStream
from inceptionn.hdl.parts.pipeline import Pipeline
from inceptionn.wire import BURST_BYTES, EXPONENT_BIAS, GROUP_LANES, MANTISSA_BITS

from .pattern_source import SourceBeat, present

BLOCK_BITS = 14
"""Bits of a block's length in bytes."""


class CheckEvents(data.Struct):
    """Results for one beat; all zero in cycles without one."""

    beat: 1  #: A beat was compared.
    packet: 1  #: The beat was its packet's last.
    lanes: 4  #: Values in it.
    mismatched: 4  #: Those that differ from the expected value in any bit.
    beyond_bound: 4  #: Those that differ from the value sent by the error bound or more.
    wrong_size: 1  #: The packet's block did not have the length on the wire that its classes give.
    wrong_format: 1  #: ``tkeep`` or ``tlast`` is not where it should be, or ``tuser`` says malformed.


def count_ones(bits: Value) -> Value:
    """Count ones."""
    return sum((bits[i] for i in range(1, len(bits))), bits[0])


class Checker(wiring.Component):
    """Compares the decompressor's beats with a :class:`PatternSource`'s, one per cycle, in four ways.

    1. Every present lane equals ``expected.lossy``, all 32 bits.
    2. Every present lane lies within the error bound of ``expected.values``, by a separate rule. It is equal;
       or +0 where the value's exponent is below ``127 - k``; or of the same sign and exponent, with mantissas
       that agree from bit ``150 - exponent - k`` on, since what lies below weighs less than ``2**-k``.
    3. ``tkeep`` and ``tlast`` are those of the packet sent, ``tuser`` is 0.
    4. The block had as many bytes on the wire as the lanes' classes and tag words take, so that no pair of
       engines passes that leaves the values as they are.
    """

    LATENCY = 6

    k: In(4)  #: Error bound ``2**-k``; constant.
    s_axis: In(AXIStream(BURST_BYTES, 1))  #: ``tready`` waits for the expectation only.
    expected: In(stream.Signature(SourceBeat))  #: Beats of a :class:`PatternSource`.
    #: Lengths of the blocks; a packet's is valid by its last beat.
    block_bytes: In(stream.Signature(BLOCK_BITS))
    flip: In(1)  #: Inverts bit 0 of the beat taken in this cycle, as a fault would.
    events: Out(CheckEvents)  #: ``LATENCY`` cycles after the beat.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        take = Signal()
        m.d.comb += [
            take.eq(self.s_axis.tvalid & self.expected.valid),
            self.s_axis.tready.eq(self.expected.valid),
            self.expected.ready.eq(self.s_axis.tvalid),
            self.block_bytes.ready.eq(take & self.expected.payload.last),
        ]

        # Stage 1: both sides registered.
        p = Pipeline(m, control={"valid", "packet", "wrong_size"})
        p.stage(
            valid=take,
            got=self.s_axis.tdata ^ self.flip,
            keep=self.s_axis.tkeep,
            last=self.s_axis.tlast,
            malformed=self.s_axis.tuser,
            expected=self.expected.payload,
            block_bytes=self.block_bytes.payload,
            sized=self.block_bytes.valid,
        )
        expected = p.expected
        there = present(expected)
        total = Signal(BLOCK_BITS)  # of the packet's beats before this one
        size = (total + expected.size)[:BLOCK_BITS]
        with m.If(p.valid):
            m.d.sync += total.eq(size & ~expected.last.replicate(BLOCK_BITS))
        p.let(packet=p.valid & expected.last, present=there & p.valid.replicate(GROUP_LANES))
        lanes = [
            self._lane(
                m,
                f"lane{lane}_",
                p.got.word_select(lane, 32),
                expected.values.word_select(lane, 32),
                expected.lossy.word_select(lane, 32),
                there[lane],
            )
            for lane in range(GROUP_LANES)
        ]

        # Stages 2 and 3: side signals and the block's length.
        p.stage(
            keep_differs=Cat(p.keep.word_select(i, 4) != there[i].replicate(4) for i in range(GROUP_LANES)),
            other_differs=(p.last != expected.last) | p.malformed,
            size=size,
        )
        p.let(wrong_format=p.keep_differs.any() | p.other_differs)
        p.stage(wrong_size=p.packet & ((p.size != p.block_bytes) | ~p.sized))

        # Stage 5: all results are there.
        p.until(5)
        valid = p.valid.replicate(4)
        m.d.sync += [
            self.events.beat.eq(p.valid),
            self.events.packet.eq(p.packet),
            self.events.lanes.eq(count_ones(p.present)),
            self.events.mismatched.eq(count_ones(Cat(different for different, _ in lanes)) & valid),
            self.events.beyond_bound.eq(count_ones(Cat(beyond for _, beyond in lanes)) & valid),
            self.events.wrong_format.eq(p.valid & p.wrong_format),
            self.events.wrong_size.eq(p.wrong_size),
        ]
        return m

    def _lane(
        self, m: Module, prefix: str, got: Value, sent: Value, lossy: Value, there: Value
    ) -> tuple[Value, Value]:
        """Tell whether a lane differs from its expected value, and by too much from its own.

        Both are known in stage 5.
        """
        exponent = sent[MANTISSA_BITS:31]
        p = Pipeline(m, prefix)
        p.until(1)
        p.let(present=there)

        # Stage 2: bytes compared, and how many low mantissa bits weigh less than the bound.
        p.stage(
            different=Cat((got.word_select(i, 8) != lossy.word_select(i, 8)) for i in range(4)),
            changed=Cat((got.word_select(i, 8) != sent.word_select(i, 8)) for i in range(4)),
            mantissa=got[:MANTISSA_BITS] ^ sent[:MANTISSA_BITS],
            alike=got[MANTISSA_BITS:] == sent[MANTISSA_BITS:],
            zero=got == 0,
            # Exponent e: mantissa bit j weighs 2**(e - 150 + j), below 2**-k for j < 150 - e - k.
            weight=(EXPONENT_BIAS + MANTISSA_BITS - self.k) - exponent,
            small=exponent < EXPONENT_BIAS - self.k,
        )

        # Stage 3: that number as 0..31; from 23 on no bit of the mantissa weighs too much.
        p.stage(
            light=Mux(p.weight < 0, 0, Mux(p.weight[5:9].any(), 31, p.weight[:5])),
            different=p.different.any(),
            within=~p.changed.any() | (p.zero & p.small),
        )

        # Stage 4: mantissa bits that differ and must not.
        p.stage(over=Cat(p.mantissa[bit] & (p.light <= bit) for bit in range(MANTISSA_BITS)))
        p.stage(
            different=p.present & p.different,
            beyond=p.present & ~(p.within | (p.alike & ~p.over.any())),
        )
        return p.different, p.beyond
