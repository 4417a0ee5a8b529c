# SPDX-License-Identifier: BSD-2-Clause
"""One rank of ``inceptionn bench parallax``: what runs in each host.

    python -m inceptionn.evaluate.bench.layers.parallax_rank PLAN [RANK]

Rank 0 prints one JSON line per group. The variants of a group are trained in turn, a few steps each, so that
other load on the machine affects all alike.
"""

import time
from typing import Any

import numpy as np

from ....layers.parallax import MomentumSGD, ParallaxConfig, Runner, get_runner, partitioner
from ....transport import Transport
from ...training import MLP, Batches, Dataset, EmbeddingClassifier, Model, digits, zipf_documents
from ..common.rank import Plan, report, run

EMBEDDING = "embedding"
RATE = {EMBEDDING: 10.0, "mlp": 0.1}


def main(transport: Transport, plan: Plan) -> None:
    """Run the plan."""
    for group in plan["groups"]:
        report(transport, {"name": group["name"], **compare(transport, group)})


class Trained:
    """A runner, its batches, and what its steps took."""

    def __init__(self, transport: Transport, group: dict[str, Any], settings: dict[str, Any]) -> None:
        data, model = of_group(group)
        searched = group["model"] == EMBEDDING and settings.pop("search", False)
        config = ParallaxConfig(warm_up=group["warm_up"], sampled=group["steps"], **settings)
        rate = RATE[group["model"]]
        # One rank per host: each host's name is its machine's.
        self.runner: Runner = get_runner(
            model,
            transport,
            lambda: MomentumSGD(rate, momentum=0),
            config,
            partitioners=[partitioner([EMBEDDING])] if searched else [],
        )
        self.batches = Batches(data.train, group["batch"], transport.rank, transport.size, group["seed"])
        while not self.runner.settled:
            self.runner.run(self.batches.at(self.runner.step))
        self.before = dict(self.runner.traffic.sent)
        self.steps = 0

    def train(self, steps: int) -> list[float]:
        """Measure seconds of each step, the slowest rank's."""
        own = []
        self.runner.transport.barrier()
        for _ in range(steps):
            batch = self.batches.at(self.runner.step)
            start = time.perf_counter()
            self.runner.run(batch)
            own.append(time.perf_counter() - start)
        self.steps += steps
        return [float(t) for t in np.max(self.runner.transport.exchange(own), axis=0)]

    def sent(self) -> dict[str, float]:
        """Return bytes per step by class since the runner settled, all ranks together."""
        now = self.runner.traffic.sent
        own = {kind: (count - self.before.get(kind, 0)) / self.steps for kind, count in now.items()}
        every = self.runner.transport.exchange(own)
        return {kind: sum(each.get(kind, 0) for each in every) for kind in sorted(own)}

    def report(self, seconds: list[float]) -> dict[str, Any]:
        """Return the line that rank 0 prints of it."""
        partitions = self.runner.partitions(EMBEDDING)
        alpha = self.runner.alphas.get(EMBEDDING)
        return {"seconds": seconds, "sent": self.sent(), "alpha": alpha, "partitions": partitions}


def of_group(group: dict[str, Any]) -> tuple[Dataset, Model]:
    """Make the data and the model of a group.

    They are made again each time, since a runner trains its model's arrays.
    """
    if group["model"] == "mlp":
        data = digits(group["seed"])
        return data, MLP(64, (group["width"], group["width"]), data.classes)
    data = zipf_documents(
        group["rows"], group["length"], group["samples"], exponent=group["exponent"], seed=group["seed"]
    )
    return data, EmbeddingClassifier(group["rows"], group["width"], data.classes)


def compare(transport: Transport, group: dict[str, Any]) -> dict[str, Any]:
    """Train the variants of a group in turn; with a ``grid``, one runner in each number of partitions."""
    variants = {name: Trained(transport, group, dict(each)) for name, each in group["variants"].items()}
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(group["rounds"]):
        for name, trained in variants.items():
            seconds[name] += trained.train(group["steps"])
    found: dict[str, Any] = {
        "variants": {name: trained.report(seconds[name]) for name, trained in variants.items()}
    }
    if group.get("grid"):
        found["grid"] = by_partitions(next(iter(variants.values())), group)
    variable = next(iter(variants.values())).runner.parameters
    return found | {"variable_bytes": {key: value.nbytes for key, value in variable.items()}}


def by_partitions(trained: Trained, group: dict[str, Any]) -> dict[str, list[float]]:
    """Measure by brute force the seconds of each step for every number of partitions.

    These are the grid's numbers and the chosen one.
    """
    chosen = trained.runner.partitions(EMBEDDING)
    grid = sorted({*group["grid"], chosen})
    times: dict[str, list[float]] = {str(partitions): [] for partitions in grid}
    for _ in range(group["rounds"]):
        for partitions in grid:
            trained.runner.repartition([EMBEDDING], partitions)
            trained.train(1)  # its first step makes new memory
            times[str(partitions)] += trained.train(group["steps"])
    return times


if __name__ == "__main__":
    run(main)
