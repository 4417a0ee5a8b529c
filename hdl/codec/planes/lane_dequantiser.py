# SPDX-License-Identifier: BSD-2-Clause
"""Lane dequantiser: a number of steps to fp32, or two to bf16 (wire format, sections 9 and 10)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BF16_LANES

from ...parts.pipeline import Pipeline
from ..normalise import normalise, zero_tests
from .lane_quantiser import Z_BITS

_BASE_ABOVE_E0 = 16
"""A magnitude of 15 bits with a leading 1 at the top is 2^14 steps of 2^(E0-126): exponent E0 + 15."""


class LaneDequantiser(wiring.Component):
    """One lane's integer ``z``, or its raw word, to its fp32 value.

    The value is ``(z >> 1) + (z & 1)`` steps of 2^(E0-126), negative if ``z`` is odd; +0.0 for 0. Exponents
    wrap for an ``e0`` outside 113 to 126.

    With ``bf16``, the word may instead be two bf16 lanes, which an ``e0`` from 128 on says: ``z`` is then
    that of its upper half, and ``even`` that of the lower. Bits beyond their significands are cut off.

    Free-running: a new lane every cycle, outputs ``LATENCY`` cycles after their inputs.

    Parameters
    ----------
    bf16 : :class:`bool`
        Restore bf16 lanes, too.
    """

    LATENCY = 4

    def __init__(self, *, bf16: bool = False):
        self.has_bf16 = bf16
        super().__init__(
            {
                "z": In(Z_BITS),  #: The lane's integer, ``2q - s``.
                #: With ``bf16=True``: the integer of the lower bf16 lane.
                **({"even": In(BF16_LANES.planes)} if bf16 else {}),
                "word": In(32),  #: The lane's bits in a group with code 15.
                "is_raw": In(1),  #: Take ``word``; ``z`` is ignored.
                "absent": In(1),  #: The block does not have this lane.
                "e0": In(8),  #: Parameter E0 of the codec; of bf16 lanes E0 + 128.
                "value": Out(32),  #: fp32 bits.
                "impossible": Out(1),  #: The lane is absent and not zero.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        p, value = self._restore(m, "", self.z, self.word)
        any_set = p.any_set
        if self.has_bf16:
            # The lower bf16 lane, as the upper half of a word. In an fp32 lane it is zero, and not set.
            even, even_value = self._restore(m, "even_", self.even, Cat(Const(0, 16), self.word[:16]))
            value = Cat(Mux(p.bf16, even_value[16:], value[:16]), value[16:])
            any_set = any_set | even.any_set
        p.stage(value=value, impossible=p.absent & (any_set | p.word_set))
        m.d.comb += [self.value.eq(p.value), self.impossible.eq(p.impossible)]
        return m

    def _restore(self, m: Module, prefix: str, z: Value, word: Value) -> tuple[Pipeline, Value]:
        """Return a lane's value, three stages later, and its pipeline there."""
        p = Pipeline(m, prefix)
        p.let(raw=word, is_raw=self.is_raw, absent=self.absent, e0=self.e0)
        # Stage 1: steps. Stage 2: zero tests.
        p.stage(magnitude=z[1:] + z[0], sign=z[0])
        e0 = p.e0
        if self.has_bf16:
            e0 = p.e0[:-1]
            p.let(bf16=p.e0[-1])
        p.stage(
            **zero_tests(p.magnitude),
            is_vector=~p.is_raw & p.bf16 if prefix else ~p.is_raw,
            base=(e0 + _BASE_ABOVE_E0)[:8],
            word_set=p.is_raw & p.raw.any(),
        )
        # Stage 3, and what becomes stage 4.
        return p, normalise(m, p)
