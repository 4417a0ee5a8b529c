# SPDX-License-Identifier: BSD-2-Clause
"""Streams that are scaled, by an exponent of their own or a common one."""

from typing import Any

import numpy as np
import pytest
from all_reduce import sums
from outcomes import Group

from inceptionn import Codec
from inceptionn.collectives import MEAN, BFloat16
from inceptionn.collectives.own_scale import OwnScale, with_scale
from inceptionn.layers.a2dtwp import AdtCodec
from inceptionn.layers.gradiveq.qsgd import QSGD
from inceptionn.wire import variant


@pytest.mark.parametrize("k", [1, 4, 10, 14])
@pytest.mark.parametrize("mode", ["bounded", "literal", "planes"])
@pytest.mark.parametrize("exponent", [-150, -126, -40, 0, 60, 127])
def test_the_bound_is_relative_and_nothing_changes_twice(k: int, mode: Any, exponent: int) -> None:
    codec = OwnScale(Codec(2.0**-k, *variant(mode)), "auto")
    x = np.ldexp(np.random.default_rng(k).uniform(-1, 1, 3000), exponent).astype(np.float32)
    once = codec.lossy(x)
    if mode != "literal" and -126 < exponent:
        assert np.abs(once - x).max() <= 2.0**-k * 2 * np.abs(x).max()
    stream = codec.compress(x)
    assert stream.nbytes <= codec.max_compressed_size(x.size)
    for found in (codec.decompress(stream, x.size), codec.lossy(once)):
        assert found.tobytes() == once.tobytes()
    into, total = np.empty(codec.max_compressed_size(x.size), np.uint8), np.ones_like(x)
    assert bytes(codec.compress(once, into)) == bytes(codec.compress(once))
    for addend in (total.copy(), None):
        found = codec.decompress_add(codec.compress(once), total, addend)
        assert found is total
        assert np.array_equal(found, once + np.float32(1))
        total[:] = 1


@pytest.mark.parametrize("codec", [BFloat16(), QSGD(), AdtCodec(2)], ids=lambda codec: codec.name)
def test_other_codecs_add_to_an_addend(codec: Any) -> None:
    x = np.random.default_rng(1).normal(size=(20, 50)).astype(np.float32)
    stream, total = codec.compress(x), np.full_like(x, 7)
    expected = codec.decompress(stream, x.size).reshape(x.shape) + x
    assert codec.decompress_add(stream, total, x) is total
    assert total.tobytes() == expected.tobytes()
    assert codec.decompress_add(stream, x) is x
    assert x.tobytes() == expected.tobytes()


def test_only_codecs_with_an_absolute_bound_are_scaled() -> None:
    plain, other = Codec(), BFloat16()
    assert with_scale(plain, None) is plain
    assert with_scale(other, "auto") is other
    assert (
        with_scale(plain, 3).lossy(np.float32([2.0**-12])).tolist()
        == [2.0**-12]
        != plain.lossy(np.float32([2.0**-12])).tolist()
    )


@pytest.mark.parametrize("stream", [b"", b"\x7f", b"\x80", b"\x00\x01"])
def test_malformed_streams(stream: bytes) -> None:
    with pytest.raises(ValueError, match="malformed|scale"):
        OwnScale(Codec(), "auto").decompress(stream, 3)


@pytest.mark.parametrize("mode", ["bounded", "planes"])
@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "worker_aggregator"])
def test_sums_are_those_of_scaled_arrays(threads: Group, algorithm: Any, mode: Any) -> None:
    """A sum is scaled in the streams alone, to the same bits as if the arrays had been scaled."""
    x = np.random.default_rng(8).normal(scale=1e-3, size=(4, 9001)).astype(np.float32)
    x[2, 5] = np.inf
    settings = {"algorithm": algorithm, "codec": Codec(2**-8, *variant(mode)), "path": "software"}
    scaled = sums(threads, x, MEAN, scale=6, **settings)
    arrays = sums(threads, x * np.float32(64), MEAN, scale=None, **settings)
    for one, other in zip(scaled, arrays, strict=True):
        assert np.array_equal(one.view(np.uint32), (other / np.float32(64)).view(np.uint32))
        assert np.count_nonzero(one) > 4000
