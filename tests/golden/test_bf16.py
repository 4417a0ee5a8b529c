# SPDX-License-Identifier: BSD-2-Clause
"""bf16 lanes of the planes codec: by hand, against the definition in integers, and by their consequences."""

from fractions import Fraction

import numpy as np
import pytest

from inceptionn import wire
from inceptionn.sim.golden import EngineConfig, planes
from inceptionn.wire import BF16_LANES

BOUNDS = range(wire.MIN_K, wire.MAX_K + 1)
EVERY = np.arange(1 << 16, dtype=np.uint16)


def defined(bits: np.ndarray, e0: int) -> tuple[np.ndarray, np.ndarray]:
    """Section 10 in integers: z (-1 for raw lanes) and the lossy word."""
    s, e, m = (field.astype(np.int64) for field in (bits >> 15, bits >> 7 & 0xFF, bits & 0x7F))
    d = e - e0
    low = ((128 + m) + (1 << np.clip(7 - d, 0, 7))) >> np.clip(8 - d, 1, 8)
    high = (128 + m) << np.clip(d - 8, 0, 5)
    q = np.where(d <= 7, low, high)
    quantised = (d >= 0) & (d < 14)
    z = np.where(quantised, 2 * q - s, np.where(d < 0, 0, -1))
    # The word in integers: half a step is added, and what is below a step is cleared.
    word = (bits & 0x7FFF).astype(np.int64)
    half = np.where(d <= 7, 1 << np.clip(7 - d, 0, 7), 0)
    cleared = np.clip(8 - d, 0, 7)
    rounded = (word + half) >> cleared << cleared
    return z, np.where(quantised, s << 15 | rounded, np.where(d < 0, 0, bits))


def as_fp32(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("k", BOUNDS)
def test_every_value_at_every_bound(k: int) -> None:
    lanes = planes.compress_lanes(EVERY, 127 - k, BF16_LANES)
    z, words = defined(EVERY, 127 - k)
    assert (np.where(lanes.raw, -1, lanes.z.astype(np.int64)) == z).all()
    assert (lanes.bits == words).all()
    assert z.max() < 1 << 14

    x, seen = as_fp32(EVERY), as_fp32(lanes.bits)
    finite = np.isfinite(x)
    a, b = x[finite].astype(np.float64), seen[finite].astype(np.float64)
    assert np.abs(a - b).max() == 2.0**-k, "the bound holds, and a tie reaches it"
    assert (lanes.bits[~finite] == EVERY[~finite]).all(), "infinities and NaNs keep their bits"
    assert (planes.lossy(lanes.bits, 2.0**-k, BF16_LANES) == lanes.bits).all(), "idempotent"
    assert (np.signbit(a) == np.signbit(b))[b != 0].all()
    assert not ((lanes.bits & 0x7F80 == 0) & (lanes.bits != 0)).any(), "no subnormal value, no -0.0"
    assert planes.lossy(x, 2.0**-k).tobytes() == seen.tobytes(), "the same values as by fp32 lanes"


def test_every_integer_decodes() -> None:
    """Significands beyond 8 bits, which no encoder makes, are cut."""
    z = np.arange(1 << 14, dtype=np.uint32)
    for k in (1, 10, 14):
        words = planes.decompress_lanes(z, 127 - k, BF16_LANES)
        for number, value in zip(z.tolist(), as_fp32(words).tolist(), strict=True):
            q = (number >> 1) + (number & 1)
            cut = max(q.bit_length() - 8, 0)
            assert Fraction(value) == (-1) ** number * (q >> cut << cut) * Fraction(2, 1 << k)
        assert words[0] == 0


@pytest.mark.parametrize(
    ("k", "lanes", "block"),
    [
        (10, "00000080ff3affbaff3b8635c0ba203b", "04004800840000001000"),
        (14, "803f80be803800b9" + "00" * 24 + "00b90000", "1f00803f80be003900b9" + "00" * 24 + "0100"),
    ],
    ids=["carry", "raw"],
)
def test_blocks_by_hand(k: int, lanes: str, block: str) -> None:
    """Beside the page's examples, which `test_wire_format_page` reads."""
    x = np.frombuffer(bytes.fromhex(lanes), np.uint16)
    assert planes.compress_block(x, 127 - k, BF16_LANES).hex() == block
    back = planes.decompress_block(bytes.fromhex(block), len(x), 127 - k, BF16_LANES)
    assert back.tobytes() == planes.lossy(x, 2.0**-k, BF16_LANES).tobytes()


@pytest.mark.parametrize("code", range(16))
def test_each_code_by_hand(code: int) -> None:
    """The largest negative magnitude of each width, in the last lane of a group."""
    x = np.zeros(16, np.float32)
    steps = {0: 0, 14: 255 << 5, 15: 2**13}.get(code, 2 ** (code - 1))
    x[15] = -steps / 512
    words = (x.view(np.uint32) >> 16).astype(np.uint16)
    block = planes.compress_block(words, 117, BF16_LANES)
    assert block[:2] == bytes([code, 0])
    if code == 15:
        assert block[2:] == words.tobytes()
        return
    z = max(2 * steps - 1, 0)
    assert z.bit_length() == code
    assert block[2:] == bytes(byte for j in range(code) for byte in (0, (z >> j & 1) << 7))


def test_largest_block() -> None:
    assert BF16_LANES.max_lanes == 4608
    x = np.full(4608, 0x7F80, np.uint16)
    assert len(planes.compress_block(x, 117, BF16_LANES)) == 9360


def test_arguments() -> None:
    with pytest.raises(TypeError, match=r"^bf16 values must be a uint16 array, not float32$"):
        planes.compress_block(np.zeros(1, np.float32), 117, BF16_LANES)
    for count in (0, 4609):
        with pytest.raises(ValueError, match=rf"^a block has 1..4608 lanes, not {count}$"):
            planes.compress_block(np.zeros(count, np.uint16), 117, BF16_LANES)
    with pytest.raises(ValueError, match=r"^bf16_tos must be 0\.\.255, not 256$"):
        EngineConfig(parameters=wire.planes_parameters(10), bf16_tos=256)
    with pytest.raises(ValueError, match=r"^bf16_tos needs the codec planes, not paper"):
        EngineConfig(bf16_tos=0x2C)
