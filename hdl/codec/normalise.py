# SPDX-License-Identifier: BSD-2-Clause
"""From a magnitude of 15 bits to an fp32 value: what the lanes of both decompressors share."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ..parts.pipeline import Pipeline


def zero_tests(magnitude: Value) -> dict[str, Value]:
    """Return the tests that tell the shift by 8 and by 4."""
    return {
        "high_zero": magnitude[7:15] == 0,
        "top_zero": magnitude[11:15] == 0,
        "middle_zero": magnitude[3:7] == 0,
    }


def normalise(m: Module, p: Pipeline) -> Value:
    """Return the value of ``magnitude``, two stages later; the caller makes the last, to hold the result.

    Normalisation by halves: three zero tests on the magnitude tell the shift by 8 and by 4. The top nibble of
    the result tells the rest. The shifter holds zeros for a raw lane, and ``raw`` holds zeros for any other,
    so one OR joins them.

    ``p`` has ``magnitude`` (15 bits), its :func:`zero_tests`, ``sign``, ``base`` (the exponent is ``base``
    less the 1-based position of the leading 1 from the top), ``is_vector``, and ``raw``, the 32 bits of a
    lane with ``is_raw``. The magnitude zero gives +0.0. ``by_4``, ``by_low`` and ``any_set`` are left for the
    caller.
    """
    # Shift by 8 and 4.
    by_8 = p.high_zero
    by_4 = Mux(p.high_zero, p.middle_zero, p.top_zero)
    p.let(
        shifted=Mux(
            by_8,
            Mux(p.middle_zero, p.magnitude[:3] << 12, p.magnitude[:7] << 8),
            Mux(p.top_zero, p.magnitude[:11] << 4, p.magnitude),
        )[:15]
    )
    p.stage(
        magnitude=Mux(p.is_vector, p.shifted, 0),
        raw=Mux(p.is_raw, p.raw, 0),
        exponent=(p.base - Cat(Const(1, 2), by_4, by_8))[:8],
        by_4=by_4,
    )

    # Shift by 0..3, drop the leading 1.
    top = p.magnitude[11:15]
    p.let(
        by_low=Mux(top[3], 0, Mux(top[2], 1, Mux(top[1], 2, 3))),
        # After normalisation a 1 is in the top four bits or nowhere.
        any_set=top.any(),
    )
    fraction = Signal(15)
    with m.Switch(p.by_low):
        for shift in range(4):
            with m.Case(shift):
                m.d.comb += fraction.eq(p.magnitude << (shift + 1))
    exponent = Mux(p.any_set, (p.exponent - p.by_low)[:8], 0)
    return p.raw | Cat(Const(0, 8), fraction, exponent, p.any_set & p.sign)
