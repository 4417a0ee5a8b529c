# SPDX-License-Identifier: BSD-2-Clause
"""The lane codec: by hand, against a re-statement in real numbers, and by its consequences."""

import math
import random
import struct

import numpy as np
import pytest
from refusals import refused

from inceptionn import wire
from inceptionn.sim import golden
from inceptionn.sim.golden.codec import compress_lanes, decompress_lanes
from inceptionn.wire import Parameters, Tag

SETTINGS = [(k, mode) for mode in wire.MODES for k in range(wire.MIN_K, wire.MAX_K + 1)]
MANTISSAS = sorted(
    {0, 1, 0x7FFFFF, 0x2AAAAA, 0x555555} | {1 << i for i in range(23)} | {(1 << i) - 1 for i in range(23)}
)


def every_exponent() -> np.ndarray:
    """Every sign and exponent with mantissas at the edges of every truncation."""
    mantissas = np.array(MANTISSAS, np.uint32)
    tops = np.arange(512, dtype=np.uint32)[:, np.newaxis] << 23
    return (tops | mantissas).reshape(-1)


# A re-statement in real numbers: classes are intervals, vectors are |x| in units of the last place kept.


def real(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def restated(bits: int, p: Parameters) -> tuple[Tag, int]:
    x = abs(real(bits))
    s = bits >> 31
    if not x < 1:  # NaN too
        return Tag.RAW, bits
    if x < math.ldexp(1, p.e0 - 127):
        return Tag.ZERO, 0
    if x >= math.ldexp(1, p.t - 127):
        return Tag.BITS16, s << 15 | math.floor(math.ldexp(x, 15))
    return Tag.BITS8, s << 7 | math.floor(math.ldexp(x, 7 + 127 - p.b))


def restated_value(tag: Tag, vector: int, b: int) -> int | None:
    """Return the 32 bits, or None for an impossible vector (smaller than every normal number)."""
    if tag is Tag.RAW:
        return vector
    width, unit = (15, -15) if tag is Tag.BITS16 else (7, b - 127 - 7)
    x = math.ldexp(vector & ((1 << width) - 1), unit) if tag is not Tag.ZERO else 0.0
    if x == 0:
        return 0
    if x < 2.0**-126:
        return None
    return struct.unpack("<I", struct.pack("<f", -x if vector >> width else x))[0]


@pytest.mark.parametrize(
    ("mode", "bits", "tag", "vector", "back"),
    [
        # k = 10: E0 = 117, T = 122; literal B = 127, bounded B = 122. M = 1.m as 24 bits.
        ("literal", 0x3F800000, Tag.RAW, 0x3F800000, 0x3F800000),  # 1.0
        ("literal", 0xFF800001, Tag.RAW, 0xFF800001, 0xFF800001),  # signalling NaN
        ("literal", 0x3F7FFFFF, Tag.BITS16, 0x7FFF, 0x3F7FFE00),  # just below 1: 15 ones
        ("literal", 0xBF000000, Tag.BITS16, 0xC000, 0xBF000000),  # -0.5: 1, then 100 0000 0000 0000
        ("literal", 0x3E99999A, Tag.BITS16, 0x2666, 0x3E999800),  # 0.3: 0x99999A >> 2 = 0x266666
        ("literal", 0x3D000000, Tag.BITS16, 0x0400, 0x3D000000),  # 2**-5, e = T
        ("literal", 0x3CFFFFFF, Tag.BITS8, 0x03, 0x3CC00000),  # below 2**-5: 11b of 2**-7
        ("literal", 0xBC000000, Tag.BITS8, 0x81, 0xBC000000),  # -2**-7: the last value that is kept
        ("literal", 0x3BFFFFFF, Tag.BITS8, 0x00, 0x00000000),  # just below 2**-7: lost, an error of 8 bounds
        ("literal", 0xBBFFFFFF, Tag.BITS8, 0x80, 0x00000000),  # a sign alone is +0.0
        ("literal", 0x3A800000, Tag.BITS8, 0x00, 0x00000000),  # 2**-10, e = E0
        ("literal", 0x3A7FFFFF, Tag.ZERO, 0, 0x00000000),
        ("bounded", 0x3CFFFFFF, Tag.BITS8, 0x7F, 0x3CFE0000),  # seven ones of 2**-12
        ("bounded", 0xBC000000, Tag.BITS8, 0xA0, 0xBC000000),  # -2**-7: 0x800000 >> 2, bits 22..16 = 0100000
        ("bounded", 0x3BFFFFFF, Tag.BITS8, 0x1F, 0x3BF80000),
        ("bounded", 0x3A800000, Tag.BITS8, 0x04, 0x3A800000),  # 2**-10 = 4 * 2**-12
        ("bounded", 0x3AFFFFFF, Tag.BITS8, 0x07, 0x3AE00000),
        ("bounded", 0x3A7FFFFF, Tag.ZERO, 0, 0x00000000),
        ("bounded", 0x80000000, Tag.ZERO, 0, 0x00000000),  # -0.0
        ("bounded", 0x007FFFFF, Tag.ZERO, 0, 0x00000000),  # denormal
    ],
)
def test_by_hand(mode: str, bits: int, tag: Tag, vector: int, back: int) -> None:
    params = wire.parameters(10, mode)
    assert golden.compress_lane(bits, params) == (tag, vector)
    assert golden.decompress_lane(tag, vector, params.b) == back


@pytest.mark.parametrize(("k", "mode"), SETTINGS)
def test_every_exponent(k: int, mode: str) -> None:
    check_restatement(every_exponent(), wire.parameters(k, mode))


def test_any_valid_parameters() -> None:
    source = random.Random(1)
    corners = [(1, 1, 1), (1, 1, 255), (1, 127, 127), (1, 127, 255), (60, 90, 200)]
    corners += [(127, 127, 127), (127, 127, 255)]
    for _ in range(40):
        e0, t = sorted((source.randint(1, 127), source.randint(1, 127)))
        corners.append((e0, t, source.randint(t, 255)))
    values = np.array(
        [source.getrandbits(32) for _ in range(1500)] + [e << 23 for e in range(512)], np.uint32
    )
    for e0, t, b in corners:
        check_restatement(values, Parameters(e0, t, b))


def check_restatement(values: np.ndarray, params: Parameters) -> None:
    tags, vectors = compress_lanes(values, params)
    back, impossible = decompress_lanes(tags, vectors, params.b)
    assert not impossible.any()
    expected = [restated(bits, params) for bits in values.tolist()]
    assert list(zip(tags.tolist(), vectors.tolist(), strict=True)) == expected
    assert back.tolist() == [restated_value(tag, vector, params.b) for tag, vector in expected]


def test_every_8_bit_vector_at_every_base() -> None:
    vectors = np.arange(256, dtype=np.uint32)
    tags = np.full(256, Tag.BITS8, np.uint8)
    for b in range(256):
        back, impossible = decompress_lanes(tags, vectors, b)
        expected = [restated_value(Tag.BITS8, v, b) for v in range(256)]
        assert [None if no else bits for bits, no in zip(back.tolist(), impossible, strict=True)] == expected


def test_every_16_bit_vector() -> None:
    vectors = np.arange(1 << 16, dtype=np.uint32)
    back, impossible = decompress_lanes(np.full(1 << 16, Tag.BITS16, np.uint8), vectors, 0)
    assert not impossible.any()
    assert back.tolist() == [restated_value(Tag.BITS16, v, 0) for v in range(1 << 16)]


def test_impossible_vector_is_refused() -> None:
    assert golden.decompress_lane(Tag.BITS8, 0x40, 2) == 1 << 23
    with pytest.raises(ValueError, match="exponent of an 8-bit vector at base 1 falls below 1: 0x40"):
        golden.decompress_lane(Tag.BITS8, 0x40, 1)
    assert golden.decompress_lane(Tag.BITS8, 0x80, 0) == 0


# Consequences (wire-format.md section 1)


@pytest.mark.parametrize(("k", "mode"), SETTINGS)
def test_consequences(k: int, mode: str) -> None:
    bits = every_exponent()
    seen = golden.lossy(bits.view(np.float32), 2.0**-k, mode).view(np.uint32)
    again = golden.lossy(seen.view(np.float32), 2.0**-k, mode).view(np.uint32)
    assert (seen == again).all(), "idempotent"

    kept = seen != 0
    assert (seen[kept] >> 23 == bits[kept] >> 23).all(), "sign and exponent survive"
    cleared = seen ^ bits
    assert ((cleared & (cleared + 1) == 0) | ((seen & cleared) == 0))[kept].all()
    lowest = seen & (~seen + 1)
    assert (cleared < lowest)[kept].all(), "only low mantissa bits are cleared"

    finite = np.isfinite(bits.view(np.float32))
    x, y = (v[finite].view(np.float32).astype(np.float64) for v in (bits, seen))
    assert (np.abs(y) <= np.abs(x)).all(), "truncation toward zero"
    order = np.argsort(x, kind="stable")
    assert (np.diff(y[order]) >= 0).all(), "ordering"
    assert (seen[bits & 0x7F800000 >= 0x3F800000] == bits[bits & 0x7F800000 >= 0x3F800000]).all(), (
        "raw is raw"
    )


@pytest.mark.parametrize("k", range(wire.MIN_K, wire.MAX_K + 1))
def test_bounded_holds_its_bound(k: int) -> None:
    x = every_exponent().view(np.float32)
    x = x[np.abs(x) < 1].astype(np.float64)
    error = np.abs(golden.lossy(x.astype(np.float32), 2.0**-k, "bounded") - x)
    assert error.max() < 2.0**-k
    assert error.max() > 0.99 * 2.0**-k  # what is dropped comes close to it


@pytest.mark.parametrize(("k", "times"), [(1, 1), (4, 1), (6, 1), (7, 1), (8, 2), (9, 4), (10, 8), (14, 128)])
def test_error_of_literal(k: int, times: int) -> None:
    """Algorithm 2 loses all below 2**-7 in its 8-bit class: 8 times the bound at 2**-10."""
    x = every_exponent().view(np.float32)
    x = x[np.abs(x) < 1].astype(np.float64)
    error = np.abs(golden.lossy(x.astype(np.float32), 2.0**-k, "literal") - x).max()
    assert 0.99 * times * 2.0**-k < error < times * 2.0**-k


@pytest.mark.parametrize("k", range(wire.MIN_K, wire.MAX_K + 1))
def test_modes_have_the_same_size(k: int) -> None:
    x = every_exponent().view(np.float32)
    sizes = {len(golden.compress(x, 2.0**-k, mode)) for mode in wire.MODES}
    counts = [golden.histogram(x, 2.0**-k, mode).tolist() for mode in wire.MODES]
    assert len(sizes) == 1
    assert counts[0] == counts[1]
    assert sum(counts[0]) == len(x)


# Arguments


@pytest.mark.parametrize("call", [golden.compress, golden.lossy, golden.histogram])
def test_arguments(call) -> None:
    x = np.ones(8, np.float32)
    for bound in (0.001, 1.0, 2.0**-15, 0.0, -0.5, math.nan, math.inf, 3):
        hint = r" \(2\*\*-3\?\)" if bound == 3 else ""
        refused(
            ValueError, rf"^error bound must be 2\*\*-k with k in 1..14{hint}, not {bound!r}$", call, x, bound
        )
    for bound in ("0.5", None, True):
        refused(TypeError, rf"^error bound must be .*, not {bound!r}$", call, x, bound)
    refused(ValueError, r"^mode must be one of literal, bounded, not 'exact'$", call, x, 0.5, "exact")
    refused(TypeError, r"^values must be a float32 array, not float64$", call, x.astype(np.float64))
    refused(TypeError, r"^values must be a float32 array, not >f4$", call, x.astype(">f4"))
    refused(TypeError, r"^values must be a float32 array, not <class 'list'>$", call, [1.0])
    with pytest.raises(ValueError, match=r"1 <= e0 <= t <= 127.*not Parameters\(e0=0, t=122, b=122\)$"):
        call(x, params=Parameters(0, 122, 122))


def test_shape_is_kept() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::2].transpose(2, 0, 1)
    assert golden.lossy(x).shape == x.shape
    assert (golden.lossy(x) == x).all()
    assert golden.lossy(np.array(2, np.float32)).shape == ()
    assert (golden.decompress(golden.compress(x), x.size).reshape(x.shape) == x).all()
