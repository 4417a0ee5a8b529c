# SPDX-License-Identifier: BSD-2-Clause
"""Deflated streams: fewer bytes, the same values, and an error for what cannot be inflated."""

import zlib
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages, returned

from inceptionn import Codec
from inceptionn.collectives import (
    MEAN,
    BFloat16,
    Deflated,
    ErrorFeedback,
    StreamCodec,
    allreduce_comp,
    examine,
    statistics,
)
from inceptionn.collectives.values import deflated as module
from inceptionn.collectives.values.stream_codec import check_codec
from inceptionn.transport import Transport

PLANES = Codec(2**-5, "planes")


@pytest.fixture(params=["isal", "zlib"], autouse=True)
def encoder(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both makers of the same format; ISA-L where it is installed."""
    if request.param == "zlib":
        monkeypatch.setattr(module, "_library", zlib)
    elif module._library is zlib:
        pytest.skip("isal is not installed: pip install 'inceptionn[deflate]'")
    return str(request.param)


def gradients(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(scale=1e-3, size=shape).astype(np.float32)


@pytest.mark.parametrize("codec", [PLANES, Codec(2**-8), BFloat16()], ids=lambda codec: codec.name)
def test_its_streams_are_a_codecs(codec: StreamCodec) -> None:
    examine(Deflated(codec))
    examine(Deflated(codec).scaled(7))
    x = gradients(70_000)
    assert np.array_equal(Deflated(codec).lossy(x), codec.lossy(x))
    assert len(Deflated(codec).compress(x)) < len(codec.compress(x))


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "worker_aggregator"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sums_have_the_same_bits(group: Group, algorithm: str, dtype: str) -> None:
    x = gradients(4, 30_000).astype(dtype)

    def run(t: Transport) -> tuple[list[bytes], list[int]]:
        bits, sizes = [], []
        for codec in (PLANES, Deflated(PLANES)):
            before, feedback, total = t.bytes_sent, ErrorFeedback(codec), np.empty(30_000, dtype)
            for _ in range(2):
                allreduce_comp(
                    t, x[t.rank], total, MEAN, codec=codec, algorithm=algorithm, feedback=(feedback, "w")
                )
            bits.append(total.tobytes() + feedback.residual("w").tobytes())
            sizes.append(t.bytes_sent - before)
        assert statistics(t).ratio
        return bits, sizes

    sizes = np.zeros(2, int)
    for bits, sent in returned(group(4, run)):
        assert bits[0] == bits[1]
        sizes += sent
    assert sizes[1] < 0.95 * sizes[0]


def test_one_writes_what_the_other_reads(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gradients(9000)
    stream = bytes(Deflated(PLANES).compress(x))
    monkeypatch.undo()  # ISA-L, or none
    assert np.array_equal(Deflated(PLANES).decompress(stream, x.size), PLANES.lossy(x))


def test_what_cannot_be_deflated_is_sent_as_it_is() -> None:
    for count in (0, 1, 9):
        x = gradients(count)
        assert bytes(Deflated(PLANES).compress(x)) == b"\0" + bytes(PLANES.compress(x))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda stream: b"", "at byte 0"),
        (lambda stream: b"\2" + stream[1:], "at byte 0"),
        (lambda stream: stream[:-1], "inflate"),
        (lambda stream: stream + b"\0", "inflate"),
        (lambda stream: b"\1" + b"\xff" * 40, "inflate"),
        (lambda stream: b"\0" + stream[1:], "malformed stream"),
        (lambda stream: b"\1" + raw_deflate(bytes(1 << 24)), "inflate"),
    ],
)
def test_malformed_streams(group: Group, spoil: Any, text: str) -> None:
    """Also one that inflates a thousandfold: no more than a stream's largest size is made of it."""
    x = gradients(6000)
    stream = spoil(bytes(Deflated(PLANES).compress(x)))
    for call in (Deflated(PLANES).decompress, lambda s, count: Deflated(PLANES).compress_sum(s, x, x.copy())):
        with pytest.raises(ValueError, match=text):
            call(stream, x.size)

    class Spoils(Deflated):
        armed = False

        def compress(self, values: Any, out: Any = None) -> memoryview:
            if not self.armed:
                return super().compress(values, out)
            out[: len(stream)] = np.frombuffer(stream, np.uint8)
            return memoryview(out)[: len(stream)]

        def summing(self, *_: Any) -> Deflated:
            return self

    def run(t: Transport) -> None:
        codec = check_codec(Spoils(PLANES) if t.rank else Deflated(PLANES))
        if t.rank:
            codec.armed = True  # type: ignore[attr-defined]
        allreduce_comp(t, gradients(12_000), np.empty(12_000, np.float32), codec=codec)

    said = messages(group(2, run, timeout=10), Exception)
    assert any("rank 0 received a malformed stream from rank 1" in each for each in said), said


def raw_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return coder.compress(data) + coder.flush()


def test_refusals(group: Group) -> None:
    with pytest.raises(TypeError, match="deflated already"):
        Deflated(Deflated())
    with pytest.raises(ValueError, match="no such|must be"):
        Deflated("gzip")  # type: ignore[arg-type]

    def run(t: Transport) -> None:
        codec = PLANES if t.rank else Deflated(PLANES)
        allreduce_comp(t, gradients(100), np.empty(100, np.float32), codec=codec)

    assert all("codec differs" in text for text in messages(group(2, run), ValueError))


class Narrow(StreamCodec):
    """Multiples of 2^-12 in two bytes, of nothing beyond 4: less than an examination when scaled asks."""

    name, absolute_bound = "narrow", 2.0**-13

    def max_compressed_size(self, count: int) -> int:
        return 2 * count

    def compress(self, x: Any, out: Any = None) -> Any:
        if x.size and np.abs(x).max() > 4:
            raise ValueError("values must be within -4..4")
        stream = np.rint(x.reshape(-1) * np.float32(4096)).astype("<i2").view(np.uint8)
        room = np.empty(stream.size, np.uint8) if out is None else np.frombuffer(out, np.uint8)[: stream.size]
        room[:] = stream
        return room.data

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        if (found := np.frombuffer(stream, "<i2")).size != count:
            raise ValueError("another count")
        out = np.empty(count, np.float32) if out is None else out
        return np.divide(found, np.float32(4096), out=out)


def test_a_codec_of_ones_own_is_examined_once(threads: Group) -> None:
    def run(t: Transport) -> bytes:
        total = np.empty(3000, np.float32)
        for codec in (Narrow(), Deflated(Narrow())):
            allreduce_comp(t, gradients(3000) / 100, total, codec=codec)
        return total.tobytes()

    assert len(set(returned(threads(2, run)))) == 1


def test_buffers_of_other_shapes_and_a_small_one() -> None:
    x = gradients(4000)
    stream = np.frombuffer(Deflated(PLANES).compress(x), np.uint8)
    for given in (stream.data.cast("c"), stream.reshape(1, -1)):
        assert np.array_equal(Deflated(PLANES).decompress(given, x.size), PLANES.lossy(x))
    with pytest.raises(ValueError, match="out is too small for the stream: 10 bytes"):
        Deflated(PLANES).compress(1000 * x, bytearray(10))
