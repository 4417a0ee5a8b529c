# SPDX-License-Identifier: BSD-2-Clause
"""Exact sums: every path makes the golden model's streams, of any values and from any streams."""

import numpy as np
import pytest
from refusals import refused

from inceptionn import Codec
from inceptionn.codec import largest_magnitude
from inceptionn.sim import golden

COUNTS = [0, 1, 7, 8, 9, 31, 32, 33, 64, 65, 257, 2047, 2048, 2049, 5003]
SCALES = [0, 3, -7, 96, 97, 126, -126]
SETTINGS = [(1, 0), (5, 3), (14, 0), (14, 126), *((10, scale) for scale in SCALES)]


def values(count: int, seed: int, k: int, scale: int) -> np.ndarray:
    """Gradients with values of every kind: ties, raw, subnormal, infinite, NaNs; scaled by 2**-scale."""
    source = np.random.default_rng(seed)
    sizes = 2.0 ** np.repeat(source.integers(-k - 3, 16 - k, count // 64 + 1), 64)[:count]
    x = source.standard_normal(count) * sizes
    ties = source.random(count) < 0.1
    x[ties] = np.round(x[ties] * 2.0**k) * 2.0**-k
    with np.errstate(all="ignore"):
        found = np.ldexp(x, -scale).astype(np.float32)
    rare = source.random(count) < (0.002 if seed % 2 else 0.05)
    special = np.array(
        [1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFF800001, 0x7F812345], np.uint32
    )
    found.view(np.uint32)[rare] = source.choice(special, rare.sum())
    return found


def verdict(call) -> tuple[str, bytes | str]:
    """Return what a call returns, as bytes, or its error."""
    try:
        found = call()
    except (OverflowError, ValueError) as error:
        text, _, _ = str(error).partition(", or it is not a stream of")  # a hint of `decompress_add` alone
        return type(error).__name__.removeprefix("Malformed").replace("Error", ""), text
    return "", found.tobytes() if isinstance(found, np.ndarray) else bytes(found)


def agree(codec, stream: bytes, addend: np.ndarray, k: int, scale: int) -> str:
    """Check both sums against the golden model's; return the kind of error, or nothing."""
    room = np.full(codec.max_compressed_size(addend.size), 0xAA, np.uint8)
    with np.errstate(all="ignore"):
        wanted = verdict(lambda: golden.lattice.compress_sum(stream, addend, 2.0**-k, scale))
        total = verdict(lambda: golden.lattice.decompress_add(stream, addend, 2.0**-k, scale))
    found = verdict(lambda: codec.compress_sum(stream, addend, room))
    added = verdict(lambda: codec.decompress_add(stream, np.empty_like(addend), addend))
    assert (found[1], added[1]) == (wanted[1], total[1])
    return found[0]


@pytest.mark.parametrize(("k", "scale"), SETTINGS)
def test_golden_sums(path: str, k: int, scale: int) -> None:
    codec = Codec(2.0**-k, "planes").summing(scale)
    errors = set()
    for number, count in enumerate(COUNTS if k == 10 else COUNTS[-2:]):
        own, addend = (values(count, 2 * number + rank, k, scale) for rank in range(2))
        with np.errstate(all="ignore"):
            expected = verdict(lambda own=own: golden.lattice.compress(own, 2.0**-k, scale))
        stream = verdict(lambda own=own: codec.compress(own))
        assert stream[1] == expected[1]
        errors |= {stream[0]}
        if not stream[0]:
            lossy = codec.lossy(own)
            assert codec.decompress(stream[1], count).tobytes() == lossy.tobytes()
            assert codec.compress(lossy) == stream[1] or abs(scale) == 126  # may be infinite
            errors |= {agree(codec, stream[1], addend, k, scale)}
    assert errors == {""} or (scale > 0 and errors <= {"", "Overflow"})


def test_hostile_streams(path: str) -> None:
    """Nonsense, flipped bits, words off the lattice: the golden model's sum, or its error."""
    source = np.random.default_rng(5)
    codec, kinds = Codec(2.0**-10, "planes").summing(), set()
    for number in range(60):
        count = int(source.integers(1, 300)) if number % 4 else 2048 + number
        addend = values(count, number, 10, 0)
        spoilt = bytearray(golden.planes.compress(values(count, 1000 + number, 10, 0)))
        for _ in range(number % 3):
            spoilt[int(source.integers(len(spoilt)))] ^= 1 << int(source.integers(8))
        if number % 5 == 4:
            spoilt = spoilt[: int(source.integers(len(spoilt)))] + source.bytes(number % 2 * 3)
        kinds.add(agree(codec, bytes(spoilt), addend, 10, 0))
        kinds.add(agree(codec, bytes([15 * 17]) * 2 + source.bytes(128), addend[:1].repeat(32), 10, 0))
    assert len(kinds) == 2  # sums and malformed streams


def test_addition_of_whole_groups_of_every_code(path: str) -> None:
    """All pairs of widths, with carries into the next plane, and into a raw lane."""
    codec = Codec(2.0**-10, "planes").summing()
    sizes = [0, *(sign * (2**bit - 1) for bit in range(1, 14) for sign in (1, -1)), 8192, -8192, 8200]
    for mine in sizes:
        stream = bytes(codec.compress(np.full(40, mine * 2.0**-9, np.float32)))
        for size in sizes:
            addend = np.full(40, size * 2.0**-9, np.float32)
            addend[::5] *= -1
            agree(codec, stream, addend, 10, 0)


def test_sums_of_the_papers_codec_are_those_of_its_values() -> None:
    codec = Codec()
    assert codec.summing() is codec
    assert codec.summing(3).name == codec.scaled(3).name


def test_the_lattice_is_part_of_the_name() -> None:
    planes = Codec(codec="planes")
    assert len({planes.name, planes.scaled(3).name, planes.summing(3).name, planes.summing().name}) == 4


@pytest.mark.parametrize("scale", [0, 5, -7, 100, 126, -126])
@pytest.mark.parametrize("name", ["paper", "planes"])
def test_feedback_in_one_pass(path: str, name: str, scale: int) -> None:
    """The bits are those of the steps: decay, add, `lossy`, subtract; the result may lie in the values."""
    plain = Codec(codec=name)
    for codec in (plain.scaled(scale), plain.summing(scale)):
        for count, decay in ((0, 1.0), (1, 0.5), (33, 1.0), (2048, 0.9), (5003, 1.0), (5003, 0.9)):
            x, residual = (values(count, seed, 10, scale) for seed in (count, count + 2))
            x[np.abs(x) > 2.0 ** (127 - abs(scale))] = np.nan
            residual[~(np.abs(residual) < 2.0 ** (126 - abs(scale)))] = 0
            with np.errstate(all="ignore"):
                wanted = residual * np.float32(decay) + x if decay != 1 else residual + x
            finite = np.abs(wanted[np.isfinite(wanted)])
            assert largest_magnitude(x, residual, decay) == finite.max(initial=0)
            kept = codec.lossy(wanted)
            with np.errstate(all="ignore"):
                rest = wanted - kept
            rest[~np.isfinite(rest)] = 0
            for out in (np.empty_like(x), x):
                left = residual.copy()
                assert codec.feed_back(x, left, out, decay=decay) is out
                assert (left.tobytes(), out.tobytes()) == (rest.tobytes(), kept.tobytes())


def test_feedback_of_half_values_and_its_errors(path: str) -> None:
    codec, x = Codec(codec="planes").summing(3), values(500, 1, 10, 3).astype(np.float16)
    residual = np.linspace(-1e-3, 1e-3, 500, dtype=np.float32)
    left, same = residual.copy(), residual.copy()
    assert codec.feed_back(x, left).tobytes() == codec.feed_back(x.astype(np.float32), same).tobytes()
    assert left.tobytes() == same.tobytes()
    y = np.zeros(500, np.float32)
    refused(TypeError, "residual and out must be float32 arrays, not float16", codec.feed_back, y, x)
    refused(ValueError, "residual must hold 500 values, not 499", codec.feed_back, y, residual[1:])
    refused(ValueError, "elsewhere", codec.feed_back, residual, residual)
    refused(ValueError, "elsewhere", codec.feed_back, y, residual, residual)
    with pytest.raises(OverflowError, match="too large to be scaled"):
        Codec(codec="planes").feed_back(np.full(9, 3e38, np.float32), np.zeros(9, np.float32), scale=3)


@pytest.mark.parametrize("k", [1, 10, 14])
@pytest.mark.parametrize("scale", [-126, -117, -105, -104, 0])
def test_the_largest_values_keep_to_the_bound_or_become_infinite(path: str, k: int, scale: int) -> None:
    """From 2^128 minus the bound on, a multiple of the step has no place in float32."""
    distances = np.ldexp(1.0, np.arange(104, 128))
    x = np.float32(2.0**128 - np.append(distances, [3 * 2.0**104, 5 * 2.0**110]))
    x = np.append(x, -x)
    bound = 2.0 ** (-k - scale)
    found = Codec(2.0**-k, "planes").summing(scale).lossy(x)
    infinite = np.abs(x.astype(np.float64)) >= 2.0**128 - bound
    assert infinite.any() == (scale <= -104 - k)
    assert (found[infinite] == np.sign(x[infinite]) * np.inf).all()
    error = np.abs(found[~infinite].astype(np.float64) - x[~infinite])
    assert error.max(initial=0) <= bound


@pytest.mark.parametrize("threads", [1, 4])
def test_the_verdict_does_not_depend_on_threads(threads: int) -> None:
    """Of two faults the same one is named: a malformed stream, then what does not fit first."""
    codec = Codec(threads=threads)
    x = np.full(1 << 19, 0.3, np.float32)
    stream, room = codec.compress(x), bytearray(codec.max_compressed_size(x.size))
    large = x.copy()
    large[0] = 4.0
    refused(ValueError, "malformed stream", codec.compress_sum, stream[:-1], large, room, scale=126)
    with pytest.raises(OverflowError):
        codec.compress_sum(stream, large, room, scale=126)
    with pytest.raises(OverflowError):
        codec.compress(large, bytearray(1000), scale=126)
    large = x[::-1].copy()
    large[0], large[-1] = 0.3, 4.0
    for _ in range(10):
        refused(ValueError, "out is too small", codec.compress, large, bytearray(1000), scale=126)
