# SPDX-License-Identifier: BSD-2-Clause
"""Compares the restored values with the expected ones, bit for bit."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.parts.axi import AXIStream
from inceptionn.hdl.parts.delay import delayed
from inceptionn.wire import BURST_BYTES, EXPONENT_BIAS, GROUP_LANES, MANTISSA_BITS

from .pattern_source import SourceBeat, present

BLOCK_BITS = 14
"""Bits of a block's length in bytes."""


class CheckEvents(data.Struct):
    """Results for one beat; all zero in cycles without one.

    Members
    -------
    beat : 1 bit
    packet : 1 bit
        The beat was its packet's last.
    lanes : 4 bits
        Values in it.
    mismatched : 4 bits
        Those that differ from the expected value in any bit.
    beyond_bound : 4 bits
        Those that differ from the value sent by the error bound or more.
    wrong_size : 1 bit
        The packet's block did not have the length on the wire that its classes give.
    wrong_format : 1 bit
        ``tkeep`` or ``tlast`` is not where it should be, or ``tuser`` says malformed.
    """

    beat: 1
    packet: 1
    lanes: 4
    mismatched: 4
    beyond_bound: 4
    wrong_size: 1
    wrong_format: 1


def count_ones(bits: Value) -> Value:
    """Number of ones."""
    return sum((bits[i] for i in range(1, len(bits))), bits[0])


