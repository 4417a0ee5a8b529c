# SPDX-License-Identifier: BSD-2-Clause
"""The functions of :mod:`inceptionn.wire`."""

import math
from fractions import Fraction

import numpy as np
import pytest
from refusals import refused

from inceptionn import wire
from inceptionn.wire import Parameters


@pytest.mark.parametrize("k", range(wire.MIN_K, wire.MAX_K + 1))
def test_error_bound_exponent(k: int) -> None:
    for bound in (2.0**-k, np.float32(2.0**-k), Fraction(1, 2**k)):
        assert wire.error_bound_exponent(bound) == k  # type: ignore[arg-type]
    for bound in (math.nextafter(2.0**-k, 0), math.nextafter(2.0**-k, 1), -(2.0**-k), 3 * 2.0**-k / 2):
        refused(ValueError, rf"not {bound!r}$", wire.error_bound_exponent, bound)


@pytest.mark.parametrize("bound", [1, 0, 2.0**-15, math.inf, math.nan, 10**400])
def test_error_bound_out_of_range(bound: float) -> None:
    with pytest.raises(ValueError, match=rf"^error bound must be 2\*\*-k with k in 1..14, not {bound!r}$"):
        wire.error_bound_exponent(bound)


@pytest.mark.parametrize("bound", ["0.5", b"0.5", None, False, 0.5j, [0.5]])
def test_error_bound_of_another_type(bound) -> None:
    with pytest.raises(TypeError, match=r"^error bound must be 2\*\*-k with k in 1..14, not "):
        wire.error_bound_exponent(bound)


def test_parameters() -> None:
    for mode in wire.MODES:
        for k in range(wire.MIN_K, wire.MAX_K + 1):
            params = wire.parameters(k, mode)
            assert params.valid
            assert params.e0 == 127 - k
            assert params.t == params.e0 + math.ceil((127 - params.e0) / 2)
            assert params.b == (127 if mode == "literal" else params.t)
    for k in (0, 15):
        refused(ValueError, rf"not k = {k}$", wire.parameters, k, "bounded")
        refused(ValueError, rf"not k = {k}$", wire.planes_parameters, k)
    for mode in ("loose", "planes"):
        with pytest.raises(ValueError, match=rf"^mode must be one of literal, bounded, not '{mode}'$"):
            wire.parameters(10, mode)
    assert [wire.planes_parameters(k).e0 for k in (1, 10, 14)] == [126, 117, 113]
    assert [wire.PlanesParameters(e0).valid for e0 in (112, 113, 126, 127)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("numbers", "valid"),
    [
        ((1, 1, 1), True),
        ((127, 127, 127), True),
        ((1, 127, 255), True),
        ((0, 1, 1), False),
        ((118, 117, 127), False),
        ((117, 128, 128), False),
        ((117, 122, 121), False),
        ((117, 122, 256), False),
        ((128, 128, 128), False),
    ],
)
def test_valid(numbers: tuple[int, int, int], valid: bool) -> None:
    assert Parameters(*numbers).valid is valid
