# SPDX-License-Identifier: BSD-2-Clause
"""The planes codec: by hand, against its definition in integers, and by its consequences."""

import math
import random
import struct
from itertools import pairwise

import numpy as np
import pytest
from refusals import refused

from inceptionn import wire
from inceptionn.sim import golden
from inceptionn.sim.golden import planes, values
from inceptionn.sim.golden.codec import MalformedError

BOUNDS = range(wire.MIN_K, wire.MAX_K + 1)
MANTISSAS = sorted(
    {0x7FFFFF, 0x2AAAAA, 0x555555}
    | {(1 << i) + low & 0x7FFFFF for i in range(24) for low in (-1, 0, 1)}
    | {(3 << i) + low & 0x7FFFFF for i in range(22) for low in (-1, 0, 1)}
)


def every_exponent() -> np.ndarray:
    """Every sign and exponent that matters with mantissas next to every half of a step."""
    exponents = np.array([0, 1, 2, 60, *range(111, 142), 200, 254, 255], np.uint32)
    tops = np.concatenate((exponents, exponents | 0x100))[:, np.newaxis] << 23
    return (tops | np.array(MANTISSAS, np.uint32)).reshape(-1)


def defined(f: int, e0: int) -> tuple[int, bool, int]:
    """Return z, whether the lane is raw, and the lossy word, by the definition in integers.

    The word is made as hardware makes it: half a step is added, and what is below a step is cleared.
    """
    s, e, m = f >> 31, f >> 23 & 0xFF, f & 0x7FFFFF
    d = e - e0
    if d < 0:
        return 0, False, 0
    if d >= 14:
        return 0, True, f
    q = (2**23 + m + 2 ** (23 - d)) >> (24 - d)
    assert 1 <= q <= 2**13
    word = (f & 0x7FFFFFFF) + 2 ** (23 - d)
    cleared = 23 if d == 0 else 24 - d
    return 2 * q - s, False, s << 31 | word >> cleared << cleared


