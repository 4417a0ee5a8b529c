# SPDX-License-Identifier: BSD-2-Clause
"""Sums on the lattice of the planes codec: by hand, and in every order."""

from fractions import Fraction

import numpy as np
import pytest

from inceptionn.sim.golden import lattice, planes

STEP = 2.0**-9
"""D at the default bound of 2**-10."""


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def words(x: np.ndarray) -> list[str]:
    return [f"{bits:08x}" for bits in x.view(np.uint32).tolist()]


def on_lattice(*values: float) -> np.ndarray:
    return lattice.on_lattice(floats(*values).view(np.uint32), 127 - 10).view(np.float32)


def test_own_values_by_hand() -> None:
    """2**-10 is half a step. 16 = 2**13 steps is the first raw value, 2**14 the first to stay."""
    assert on_lattice(2.0**-10, -(2.0**-10), 0.00097, -0.00097, -0.0).tolist() == [STEP, -STEP, 0, 0, 0]
    assert words(on_lattice(-0.0, 1e-45, -1e-45)) == ["00000000"] * 3
    assert on_lattice(16 + STEP / 2, -16 - STEP / 2, 16 + STEP / 4).tolist() == [16 + STEP, -16 - STEP, 16]
    assert on_lattice(16383.999, 16384.001, 3e38).tolist() == [16384, floats(16384.001)[0], floats(3e38)[0]]
    assert words(on_lattice(np.inf, -np.inf, np.nan)) == ["7f800000", "ff800000", "7fc00000"]


def test_sums_by_hand() -> None:
    """Three ranks; the second lane would differ by order in fp32 of the values themselves."""
    a, c = floats(0.003, 1e4, np.inf, np.nan), floats(-0.004, -1e4, -np.inf, 2)
    b = floats(0.001, 2.0**-10, 1, 1)
    # 0.003 is 1.54 steps, 0.001 is 0.51, -0.004 is -2.05: 2 + 1 - 2 steps.
    expected = [f"{floats(STEP).view(np.uint32)[0]:08x}"] * 2 + ["7fc00000"] * 2
    for order in ((a, b, c), (c, a, b), (b, c, a), (c, b, a)):
        assert words(lattice.total(list(order))) == expected


def test_a_stream_of_a_sum_by_hand() -> None:
    """3 steps arrive, and -5 of the addend make -2: z = 3, so two planes."""
    stream = planes.compress(floats(3 * STEP))
    assert stream.hex(" ") == "03 00 00 01 01"  # z = 6
    assert lattice.compress_sum(stream, floats(-5.2 * STEP)).hex(" ") == "02 00 01 01"
    assert lattice.compress_sum(stream, floats(-5.2 * STEP / 8), scale=3).hex(" ") == "02 00 01 01"
    assert lattice.decompress_add(stream, floats(-5.2 * STEP / 8), scale=3).tolist() == [-2 * STEP / 8]


def test_a_sum_of_raw_lanes_by_hand() -> None:
    """8191 steps and one make a raw lane of 16, in a group of words."""
    stream = planes.compress(floats(8191 * STEP))
    assert lattice.compress_sum(stream, floats(STEP)).hex() == "0f00" + "00008041" + 28 * "00"
    with pytest.raises(OverflowError, match=r"^a value is too large to be scaled by 2\*\*3$"):
        lattice.compress_sum(stream, floats(3e38), scale=3)


def hostile(count: int, seed: int, k: int) -> np.ndarray:
    """Values of every kind: around the step, raw, beyond the lattice's grain, subnormal, infinite, NaNs."""
    source = np.random.default_rng(seed)
    x = (source.standard_normal(count) * 2.0 ** source.integers(-k - 2, 15 - k, count)).astype(np.float32)
    raw = source.random(count) < 0.1
    x[raw] = (source.standard_normal(raw.sum()) * 2.0 ** source.integers(14 - k, 18 - k, raw.sum())).astype(
        np.float32
    )
    special = np.array(
        [0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFF800001, 0x7F812345], np.uint32
    )
    places = source.random(count) < 0.05
    x.view(np.uint32)[places] = source.choice(special, places.sum())
    return x


@pytest.mark.parametrize("k", [1, 7, 10, 14])
def test_every_order_gives_the_same_bits(k: int) -> None:
    source = np.random.default_rng(k)
    for ranks in (2, 3, 7):
        arrays = [hostile(3000, 100 * k + rank, k) for rank in range(ranks)]
        first = lattice.total(arrays, 2.0**-k).tobytes()
        for _ in range(6):
            shuffled = [arrays[rank] for rank in source.permutation(ranks)]
            assert lattice.total(shuffled, 2.0**-k).tobytes() == first
        # Groups of ranks first, in streams.
        half = ranks // 2
        stream = lattice.compress(lattice.total(arrays[:half], 2.0**-k), 2.0**-k)
        upper = lattice.total(arrays[half:], 2.0**-k)
        assert lattice.decompress_add(stream, upper, 2.0**-k).tobytes() == first


def test_sums_are_those_of_whole_numbers() -> None:
    """Against fractions, and within half a step per rank of the values' own sum."""
    arrays = [x[np.isfinite(x)][:500] for x in (hostile(1000, seed, 10) for seed in range(5))]
    total = lattice.total(arrays)
    for lane in range(500):
        found, wanted = Fraction(float(total[lane])), sum(Fraction(float(x[lane])) for x in arrays)
        steps = sum(round(Fraction(float(on_lattice(x[lane])[0])) / Fraction(STEP)) for x in arrays)
        assert found == steps * Fraction(STEP)
        assert abs(found - wanted) <= 5 * STEP / 2
