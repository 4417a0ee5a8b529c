# SPDX-License-Identifier: BSD-2-Clause
"""Approximate Data Transfer: bytes by hand, on every path, and the native kernels under sanitizers."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from missing import missing
from programs import ended

from inceptionn.layers.a2dtwp import AdtCodec, adt, bitpack, bitunpack

ROOT = Path(__file__).parents[3]
LENGTHS = [*range(70), 127, 128, 129, 1000, 4097]


@pytest.fixture(params=["avx512", "avx2", "scalar", "numpy"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param not in adt.available_paths():
        pytest.skip(f"no {request.param} here")
    adt.force_path(request.param)
    assert adt.active_path() == request.param
    yield request.param
    adt.force_path(None)


def words(count: int, seed: int = 0) -> np.ndarray:
    """Any bit patterns: infinities, NaNs and subnormal numbers among them."""
    return np.random.default_rng(seed).integers(0, 2**32, count, np.uint32).view(np.float32)


def test_by_hand(path: str) -> None:
    """1.5 is 3FC00000, -pi is C0490FDB, 1e-3 is 3A83126F; bytes from the least significant kept one."""
    x = np.array([1.5, -np.pi, 1e-3], np.float32)
    assert bitpack(x, 1).tobytes().hex() == "3fc03a"
    assert bitpack(x, 2).tobytes().hex() == "c03f49c0833a"
    assert bitpack(x, 3).tobytes().hex() == "00c03f0f49c012833a"
    assert bitpack(x, 4).tobytes() == x.tobytes()
    assert bitunpack(bytes.fromhex("3fc03a"), 1).tolist() == [0.5, -2.0, 2.0**-11]
    assert bitunpack(bytes.fromhex("c03f49c0833a"), 2).tolist() == [1.5, -3.140625, 0.00099945068359375]
    assert bitunpack(bitpack(x, 3), 3).view(np.uint32).tolist() == [0x3FC00000, 0xC0490F00, 0x3A831200]


@pytest.mark.parametrize("keep", [1, 2, 3, 4])
def test_every_length(path: str, keep: int) -> None:
    """Against bytes cut out one value at a time; nothing beside the output is touched."""
    for count in LENGTHS:
        x = words(count, count)
        expected = b"".join(word.tobytes()[4 - keep :] for word in x)
        room = bytearray(b"\xa5" * (keep * count + 128))
        bitpack(x, keep, memoryview(room)[64 : 64 + keep * count])
        assert room == b"\xa5" * 64 + expected + b"\xa5" * 64, count
        back = np.full(count + 32, 7, np.float32)
        bitunpack(expected, keep, back[16 : 16 + count])
        assert back[16 : 16 + count].tobytes() == adt.truncate(x, keep).tobytes()
        assert (back[:16] == 7).all()
        assert (back[16 + count :] == 7).all()


def test_threads(path: str) -> None:
    x = words(600_001)
    for keep in (1, 2, 3, 4):
        one, several = bitpack(x, keep), bitpack(x, keep, threads=3)
        assert np.array_equal(one, several)
        assert bitunpack(several, keep, threads=3).tobytes() == adt.truncate(x, keep).tobytes()


def test_shapes_and_views(path: str) -> None:
    x = words(24).reshape(4, 6)
    assert bitpack(x.T, 2).tobytes() == bitpack(np.ascontiguousarray(x.T), 2).tobytes()
    into = np.empty((4, 6), np.float32)
    assert bitunpack(bitpack(x, 4), 4, into) is into
    assert into.tobytes() == x.tobytes()
    assert bitpack(np.empty(0, np.float32), 3).size == 0
    assert bitunpack(b"", 3).shape == (0,)


def test_bits_to_bytes() -> None:
    assert [adt.round_to_of(bits) for bits in (1, 8, 9, 14, 16, 24, 25, 32)] == [1, 1, 2, 2, 2, 3, 4, 4]


def test_codec() -> None:
    """A stream says its format, so a receiver needs none; its values are idempotent."""
    x = words(1000)
    for keep in (1, 2, 3, 4):
        stream = AdtCodec(keep).compress(x)
        assert stream.nbytes == 1 + keep * 1000
        found = AdtCodec().decompress(stream, 1000)
        assert found.tobytes() == AdtCodec(keep).lossy(x).tobytes()
        assert bytes(AdtCodec(keep).compress(found)) == bytes(stream)
    for wrong in (b"", b"\0abcd", b"\5abcde", b"\2abcde"):
        with pytest.raises(ValueError, match="are not 2 packed values"):
            AdtCodec().decompress(wrong, 2)


@pytest.mark.parametrize(("sanitizer", "rounds"), [("address,undefined", 1000), ("thread", 100)])
def test_no_access_outside_and_no_race(sanitizer: str, rounds: int, tmp_path: Path) -> None:
    """All kernels and threads on buffers that fit exactly, under sanitizers, against copied bytes."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        missing("no C compiler")
    native = ROOT / "sw" / "native"
    sources = [
        Path(__file__).with_name("native_adt_fuzz.c"),
        native / "weights" / "adt_kernels.c",
        native / "threads.c",
    ]
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-fsanitize={sanitizer}"]
    command = [compiler, *flags, "-fno-sanitize-recover=all", f"-I{native}", "-o", tmp_path / "fuzz"]
    done = ended(*command, *sources, "-lpthread")
    if "cannot find" in done.stderr:
        missing("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    done = ended(tmp_path / "fuzz", 1, rounds)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.removesuffix(" rounds in threads\n")) > 0