@pytest.mark.parametrize("k", BOUNDS)
def test_the_definition_in_integers(k: int) -> None:
    bits = every_exponent()
    lanes = planes.compress_lanes(bits, 127 - k)
    expected = [defined(f, 127 - k) for f in bits.tolist()]
    assert list(zip(lanes.z.tolist(), lanes.raw.tolist(), lanes.bits.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("bits", "z", "back"),
    [
        # k = 10: D = 2**-9, E0 = 117.
        (0x00000000, 0, 0x00000000),
        (0x80000000, 0, 0x00000000),  # -0.0
        (0x807FFFFF, 0, 0x00000000),  # denormal
        (0x3A7FFFFF, 0, 0x00000000),  # just below 2**-10
        (0x3A800000, 2, 0x3B000000),  # 2**-10, a tie: away from zero, to 2**-9
        (0xBA800000, 1, 0xBB000000),
        (0x3B3FFFFF, 2, 0x3B000000),  # just below 1.5 steps
        (0x3B400000, 4, 0x3B800000),  # 1.5 steps, a tie, carries into the exponent
        (0xBB9FFFFF, 3, 0xBB800000),  # -2.5 steps, nearly
        (0xBBA00000, 5, 0xBBC00000),  # -2.5 steps
        (0x3F800000, 1024, 0x3F800000),  # 1.0 is 512 steps
        (0x417FFFFF, 0x4000, 0x41800000),  # just below 2**4: to 2**13 steps, a carry all the way
        (0xC17FFFFF, 0x3FFF, 0xC1800000),
        (0x417FFBFF, 0x3FFE, 0x417FF800),  # the last one that rounds to 2**13 - 1
        (0x417FFC00, 0x4000, 0x41800000),
        (0x41800000, None, 0x41800000),  # 2**4 is raw
        (0x7F7FFFFF, None, 0x7F7FFFFF),
        (0xFF800000, None, 0xFF800000),  # infinity
        (0x7F800001, None, 0x7F800001),  # signalling NaN
        (0xFFC12345, None, 0xFFC12345),
    ],
)
def test_lane_by_hand(bits: int, z: int | None, back: int) -> None:
    lanes = planes.compress_lanes(np.array([bits], np.uint32), 117)
    assert (int(lanes.z[0]), bool(lanes.raw[0]), int(lanes.bits[0])) == (z or 0, z is None, back)
    if z is not None:
        assert planes.decompress_lanes(np.array([z], np.uint32), 117).tolist() == [back]


def test_every_integer_decodes() -> None:
    z = np.arange(1 << 15, dtype=np.uint32)
    for k in (1, 10, 14):
        y = planes.decompress_lanes(z, 127 - k).view(np.float32).astype(np.float64)
        assert y[0] == 0
        assert not np.signbit(y[0])
        assert (y[1::2] == -(2.0 ** (1 - k)) * np.arange(1, (1 << 14) + 1)).all()
        assert (y[2::2] == 2.0 ** (1 - k) * np.arange(1, 1 << 14)).all()


def test_a_raw_lane_beside_quantised_ones_by_hand() -> None:
    """One absent: eight words. The page's examples, which `test_wire_format_page` reads, have none."""
    x = np.array([math.inf, -0.0, 0.0029, -1e30, 2**-11, 0.5, -0.25], np.float32)
    assert planes.compress_block(x, 127 - 10).hex() == "0f00" + "".join(
        struct.pack("<f", y).hex() for y in (math.inf, 0.0, 2**-9, -1e30, 0.0, 0.5, -0.25, 0.0)
    )


BELOW_16 = np.nextafter(np.float32(16), np.float32(0))


@pytest.mark.parametrize(
    ("code", "lowest", "highest"),
    [
        # In steps of 2**-9: the extremes of each sign, z = 2 q of w bits and z = 2 q - 1 of w bits.
        (0, 0, 0),
        (1, -1, -1),
        *((w, 2 ** (w - 2), 2 ** (w - 1) - 1) for w in range(2, 14)),
        *((w, -(2 ** (w - 2)) - 1, -(2 ** (w - 1))) for w in range(2, 14)),
        (14, 2**12, BELOW_16 * 512),  # the latter has 15 bits: it rounds to 2**13 steps
        (14, -(2**12) - 1, -BELOW_16 * 512),
        (15, 2**13, 2**14),
        (15, -(2**13), -(2**14)),
    ],
)
def test_each_code_by_hand(code: int, lowest: float, highest: float) -> None:
    """The smallest and the largest integer of each width, in one lane of zeros and absent ones."""
    for lane, steps in ((0, lowest), (5, highest)):
        x = np.zeros(lane + 1, np.float32)
        x[lane] = steps / 512
        block = planes.compress_block(x, 117)
        assert block[:2] == bytes([code, 0])
        assert len(block) == 2 + wire.CODE_BYTES[code]
        if code == 15:
            assert block[2:].hex() == "00" * 4 * lane + x[lane:].tobytes().hex() + "00" * 4 * (7 - lane)
        else:
            q = math.floor(abs(steps) + 0.5)
            z = 2 * q - (steps < 0)
            assert block[2:] == bytes((z >> j & 1) << lane for j in range(wire.CODE_BYTES[code]))
        assert planes.decompress_block(block, lane + 1, 117).tobytes() == planes.lossy(x).tobytes()


def test_code_table_by_hand() -> None:
    """Nibbles, low one first, in words of four groups."""
    x = np.zeros(41, np.float32)
    for number, steps in enumerate((-1, 1, -2, 0, 2, -4)):
        x[8 * number] = steps * 2.0**-9
    assert (
        planes.compress_block(x, 117).hex() == "2102" + "3300" + "01" + "0001" + "0101" + "000001" + "010101"
    )


# Consequences


@pytest.mark.parametrize("k", BOUNDS)
def test_consequences(k: int) -> None:
    bits = every_exponent()
    x = bits.view(np.float32)
    seen = planes.lossy(x, 2.0**-k)
    assert planes.lossy(seen, 2.0**-k).tobytes() == seen.tobytes(), "idempotent"
    finite = np.isfinite(x)
    assert seen[~finite].tobytes() == x[~finite].tobytes(), "infinities and NaNs keep their bits"
    a, b = x[finite].astype(np.float64), seen[finite].astype(np.float64)
    assert np.abs(a - b).max() == 2.0**-k, "the bound holds, and a tie reaches it"
    assert (a[np.abs(a) >= 2.0 ** (14 - k)] == b[np.abs(a) >= 2.0 ** (14 - k)]).all()
    order = np.argsort(a, kind="stable")
    assert (np.diff(b[order]) >= 0).all(), "ordering"
    assert (np.signbit(a) == np.signbit(b))[b != 0].all()
    assert not np.signbit(b[b == 0]).any()


@pytest.mark.parametrize("kind", values.KINDS)
@pytest.mark.parametrize("lanes", [wire.FP32_LANES, wire.BF16_LANES], ids=lambda lanes: lanes.name)
def test_round_trip(lanes: wire.LaneType, kind: str) -> None:
    size, most = lanes.group_lanes, lanes.max_lanes
    made, dtype = (values.payload, "<f4") if lanes is wire.FP32_LANES else (values.bf16_payload, "<u2")
    near = (size - 1, size, size + 1, 4 * size - 1, 4 * size, 4 * size + 1)
    for k in (1, 6, 10, 14):
        for count in (1, 2, *near, 45 * size, 2047, 2048, most - 1, most):
            x = np.frombuffer(made(kind, count), dtype)
            block = planes.compress_block(x, 127 - k, lanes)
            counts = planes.histogram(x, 2.0**-k, lanes)
            groups = -(-count // size)
            assert counts.sum() == groups
            assert len(block) == 2 * -(-groups // 4) + counts @ np.array(lanes.code_bytes)
            back = planes.decompress_block(block, count, 127 - k, lanes)
            assert back.tobytes() == planes.lossy(x, 2.0**-k, lanes).tobytes()


# Malformed blocks and streams


def test_random_blocks_decode_or_are_malformed() -> None:
    """Every pattern that fills its block decodes, and to values that compress again."""
    source = random.Random(3)
    decoded = 0
    for _ in range(700):
        count = source.randint(1, 40)
        groups = -(-count // 8)
        codes = [source.choice((0, 1, 2, 14, 15)) for _ in range(groups)]
        nibbles = codes + [0] * (-groups % 4)
        needed = sum(wire.CODE_BYTES[code] for code in codes)
        data = source.randbytes(max(needed + source.choice((0, 0, 0, 1, -1)), 0))
        block = bytes(a | b << 4 for a, b in zip(nibbles[::2], nibbles[1::2], strict=True)) + data
        bits, found, fault = planes.examine_block(block, count, 120)
        assert found.tolist() == codes
        if needed != len(data):
            assert fault is not None
        elif fault is not None:
            assert count % 8
            assert "absent" in fault.reason
        else:
            decoded += 1
            x = bits.view(np.float32)
            assert planes.decompress(planes.compress(x, 2.0**-7), count, 2.0**-7).size == count
    assert decoded > 80


@pytest.mark.parametrize("count", [0, 1, 2047, 2048, 2049, 4096, 5001])
def test_stream(count: int) -> None:
    x = np.frombuffer(values.payload("fractions", count), np.float32)
    stream = planes.compress(x, 2.0**-8)
    blocks = [planes.compress_block(x[i : i + 2048], 119) for i in range(0, count, 2048)]
    assert stream == b"".join(blocks)
    assert planes.decompress(stream, count, 2.0**-8).tobytes() == planes.lossy(x, 2.0**-8).tobytes()
    for at, after in pairwise([*range(0, len(stream), 997), len(stream)]):
        for bad in (stream[:at], stream + stream[at:after] + b"\0"):
            with pytest.raises(MalformedError):
                planes.decompress(bad, count, 2.0**-8)


# Arguments


@pytest.mark.parametrize("call", [planes.compress, planes.lossy, planes.histogram])
def test_arguments(call) -> None:
    x = np.ones(8, np.float32)
    refused(ValueError, r"^error bound must be 2\*\*-k with k in 1..14, not 0.001$", call, x, 0.001)
    refused(TypeError, r"^values must be a float32 array, not float64$", call, x.astype(np.float64))
    for count in (0, 2305):
        with pytest.raises(ValueError, match=rf"^a block has 1..2304 lanes, not {count}$"):
            planes.compress_block(np.zeros(count, np.float32), 117)
        with pytest.raises(ValueError, match=rf"^a block has 1..2304 lanes, not {count}$"):
            planes.decompress_block(b"", count, 117)
    for e0 in (112, 127):
        with pytest.raises(ValueError, match=rf"^E0 of the planes codec must be 113..126, not {e0}$"):
            planes.compress_block(x, e0)
        with pytest.raises(ValueError, match=rf"^E0 of the planes codec must be 113..126, not {e0}$"):
            planes.decompress_block(b"\0\0", 1, e0)
    refused(ValueError, r"^count must not be negative: -1$", planes.decompress, b"", -1)
    refused(TypeError, r"^count must be an integer, not 1.5$", planes.decompress, b"", 1.5)
    shaped = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::2]
    assert (planes.lossy(shaped) == shaped).all()
    assert golden.planes is planes
