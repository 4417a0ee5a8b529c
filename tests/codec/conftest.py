# SPDX-License-Identifier: BSD-2-Clause
"""Every test that asks for ``path`` runs on each path of the codec that this machine has."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from inceptionn import Codec
from inceptionn.codec import codec
from inceptionn.sim import golden
from inceptionn.wire import variant


class Pair:
    """A codec with one thread or its default, and what the golden model says to the same settings."""

    def __init__(self, mode: str, k: int = 10):
        self.mode, self.k, self.codec = mode, k, Codec(2.0**-k, *variant(mode))
        self._bound, self._model = 2.0**-k, golden.planes if mode == "planes" else golden
        self._mode = () if mode == "planes" else (mode,)

    def compress(self, x: np.ndarray) -> bytes:
        return self._model.compress(x, self._bound, *self._mode)

    def decompress(self, stream: bytes, count: int) -> np.ndarray:
        return self._model.decompress(stream, count, self._bound, *self._mode)

    def lossy(self, x: np.ndarray) -> np.ndarray:
        return self._model.lossy(x, self._bound, *self._mode)

    def histogram(self, x: np.ndarray) -> np.ndarray:
        return self._model.histogram(x, self._bound, *self._mode)


@pytest.fixture(params=["bounded", "planes"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """Each codec at its default bound."""
    return Pair(request.param)


@pytest.fixture
def pair_of() -> Callable[..., Pair]:
    return Pair


@pytest.fixture(params=["auto", "avx512-gfni", "avx512", "avx2", "scalar", "numpy"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    try:
        codec.force_path(request.param)
    except ValueError:
        pytest.skip(f"no {request.param} here")
    assert codec.active_path() == request.param
    yield request.param
    codec.force_path(None)


SPECIAL = (
    0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFF800001, 0x7F7FFFFF
)  # fmt: skip
"""Zeros, subnormal and extreme numbers, infinities and NaNs, as bits."""


@pytest.fixture
def mixed():
    """Return a function that makes a number of values of all classes, special values among them."""

    def make(count: int, seed: int = 0) -> np.ndarray:
        source = np.random.default_rng(seed)
        x = source.standard_normal(count) * 10.0 ** source.uniform(-6, 1, count)
        bits = x.astype(np.float32).view(np.uint32)
        places = source.random(count) < 0.05
        bits[places] = source.choice(np.array(SPECIAL, np.uint32), places.sum())
        return bits.view(np.float32)

    return make
