# SPDX-License-Identifier: BSD-2-Clause
"""Every test that asks for ``path`` runs on each path of the codec that this machine has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from inceptionn.codec import codec


@pytest.fixture(params=["avx512", "avx2", "scalar", "numpy"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param not in codec.available_paths():
        pytest.skip(f"no {request.param} here")
    codec.force_path(request.param)
    assert codec.active_path() == request.param
    yield request.param
    codec.force_path(None)


@pytest.fixture
def mixed():
    """A function: so many values over all classes, with every kind of special one strewn in."""

    def make(count: int, seed: int = 0) -> np.ndarray:
        source = np.random.default_rng(seed)
        x = source.standard_normal(count) * 10.0 ** source.uniform(-6, 1, count)
        bits = x.astype(np.float32).view(np.uint32)
        special = np.array(
            [
                0,
                1 << 31,
                1,
                0x807FFFFF,
                0x00800000,
                0x7F800000,
                0xFF800000,
                0x7FC00001,
                0xFF800001,
                0x7F7FFFFF,
            ],
            np.uint32,
        )
        places = source.random(count) < 0.05
        bits[places] = source.choice(special, places.sum())
        return bits.view(np.float32)

    return make