class Checker(wiring.Component):
    """Compares the decompressor's beats with a :class:`PatternSource`'s, one per cycle, in four ways.

    1. Every present lane equals ``expected.lossy``, all 32 bits. 2. Every present lane lies within the error
    bound of ``expected.values``, by a separate rule: equal; or
       +0 where the value's exponent is below ``127 - k``; or of the same sign and exponent, with mantissas
       that agree from bit ``150 - exponent - k`` on, since what lies below weighs less than ``2**-k``.
    3. ``tkeep`` and ``tlast`` are those of the packet sent, ``tuser`` is 0.
    4. The block had as many bytes on the wire as the lanes' classes and tag words take, so that no pair of
       engines passes that leaves the values as they are.

    Members
    -------
    k : :py:`In(4)`
        Error bound ``2**-k``; constant.
    s_axis : :py:`In(AXIStream(32, 1))`
        ``tready`` waits for the expectation only.
    expected : :py:`In(stream.Signature(SourceBeat))`
        Beats of a :class:`PatternSource`.
    block_bytes : :py:`In(stream.Signature(BLOCK_BITS))`
        Lengths of the blocks; a packet's is valid by its last beat.
    flip : :py:`In(1)`
        Inverts bit 0 of the beat taken in this cycle, as a fault would.
    events : :py:`Out(CheckEvents)`
        ``LATENCY`` cycles after the beat.
    """

    LATENCY = 6

    k: In(4)
    s_axis: In(AXIStream(BURST_BYTES, 1))
    expected: In(stream.Signature(SourceBeat))
    block_bytes: In(stream.Signature(BLOCK_BITS))
    flip: In(1)
    events: Out(CheckEvents)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        sync = m.d.sync
        take = Signal()
        m.d.comb += [
            take.eq(self.s_axis.tvalid & self.expected.valid),
            self.s_axis.tready.eq(self.expected.valid),
            self.expected.ready.eq(self.s_axis.tvalid),
            self.block_bytes.ready.eq(take & self.expected.payload.last),
        ]

        # Stage 1: both sides registered.
        got1 = Signal(32 * GROUP_LANES, reset_less=True)
        keep1 = Signal(BURST_BYTES, reset_less=True)
        expected1 = Signal(SourceBeat, reset_less=True)
        last1, malformed1, sized1 = (
            Signal(name=name, reset_less=True) for name in ("last1", "malformed1", "sized1")
        )
        bytes1 = Signal(BLOCK_BITS, reset_less=True)
        valid1 = Signal()
        sync += [
            valid1.eq(take),
            got1.eq(self.s_axis.tdata ^ self.flip),
            keep1.eq(self.s_axis.tkeep),
            last1.eq(self.s_axis.tlast),
            malformed1.eq(self.s_axis.tuser),
            expected1.eq(self.expected.payload),
            bytes1.eq(self.block_bytes.payload),
            sized1.eq(self.block_bytes.valid),
        ]
        present1 = present(expected1)

        lanes = [
            self._lane(m, lane, got1.word_select(lane, 32), expected1, present1[lane])
            for lane in range(GROUP_LANES)
        ]
        valid5 = delayed(m, valid1, 4, name="valid", reset=True)
        packet5 = delayed(m, valid1 & expected1.last, 4, name="packet", reset=True)
        sync += [
            self.events.beat.eq(valid5),
            self.events.packet.eq(packet5),
            self.events.lanes.eq(
                count_ones(delayed(m, present1 & valid1.replicate(GROUP_LANES), 4, name="present"))
            ),
            self.events.mismatched.eq(
                count_ones(Cat(different for different, _ in lanes)) & valid5.replicate(4)
            ),
            self.events.beyond_bound.eq(count_ones(Cat(beyond for _, beyond in lanes)) & valid5.replicate(4)),
        ]
        format5 = self._format(m, keep1, present1, last1 != expected1.last, malformed1)
        sync += self.events.wrong_format.eq(valid5 & format5)
        sync += self.events.wrong_size.eq(self._size(m, valid1, expected1, bytes1, sized1))
        return m

    def _lane(
        self, m: Module, lane: int, got1: Value, expected1: Any, present1: Value
    ) -> tuple[Signal, Signal]:
        """Whether a lane differs from its expected value, and by too much from its own; in stage 5."""
        sync = m.d.sync

        def register(name: str, width: int) -> Signal:
            return Signal(width, name=f"{name}_lane{lane}", reset_less=True)

        sent1 = expected1.values.word_select(lane, 32)
        lossy1 = expected1.lossy.word_select(lane, 32)
        exponent1 = sent1[MANTISSA_BITS:31]

        # Stage 2: bytes compared, and how many low mantissa bits weigh less than the bound.
        different2, changed2 = register("different2", 4), register("changed2", 4)
        mantissa2 = register("mantissa2", MANTISSA_BITS)
        weight2 = Signal(signed(10), name=f"weight2_lane{lane}", reset_less=True)
        same_class2, small2, zero2, present2 = (
            register(name, 1) for name in ("same_class2", "small2", "zero2", "present2")
        )
        sync += [
            different2.eq(Cat((got1.word_select(i, 8) != lossy1.word_select(i, 8)) for i in range(4))),
            changed2.eq(Cat((got1.word_select(i, 8) != sent1.word_select(i, 8)) for i in range(4))),
            mantissa2.eq(got1[:MANTISSA_BITS] ^ sent1[:MANTISSA_BITS]),
            same_class2.eq(got1[MANTISSA_BITS:] == sent1[MANTISSA_BITS:]),
            zero2.eq(got1 == 0),
            # Exponent e: mantissa bit j weighs 2**(e - 150 + j), below 2**-k for j < 150 - e - k.
            weight2.eq((EXPONENT_BIAS + MANTISSA_BITS - self.k) - exponent1),
            small2.eq(exponent1 < EXPONENT_BIAS - self.k),
            present2.eq(present1),
        ]

        # Stage 3: that number as 0..31; from 23 on no bit of the mantissa weighs too much.
        light3, mantissa3 = register("light3", 5), register("mantissa3", MANTISSA_BITS)
        different3, within3, alike3, present3 = (
            register(name, 1) for name in ("different3", "within3", "alike3", "present3")
        )
        sync += [
            light3.eq(Mux(weight2 < 0, 0, Mux(weight2[5:9].any(), 31, weight2[:5]))),
            mantissa3.eq(mantissa2),
            different3.eq(different2.any()),
            within3.eq(~changed2.any() | (zero2 & small2)),
            alike3.eq(same_class2),
            present3.eq(present2),
        ]

        # Stage 4: mantissa bits that differ and must not.
        over4 = register("over4", MANTISSA_BITS)
        different4, within4, alike4, present4 = (
            register(name, 1) for name in ("different4", "within4", "alike4", "present4")
        )
        sync += [
            over4.eq(Cat(mantissa3[bit] & (light3 <= bit) for bit in range(MANTISSA_BITS))),
            different4.eq(different3),
            within4.eq(within3),
            alike4.eq(alike3),
            present4.eq(present3),
        ]

        different5, beyond5 = register("different5", 1), register("beyond5", 1)
        sync += [
            different5.eq(present4 & different4),
            beyond5.eq(present4 & ~(within4 | (alike4 & ~over4.any()))),
        ]
        return different5, beyond5

    def _format(
        self, m: Module, keep1: Value, present1: Value, last_differs1: Value, malformed1: Value
    ) -> Signal:
        """Whether the beat's side signals are wrong, in stage 5."""
        keep2 = Signal(GROUP_LANES, reset_less=True, name="keep_differs2")
        other2 = Signal(reset_less=True, name="other_differs2")
        m.d.sync += [
            keep2.eq(Cat(keep1.word_select(i, 4) != present1[i].replicate(4) for i in range(GROUP_LANES))),
            other2.eq(last_differs1 | malformed1),
        ]
        return delayed(m, keep2.any() | other2, 3, name="format")

    def _size(self, m: Module, valid1: Value, expected1: Any, bytes1: Value, sized1: Value) -> Value:
        """Whether the packet that ends in stage 5 had a block of another length."""
        total = Signal(BLOCK_BITS)  # of the packet's beats before this one
        sum2 = Signal(BLOCK_BITS, reset_less=True)
        bytes2 = Signal(BLOCK_BITS, reset_less=True)
        ends2 = Signal()
        sized2 = Signal(reset_less=True)
        sum1 = (total + expected1.size)[:BLOCK_BITS]
        with m.If(valid1):
            m.d.sync += total.eq(sum1 & ~expected1.last.replicate(BLOCK_BITS))
        m.d.sync += [
            sum2.eq(sum1),
            bytes2.eq(bytes1),
            sized2.eq(sized1),
            ends2.eq(valid1 & expected1.last),
        ]
        wrong3 = Signal(name="wrong_size3")
        m.d.sync += wrong3.eq(ends2 & ((sum2 != bytes2) | ~sized2))
        return delayed(m, wrong3, 2, name="wrong_size", reset=True)
