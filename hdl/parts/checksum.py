# SPDX-License-Identifier: BSD-2-Clause
"""Internet checksum arithmetic (RFC 1071, RFC 1624): everything modulo 65535."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from .pipeline import Pipeline
from .width import BURST, Width


def swap16(word: Value) -> Value:
    """Exchange the bytes of a 16-bit word. One's-complement sums commute with it (RFC 1071, 2.B)."""
    return Cat(word[8:16], word[0:8])


def add16(a: Value, b: Value) -> Value:
    """Add two words of at most 16 bits in one's complement (end-around carry), 16 bits.

    Both stand twice in one addition of 32 bits: the lower half's carry enters the upper half. Two carry
    chains in a row, with a wire between them, would take longer.
    """
    a, b = Cat(a, Const(0, 16 - len(a))), Cat(b, Const(0, 16 - len(b)))
    return (Cat(a, a) + Cat(b, b))[16:32]


def fold17(total: Value) -> Value:
    """Do ``canonical16`` on a 17-bit sum of two 16-bit words with its carry added, in one addition."""
    low, carry = total[:16], total[16]
    negative_zero = low[1:].all() & (low[0] ^ carry)
    return Mux(negative_zero, 0, (low + carry)[:16])


def canonical16(word: Value) -> Value:
    """Return the representative 0..65534 of a 16-bit one's-complement number: -0 becomes zero."""
    return Mux(word.all(), 0, word)


class OnesComplementSum(wiring.Component):
    """Sums the 16-bit words of beats, one beat per cycle, modulo 65535.

    Words are little-endian, as they lie in ``tdata``; :func:`swap16` turns the result into the network's. The
    sum follows ``last`` after :attr:`latency` cycles: 6 with 8 lanes, 7 with 16.

    Parameters
    ----------
    width : :class:`Width`
    carries : :class:`int`
        One-bit numbers that are added besides, at most one for each word.
    """

    def __init__(self, width: Width = BURST, *, carries: int = 0):
        self.width = width
        self.words = self.width.words
        self.latency = self.latency_of(self.width)
        self.carries = carries
        super().__init__(
            {
                "valid": In(1),  #: ``beat`` and ``carry`` are added.
                "last": In(1),  #: Ends a sum; may come without ``valid`` (nothing added).
                "beat": In(16 * self.words),  #: The words to add.
                #: With ``carries``: added like words of one bit.
                **({"carry": In(carries)} if carries else {}),
                #: Folded sum, 0..65535; 0 only if every word was 0. The payload holds until the next sum.
                "sums": Out(stream.Signature(16, always_ready=True)),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from ``last`` to the sum."""
        return exact_log2(width.words) + 2

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # A binary adder tree of one level per stage, gated before its last level: at its input, `valid` would
        # have a load for each bit. A carry enters a chain of adders one place below its words: in the first
        # level as long as there are chains, then in the next; those are gated here.
        words = [self.beat.word_select(i, 16) for i in range(self.words)]
        carries = [
            self.carry[i] if i < self.words // 2 else self.valid & self.carry[i] for i in range(self.carries)
        ]
        p = Pipeline(m, control={"last", "counts"})
        # Only accepted words count: the tree itself has no reset.
        p.let(last=self.last, adds=self.valid, counts=self.valid | self.last)
        waiting = max(0, len(carries) - len(words) // 2)
        if waiting:
            p.let(carries=Cat(carries[-waiting:]))
        while len(words) > 1:
            if len(words) == 2:
                words = [Mux(p.adds, word, 0) for word in words]
            sums: list[Value] = []
            for a, b in zip(words[::2], words[1::2], strict=True):
                sums.append(self._with_carry(a, b, carries.pop(0)) if carries else a + b)
            p.stage(sums=Cat(sums))
            words = [p.sums.word_select(i, len(sums[0])) for i in range(len(sums))]
            if waiting:
                carries = list(p.carries[-waiting:])
                waiting = max(0, waiting - len(words) // 2)

        # Next stage: accumulate. 29 bits hold the 4896 words of the longest block.
        total = Signal(29)
        self.probes = {"total": total, "stages": p}
        word = words[0]
        accumulated = (self._with_carry(total, word, carries[0]) if carries else total + word)[:29]
        last = p.last
        with m.If(p.counts):
            m.d.sync += total.eq(Mux(last, 0, accumulated))
        p.stage(finished=accumulated)

        # Last stage: fold.
        m.d.sync += self.sums.valid.eq(p.last)
        with m.If(p.last):
            m.d.sync += self.sums.payload.eq(add16(p.finished[:16], p.finished[16:]))
        return m

    @staticmethod
    def _with_carry(a: Value, b: Value, carry: Value) -> Value:
        """Return ``a + b + carry``."""
        return (Cat(Const(1, 1), a) + Cat(carry, b))[1:]
