# SPDX-License-Identifier: BSD-2-Clause
"""Gradients far below the codec's bound: every system keeps them by default, and says where they are lost."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_variable import OneVariable
from outcomes import Group

from inceptionn import Codec
from inceptionn.evaluate.training import Floats
from inceptionn.layers.a2dtwp import WeightAggregator
from inceptionn.layers.gradiveq import GradiVeQ
from inceptionn.layers.parallax import ParallaxConfig, get_runner
from inceptionn.layers.parameter_server import MomentumSGD, ParameterServer
from inceptionn.transport import Transport

BOUND = Codec(2**-10)
SMALL = np.random.default_rng(1).laplace(scale=1e-5, size=(40, 50)).astype(np.float32)


def by_server(t: Transport, **scale: Any) -> Floats:
    start = {"w": np.zeros_like(SMALL)}
    with ParameterServer(t, start, MomentumSGD(1.0, 0), servers=[0], codec=BOUND, **scale) as group:
        assert group.worker is not None
        group.worker.push({"w": SMALL})
        return -group.worker.pull()["w"]


def by_aggregator(t: Transport, **scale: Any) -> Floats:
    start = {"w": np.zeros_like(SMALL)}
    return -WeightAggregator(t, start, MomentumSGD(1.0, 0), codec=BOUND, **scale).step({"w": SMALL})["w"]


def by_gradiveq(t: Transport, **scale: Any) -> Floats:
    """Return GradiVeQ's sum of a key that is no convolution."""
    gradients = {"conv": np.ones((2, 2, 3, 3), np.float32), "w": SMALL}
    return GradiVeQ(t, gradients, rest_codec=BOUND, **scale).all_reduce(gradients)["w"]


def by_parallax(t: Transport, sparse: bool = False, strategy: Any = "hybrid", **scale: Any) -> Floats:
    config = ParallaxConfig(strategy, codec=BOUND, path="software", **scale)
    model = OneVariable(SMALL.shape, np.arange(40) if sparse else None, SMALL)
    runner = get_runner(model, t, lambda: MomentumSGD(1.0, 0), config, machine=str(t.rank))
    runner.run(None)
    return -runner.gathered()["words"]


SYSTEMS: dict[str, Callable[..., Floats]] = {
    "parameter server": by_server,
    "A2DTWP": by_aggregator,
    "GradiVeQ": by_gradiveq,
    "Parallax, dense": by_parallax,
    "Parallax, servers": lambda t, **scale: by_parallax(t, True, **scale),
    "Parallax, all-gather": lambda t, **scale: by_parallax(t, True, "all_gather", **scale),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_kept_by_default(threads: Group, system: str) -> None:
    for found in threads(2, SYSTEMS[system]):
        assert np.square(found - SMALL).sum() < 0.01 * np.square(SMALL).sum()


@pytest.mark.parametrize("system", SYSTEMS)
def test_lost_and_said_with_an_absolute_bound(threads: Group, system: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        results = threads(2, lambda t: SYSTEMS[system](t, scale=None))
    assert said
    for warning in said:
        assert "all of the energy of the values becomes zero at the error bound" in str(warning.message)
        if system != "parameter server":  # which compresses in a thread of its own
            assert warning.filename == __file__
    if system in ("parameter server", "A2DTWP", "Parallax, servers"):  # half of it never left its rank
        assert all(np.allclose(found, SMALL / 2, atol=1e-9) for found in results)
    else:
        assert not any(found.any() for found in results)
