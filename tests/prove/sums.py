# SPDX-License-Identifier: BSD-2-Clause
"""Sums in one's complement, against the remainder by 65535 (RFC 1071)."""

from amaranth.hdl import Mux
from harness import Fault, Harness, Proof

from inceptionn.hdl.parts.checksum import add16, canonical16, fold17

MODULUS = 0xFFFF


def sums(h: Harness) -> None:
    a, b = h.anything(16, "a"), h.anything(16, "b")
    total, lone = a + b, h.anything(17, "total")
    h.assume("a sum of two words has 17 bits", lone <= 2 * MODULUS)
    h.claim(
        "a sum above 65535 has that taken off", add16(a, b) == Mux(total > MODULUS, total - MODULUS, total)
    )
    remainder = Mux(lone >= 2 * MODULUS, 0, Mux(lone >= MODULUS, lone - MODULUS, lone))
    h.claim("a folded sum is the remainder", fold17(lone) == remainder)
    h.claim("only the word of ones has another representative", canonical16(a) == Mux(a == MODULUS, 0, a))
    h.cover("the carry ends in the last bit", (a == 0xFFFE) & (b == 2))
    h.cover("twice the word of ones", lone == 2 * MODULUS)


PROOFS = (
    Proof("checksum", sums, 1, (
        Fault("parts.checksum", "[16:32]", "[:16]"),
        Fault("parts.checksum", "low[1:].all() & (low[0] ^ carry)", "low[1:].all() & (low[0] & ~carry)"),
    )),
)  # fmt: skip
