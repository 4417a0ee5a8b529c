# SPDX-License-Identifier: BSD-2-Clause
"""Blocks and streams: layout by hand, sizes, round trips, and every way to be malformed."""

import random

import numpy as np
import pytest
from refusals import refused

from inceptionn import wire
from inceptionn.sim import golden
from inceptionn.sim.golden import values
from inceptionn.sim.golden.codec import examine_block

BOUNDED, LITERAL = wire.parameters(10, "bounded"), wire.parameters(10, "literal")
LENGTHS = [1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 362, 2047, 2048, 2303, 2304]


def floats(kind: str, count: int, seed: int = 0) -> np.ndarray:
    return np.frombuffer(values.payload(kind, count, seed), np.float32)


def test_block_by_hand() -> None:
    x = np.array([1.0, 0.5, -(2.0**-7), 2.0**-11, 0, 0, 0, -2.0, 0.5], np.float32)
    # Lane 0 raw, 1 16 bits, 2 8 bits, 7 raw: tag word 11 00 00 00 00 01 10 11 = 0xC01B; lane 8: 0x0002.
    tags = "1bc00200"
    assert golden.compress_block(x, BOUNDED).hex() == tags + "0000803f0040a0000000c00040"
    assert golden.compress_block(x, LITERAL).hex() == tags + "0000803f004081000000c00040"


@pytest.mark.parametrize("kind", values.KINDS)
@pytest.mark.parametrize("params", [BOUNDED, LITERAL], ids=["bounded", "literal"])
def test_block_round_trip(kind: str, params: wire.Parameters) -> None:
    for count in LENGTHS:
        x = floats(kind, count)
        block = golden.compress_block(x, params)
        zero, bits8, bits16, raw = golden.histogram(x, params=params)
        assert zero + bits8 + bits16 + raw == count
        assert len(block) == 2 * -(-count // 8) + bits8 + 2 * bits16 + 4 * raw
        back = golden.decompress_block(block, count, params.b)
        assert back.dtype == np.float32
        assert back.tobytes() == golden.lossy(x, params=params).tobytes()
        assert len(block) <= count * 4 * 17 / 16 + 2


def test_block_is_its_groups() -> None:
    """The data of a block is that of its bursts one by one, the tag table their tag words."""
    x = floats("edges", 100)
    bursts = [golden.compress_block(x[i : i + 8], BOUNDED) for i in range(0, 100, 8)]
    assert golden.compress_block(x, BOUNDED) == b"".join(b[:2] for b in bursts) + b"".join(
        b[2:] for b in bursts
    )


def test_every_nan_survives() -> None:
    source = random.Random(2)
    bits = np.array([0x7F800001 | source.getrandbits(32) for _ in range(2000)], np.uint32)
    assert np.isnan(bits.view(np.float32)).all()
    stream = golden.compress(bits.view(np.float32))
    assert golden.decompress(stream, 2000).tobytes() == bits.tobytes()


def test_random_blocks_decode_or_are_malformed() -> None:
    """Whatever decodes has a block of the same length for its lanes' tags, and no fault is missed."""
    source = random.Random(3)
    decoded = 0
    for _ in range(3000):
        count = source.randint(1, 12)
        words = [source.choice((0, 1, 2, 3, 5, source.getrandbits(16))) for _ in range(-(-count // 8))]
        table = b"".join(word.to_bytes(2, "little") for word in words)
        data = source.randbytes(source.randint(0, 12))
        b = source.choice((0, 3, 122, 127))
        needed = sum((0, 1, 2, 4)[word >> i & 3] for word in words for i in range(0, 16, 2))
        absent = words[-1] >> 2 * ((count - 1) % 8 + 1)
        _, _, fault = examine_block(table + data, count, b)
        if needed != len(data) or absent:
            assert fault is not None
        elif fault is not None:
            assert b < 8
            assert "exponent" in fault.reason
        else:
            decoded += 1
    assert decoded > 100


def test_block_arguments() -> None:
    for count in (0, 2305):
        with pytest.raises(ValueError, match=rf"^a block has 1..2304 lanes, not {count}$"):
            golden.compress_block(np.zeros(count, np.float32), BOUNDED)
        with pytest.raises(ValueError, match=rf"^a block has 1..2304 lanes, not {count}$"):
            golden.decompress_block(b"", count, 122)
    with pytest.raises(ValueError, match=r"^the base exponent must be 0..255, not 256$"):
        golden.decompress_block(b"\0\0", 1, 256)


# Streams


@pytest.mark.parametrize("count", [0, 1, 8, 2047, 2048, 2049, 4096, 5001])
def test_stream(count: int) -> None:
    x = floats("fractions", count)
    stream = golden.compress(x, 2.0**-8, "literal")
    params = wire.parameters(8, "literal")
    blocks = [golden.compress_block(x[i : i + 2048], params) for i in range(0, count, 2048)]
    assert stream == b"".join(blocks)
    back = golden.decompress(stream, count, 2.0**-8, "literal")
    assert back.shape == (count,)
    assert back.tobytes() == golden.lossy(x, 2.0**-8, "literal").tobytes()


def test_stream_arguments() -> None:
    refused(ValueError, r"^count must not be negative: -1$", golden.decompress, b"", -1)
    refused(TypeError, r"^count must be an integer, not 1.5$", golden.decompress, b"", 1.5)
    assert golden.decompress(memoryview(b"\0\0"), np.int64(3)).tolist() == [0, 0, 0]
    assert golden.decompress(b"\3\0\0\0\0\x40", 1, params=wire.Parameters(1, 1, 1)).tolist() == [2]
