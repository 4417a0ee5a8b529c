# SPDX-License-Identifier: BSD-2-Clause
"""bfloat16 and float16 in every method of the codec, on every path, against its float32 methods."""

import numpy as np
import pytest
from refusals import refused

from inceptionn import Codec
from inceptionn.codec import scale_exponent
from inceptionn.sim.golden import planes
from inceptionn.wire import BF16_LANES

EVERY = np.arange(1 << 16, dtype=np.uint16)
BFLOAT16, FLOAT16 = "bfloat16", "float16"


@pytest.fixture(params=["planes", "paper"])
def codec(request) -> Codec:
    return Codec(codec=request.param, threads=1)


@pytest.fixture(autouse=True)
def _any_path(path: str) -> None:
    """Every test here runs on every path."""


def widened(x: np.ndarray) -> np.ndarray:
    """Return the same values in float32; NaNs of float16 become quiet."""
    if x.dtype == np.uint16:
        return (x.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):
        y = x.astype(np.float32)
    bits = y.view(np.uint32)
    bits[np.isnan(y)] |= 0x00400000
    return y


def nearest(y: np.ndarray, dtype: str) -> np.ndarray:
    """To nearest, ties to even, as bits; NaNs that lose bits are quiet."""
    bits = y.view(np.uint32).astype(np.int64)
    if dtype == BFLOAT16:
        upper, lost = bits >> 16, bits & 0xFFFF
        up = (lost > 0x8000) | ((lost == 0x8000) & (upper % 2 == 1))
        return np.where(np.isnan(y), upper | 0x40 * (lost > 0), upper + up).astype(np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        half = y.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(y), bits >> 16 & 0x8000 | 0x7E00 | bits >> 13 & 0x1FF, half).astype(np.uint16)


def as_bits(x: np.ndarray) -> np.ndarray:
    return x.view(np.uint16)


def some_values(dtype: str, count: int) -> np.ndarray:
    """Return normally distributed values with NaNs, infinities and large values among them."""
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32) * np.float32(0.01)
    x[5::97] *= 3e4
    x[6::501], x[7::503] = np.nan, -np.inf
    return nearest(x, BFLOAT16) if dtype == BFLOAT16 else x.astype(np.float16)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
@pytest.mark.parametrize(
    ("scale", "count"), [(0, 0), (3, 1), (-2, 31), (0, 2047), (3, 2047), (-2, 2049), (0, 5000), (3, 5000)]
)
def test_every_method(codec: Codec, dtype: str, scale: int, count: int) -> None:
    x, told = some_values(dtype, count), {"dtype": BFLOAT16} if dtype == BFLOAT16 else {}
    wide = widened(x)
    stream = codec.compress(x, scale=scale, **told)
    assert stream == codec.compress(wide, scale=scale)
    seen = codec.decompress(stream, count, scale=scale)
    expected = nearest(seen, dtype)

    assert (as_bits(codec.decompress(stream, count, scale=scale, dtype=dtype)) == expected).all()
    out = np.empty((1, count), x.dtype)
    assert codec.decompress(stream, count, out, scale=scale, **told) is out
    assert (as_bits(out).reshape(-1) == expected).all()
    assert (as_bits(codec.lossy(x, scale=scale, **told)) == expected).all()
    own = x.copy()
    assert codec.lossy(own, own, scale=scale, **told) is own
    assert (as_bits(own) == expected).all()
    assert codec.histogram(x, scale=scale, **told).tolist() == codec.histogram(wide, scale=scale).tolist()
    assert scale_exponent(x, **told) == scale_exponent(wide)

    # Sums are of float32: one rounding, at the end.
    with np.errstate(all="ignore"):
        total = wide + seen
    accumulator = x.copy()
    assert codec.decompress_add(stream, accumulator, scale=scale, **told) is accumulator
    assert (as_bits(accumulator) == nearest(total, dtype)).all()
    accumulator = np.empty_like(x)
    codec.decompress_add(stream, accumulator, wide, scale=scale, **told)
    assert (as_bits(accumulator) == nearest(total, dtype)).all()
    sums = np.empty(count, np.float32)
    codec.decompress_add(stream, sums, x, scale=scale, **told)
    assert sums.tobytes() == total.tobytes()
    room = bytearray(codec.max_compressed_size(count))
    assert codec.compress_sum(stream, x, room, scale=scale, **told) == codec.compress(total, scale=scale)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_error_feedback(codec: Codec, dtype: str) -> None:
    """Of values of 16 bits too, what is kept and what is left are float32."""
    x, told = some_values(dtype, 3000), {"dtype": BFLOAT16} if dtype == BFLOAT16 else {}
    left = np.random.default_rng(5).standard_normal((2, x.size)).astype(np.float32) * np.float32(1e-3)
    left[1] = left[0]
    kept = codec.feed_back(x, left[0], scale=2, decay=0.5, **told)
    wanted = codec.feed_back(widened(x), left[1], scale=2, decay=0.5)
    assert (kept.dtype, kept.tobytes()) == (np.float32, wanted.tobytes())
    assert left[0].tobytes() == left[1].tobytes()
    scaled = codec.scaled(2, told.get("dtype"))
    assert (
        scaled.feed_back(x, left[0], decay=0.5).tobytes()
        == codec.feed_back(widened(x), left[1], scale=2, decay=0.5).tobytes()
    )


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
@pytest.mark.parametrize("scale", [0, 3])
def test_exact_sums(codec: Codec, dtype: str, scale: int) -> None:
    """On the lattice too, values of 16 bits are summed as their float32 values."""
    x, told = some_values(dtype, 5000), {"dtype": BFLOAT16} if dtype == BFLOAT16 else {}
    wide, summing = widened(x), codec.summing(scale, told.get("dtype"))
    stream = summing.compress(x)
    assert stream == summing.compress(wide)
    total = summing.decompress_add(stream, np.empty_like(wide), wide)
    assert (as_bits(summing.decompress_add(stream, x.copy())) == nearest(total, dtype)).all()
    rooms = [bytearray(codec.max_compressed_size(5000)) for _ in range(2)]
    assert summing.compress_sum(stream, x, rooms[0]) == summing.compress_sum(stream, wide, rooms[1])


