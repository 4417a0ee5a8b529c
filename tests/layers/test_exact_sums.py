# SPDX-License-Identifier: BSD-2-Clause
"""With planes, sums of the layers have the same bits whichever rank has which gradient."""

import hashlib
from functools import partial
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

RANKS, ROWS, PERMUTATIONS = 4, 30, 8
PLANES = Codec(2**-10, "planes")
ROWS_OF = [np.sort(np.random.default_rng(rank).choice(ROWS, 20, replace=False)) for rank in range(RANKS)]


def gradients(worker: int, apart: float = 3.0) -> dict[str, Floats]:
    """Of different magnitudes, each ``apart`` from the next, so that the scales of messages differ."""
    random = np.random.default_rng(worker)
    shapes = {"conv": (4, 4, 3, 3), "w": (ROWS, 16), "b": (16,)}
    return {
        key: (random.standard_t(3, size=shape) * apart ** -worker).astype(np.float32)
        for key, shape in shapes.items()
    }  # fmt: skip


START = {key: np.zeros_like(values) for key, values in gradients(0).items()}


def by_server(t: Transport, own: dict[str, Floats], worker: int, **settings: Any) -> Any:
    with ParameterServer(t, START, MomentumSGD(1.0), **settings) as group:
        for _ in range(2):
            group.worker.push(own)
            found = group.worker.pull()
    return found


def by_aggregator(t: Transport, own: dict[str, Floats], worker: int, **settings: Any) -> Any:
    aggregator = WeightAggregator(t, START, MomentumSGD(1.0), **settings)
    return [aggregator.step(own) for _ in range(2)][-1]


def by_gradiveq(t: Transport, own: dict[str, Floats], worker: int, codec: Codec | None) -> Any:
    """Keys that are no convolutions, in every phase."""
    exchange = GradiVeQ(t, START, warm_up=2, rest_codec=codec)
    found = [exchange.all_reduce(own) for _ in range(2)][-1]
    return {key: found[key] for key in ("w", "b")}


def by_compressors(t: Transport, own: dict[str, Floats], worker: int, codec: Codec | None) -> Any:
    """Return sums of compressed slices.

    All ranks sample the same gradients, so their compressors are alike.
    """
    exchange = GradiVeQ(t, START, warm_up=0, sampling=3, compressed=2, sampling_bits=None, codec=codec)
    for step in range(3):
        exchange.all_reduce({key: value * np.float32(step + 1) for key, value in gradients(0).items()})
    return {"conv": exchange.all_reduce(own)["conv"]}


def by_parallax(t: Transport, own: dict[str, Floats], worker: int, machines: str, **settings: Any) -> Any:
    """Each worker uses rows of its own. ``machines`` has the name of each worker's."""
    model = OneVariable((ROWS, 16), ROWS_OF[worker], own["w"][ROWS_OF[worker]])
    config = ParallaxConfig(path="off" if settings["codec"] is None else "software", **settings)
    runner = get_runner(model, t, lambda: MomentumSGD(1.0), config, machine=machines[worker])
    for step in range(2):
        runner.run(step)
    return runner.gathered()


SYSTEMS: dict[str, Any] = {
    "parameter server": by_server,
    "aggregator": by_aggregator,
    "GradiVeQ, other keys": by_gradiveq,
    "GradiVeQ, compressed": by_compressors,
    "Parallax, servers": partial(by_parallax, machines="abcd", strategy="parameter_server"),
    "Parallax, two machines": partial(by_parallax, machines="aaab", strategy="parameter_server"),
    "Parallax, all-gather": partial(by_parallax, machines="abcd", strategy="all_gather"),
}


FAR_APART = 2.0**9
"""Here the sums of all workers' values have more than the 24 bits of fp32: they are made in float64."""


def hashes(threads: Group, system: Any, codec: Codec | None, apart: float) -> set[str]:
    """Return the hashes of all ranks' results over random permutations of the ranks."""
    found = set()
    for seed in range(PERMUTATIONS):
        order = np.random.default_rng(seed).permutation(RANKS)

        def run(t: Transport, order: Any = order) -> str:
            worker = int(order[t.rank])
            result = system(t, gradients(worker, apart), worker, codec=codec)
            return hashlib.sha256(b"".join(result[key].tobytes() for key in sorted(result))).hexdigest()

        found |= set(threads(RANKS, run, timeout=30))
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_one_hash_over_permutations_of_the_ranks(threads: Group, name: str) -> None:
    apart = FAR_APART if name.startswith(("parameter", "Parallax")) else 3.0
    assert len(hashes(threads, SYSTEMS[name], PLANES, apart)) == 1
    # Raw sums depend on the order: the test can fail.
    assert len(hashes(threads, SYSTEMS[name], None, 3.0)) > 1