@pytest.mark.parametrize("k", [1, 7, 10, 14])
def test_every_bfloat16_is_restored_exactly(codec: Codec, k: int) -> None:
    """No rounding on the way back: what planes restores is what bf16 lanes restore."""
    codec = Codec(2.0**-k, codec.codec, threads=1)
    stream = codec.compress(EVERY, dtype=BFLOAT16)
    back = codec.decompress(stream, len(EVERY), dtype=BFLOAT16)
    assert widened(back).tobytes() == codec.decompress(stream, len(EVERY)).tobytes()
    if codec.codec == "planes":
        assert (back == planes.lossy(EVERY, 2.0**-k, BF16_LANES)).all()
    special = (EVERY & 0x7F80) == 0x7F80
    assert (back[special] == EVERY[special]).all()


def test_every_float16(codec: Codec) -> None:
    x = EVERY.view(np.float16)
    back = codec.lossy(x)
    assert (as_bits(back) == nearest(codec.lossy(widened(x)), FLOAT16)).all()
    assert (np.isnan(back) == np.isnan(x)).all()
    assert (np.isinf(back) == np.isinf(x)).all()


def test_roundings_and_overflow(codec: Codec) -> None:
    """Next to every tie, and beyond the largest values of both types; magnitudes that codecs keep."""
    rng = np.random.default_rng(3)
    low = rng.choice(
        np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32), 1 << 16
    )
    bits = (EVERY.astype(np.uint32) << 16 | low) | 0x42000000  # 32 and more, infinities, NaNs
    y = bits.view(np.float32)
    stream = codec.compress(y)
    assert (codec.decompress(stream, len(y), dtype=BFLOAT16) == nearest(y, BFLOAT16)).all()
    assert (as_bits(codec.decompress(stream, len(y), dtype=FLOAT16)) == nearest(y, FLOAT16)).all()
    limits = np.array([65504, 65519.99, 65520, 1e9, -65520], np.float32)
    half = codec.decompress(codec.compress(limits), 5, dtype=FLOAT16)
    assert half.tolist() == [65504, 65504, np.inf, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_threads_and_index(dtype: str) -> None:
    count = (1 << 19) + 77
    x, told = some_values(dtype, count), {"dtype": BFLOAT16} if dtype == BFLOAT16 else {}
    one, four = Codec(codec="planes", threads=1), Codec(codec="planes", threads=4)
    stream = one.compress(x, **told)
    assert stream == four.compress(x, **told)
    expected = one.decompress(stream, count, dtype=dtype)
    for index in (None, four.index(stream, count)):
        assert (as_bits(four.decompress(stream, count, index=index, dtype=dtype)) == as_bits(expected)).all()
    room = [bytearray(one.max_compressed_size(count)) for _ in range(2)]
    streams = [c.compress_sum(stream, x, r, **told) for c, r in zip((one, four), room, strict=True)]
    assert streams[0] == streams[1]


def test_ml_dtypes(codec: Codec) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = some_values(BFLOAT16, 3000).reshape(30, 100)
    x = bits.view(ml_dtypes.bfloat16)
    assert codec.compress(x) == codec.compress(bits, dtype=BFLOAT16)
    assert codec.compress(x[:, ::2]) == codec.compress(np.ascontiguousarray(bits[:, ::2]), dtype=BFLOAT16)
    y = codec.lossy(x)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    back = codec.decompress(codec.compress(x), x.size, dtype=ml_dtypes.bfloat16)
    assert back.tobytes() == y.tobytes()
    same = codec.decompress(codec.compress(x), x.size, dtype=x.dtype)
    assert (same.dtype, same.tobytes()) == (x.dtype, y.tobytes())
    out = np.zeros_like(x)
    assert codec.decompress(codec.compress(x), x.size, out) is out
    assert out.tobytes() == y.tobytes()
    assert codec.decompress_add(codec.compress(x), out) is out
    assert scale_exponent(x) == scale_exponent(bits, dtype=BFLOAT16)
    assert codec.scaled(2).compress(x) == codec.compress(x, scale=2)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_unaligned_arrays(codec: Codec, dtype: str) -> None:
    """NumPy names the byte order of such arrays, not the type alone."""
    x, named = some_values(dtype, 1000), BFLOAT16 if dtype == BFLOAT16 else None

    def unaligned(values: np.ndarray) -> np.ndarray:
        found = np.empty(values.nbytes + 1, np.uint8)[1:].view(values.dtype)
        found[:] = values
        assert not found.flags.aligned
        return found

    stream = codec.compress(x, dtype=named)
    assert codec.compress(unaligned(x), dtype=named) == stream
    expected = codec.decompress(stream, x.size, dtype=dtype)
    out = unaligned(np.zeros_like(x))
    codec.decompress(stream, x.size, out, dtype=named)
    assert out.tobytes() == expected.tobytes()
    assert codec.lossy(unaligned(x), dtype=named).tobytes() == expected.tobytes()


def test_arguments(codec: Codec) -> None:
    kinds = "must be a float32, float16 or bfloat16 array, not"
    stream = codec.compress(EVERY[:9], dtype=BFLOAT16)
    patterns = r"uint16 \(bfloat16 patterns\? pass dtype='bfloat16'\)$"
    refused(TypeError, f"^values {kinds} {patterns}", codec.compress, EVERY)
    refused(TypeError, f"^out {kinds} {patterns}", codec.decompress, stream, 9, EVERY[:9])
    refused(TypeError, f"^accumulator {kinds} int16$", codec.decompress_add, stream, np.zeros(9, np.int16))
    with pytest.raises(TypeError, match=rf"^values {kinds} >f2 \(the byte order: pass x\.astype\('f2'\)\)$"):
        codec.compress(np.zeros(9, ">f2"))
    with pytest.raises(TypeError, match=rf"^values {kinds} \|V2 \(bfloat16 of a \.npy file\? pass x\.view"):
        codec.compress(EVERY[:9].view("V2"))
    refused(TypeError, f"^values {kinds} {patterns}", codec.compress, EVERY, dtype=np.uint16)
    assert codec.compress(EVERY.view(np.float16), dtype=np.float16) == codec.compress(EVERY.view(np.float16))
    with pytest.raises(
        ValueError, match=r"^dtype must be None or 'bfloat16' \(of a uint16 array\), not 'half'$"
    ):
        codec.compress(EVERY, dtype="half")
    with pytest.raises(TypeError, match=r"^dtype must be float32, float16 or bfloat16, not float64$"):
        codec.decompress(stream, 9, dtype=np.float64)
    with pytest.raises(TypeError, match=r"^dtype must be float32, float16 or bfloat16, not 'bf16'$"):
        codec.decompress(stream, 9, dtype="bf16")
    x = np.zeros(16, np.float32)
    with pytest.raises(ValueError, match=r"^out must be as large as the values, and the same or elsewhere$"):
        codec.lossy(x[:8], x.view(np.uint16)[:8], dtype=BFLOAT16)
    with pytest.raises(ValueError, match=r"^out must be as large as the addend, and the same or elsewhere$"):
        codec.decompress_add(stream, x.view(np.uint16)[:9], x[:9], dtype=BFLOAT16)
