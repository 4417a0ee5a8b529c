# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench parallax``: sparse variables by servers, by all-gathers, and made dense."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer

from ....commands import report
from ....commands.study import Columns, Figure, Study, flat, measurement
from ....layers.parallax import MomentumSGD, ParallaxConfig, Runner, get_runner, partitioner
from ....netns import Network, rate_text, require
from ....transport import Transport
from ...training import MLP as Perceptron
from ...training import Batches, Dataset, EmbeddingClassifier, Model, digits, zipf_documents
from ..common.job import Line, counted, lines_of
from ..common.rank import Plan, tell

HYBRID, ALL_GATHER, DENSE = "Parallax", "all-gather of sparse gradients", "sparse made dense, all-reduce"
ALL_REDUCE = "all-reduce"
GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
SPARSE, DENSE_MODEL = "sparse", "dense"
EMBEDDING: dict[str, Any] = {
    "model": "embedding", "rows": 50_000, "width": 256, "length": 16, "samples": 20_000, "exponent": 0.5,
}  # fmt: skip
"""51 MB of word vectors; documents of 16 words, not too unevenly distributed (alpha is printed)."""
MLP: dict[str, Any] = {"model": "mlp", "width": 512}
TARGETS = (2.0, 2.0, 1.03, 1.06)


@measurement("parallax")
def parallax(
    study: Study,
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one worker and one server each.")] = 8,
    rate: Annotated[str, typer.Option(help="Bits per second of every link.")] = "1g",
    batch: Annotated[int, report.whole(1, 2000, "Documents per worker and step.")] = 200,
    steps: Annotated[int, report.whole(1, 1000, "Steps of each turn.")] = 4,
    rounds: Annotated[int, report.whole(1, 1000, "Turns; the median step counts.")] = 5,
    seed: report.Seed = 0,
    quick: Annotated[bool, report.quick(hosts=4, steps=2, rounds=2)] = False,
) -> None:
    """Time training with sparse gradients over rate-limited links, by Parallax and its alternatives.

    About three minutes, with --quick one.

    Measures three things: the speed of a model with a large embedding (against all-gathers of the sparse
    gradients and against dense ones), the overhead for a dense model, and the number of partitions that the
    search finds (against many others). Needs root: the hosts are network namespaces of this machine.
    """
    if batch * hosts > EMBEDDING["samples"] * 4 // 5:
        raise typer.BadParameter(f"--batch times --hosts must be at most 16000, not {batch * hosts}")
    bits = report.rate(rate)
    require()
    groups = plan_of(batch, steps, rounds, GRID[::3] if quick else GRID, seed)
    with Network(hosts, rate) as network:
        lines = counted(study.console, trained(network, groups), len(groups))
        results = {line["name"]: line for line in lines}
    study.conditions.append(f"{hosts} hosts, links of {rate_text(bits)}")
    for name, title in ((SPARSE, "A model with an embedding"), (DENSE_MODEL, "A dense model")):
        group = results[name]
        alpha = next(iter(group["variants"].values()))["alpha"]
        shown = "" if alpha is None else f", alpha {alpha:.3f}"
        size = sum(group["variable_bytes"].values()) / 1e6
        study.table(f"{title}: {size:.1f} MB of variables{shown}", STEPS, group["variants"].items())
    chosen = results[SPARSE]["variants"][HYBRID]["partitions"]
    rows = [(f"{p} (chosen)" if p == chosen else str(p), 1e3 * s) for p, s in by_partitions(results).items()]
    study.table("Partitions: ms per step", {"": lambda row: row[0], "ms": lambda row: f"{row[1]:.1f}"}, rows)
    study.figures += figures_of(results)
    study.rows = [
        {"model": model, "variant": name, **flat(variant)}
        for model, group in results.items() for name, variant in group["variants"].items()
    ]  # fmt: skip
    study.facts |= {"hosts": hosts, "rate": bits, "groups": groups, "results": results}


STEPS: Columns[tuple[str, dict[str, Any]]] = {
    "": lambda row: row[0],
    "ms per step": lambda row: f"{1e3 * median(row[1]['seconds']):.1f}",
    "steps/s": lambda row: f"{1 / median(row[1]['seconds']):.2f}",
    "MB sent per step": lambda row: f"{sum(row[1]['sent'].values()) / 1e6:.2f}",
    "partitions": lambda row: str(row[1]["partitions"] or "-"),
}
"""Of a variant's name and line."""


def plan_of(batch: int, steps: int, rounds: int, grid: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """Return the groups that the ranks train; the first one in each of the grid's numbers of partitions."""
    common = {"steps": steps, "rounds": rounds, "warm_up": 2, "seed": seed}
    sparse = {HYBRID: {"search": True}, ALL_GATHER: {"strategy": "all_gather"}, DENSE: {"strategy": "dense"}}
    dense = {HYBRID: {"strategy": "hybrid"}, ALL_REDUCE: {"strategy": "dense"}}
    return [
        {"name": SPARSE, **EMBEDDING, **common, "batch": batch, "variants": sparse, "grid": grid},
        {"name": DENSE_MODEL, **MLP, **common, "rounds": 2 * rounds, "batch": 32, "variants": dense},
    ]


def trained(network: Network, groups: list[dict[str, Any]]) -> Iterator[Line]:
    """Train the groups on all hosts; yield each one's result."""
    return lines_of(network, at_host, {"groups": groups})


def gain(group: dict[str, Any], variant: str) -> float:
    """Return how many times as long as the hybrid's the median step of a variant is."""
    taken, hybrid = (median(group["variants"][name]["seconds"]) for name in (variant, HYBRID))
    return taken / hybrid


def by_partitions(results: dict[str, Any]) -> dict[int, float]:
    """Return the median step of the model with an embedding, by the number of partitions."""
    return {int(p): median(times) for p, times in results[SPARSE]["grid"].items()}


def figures_of(results: dict[str, Any]) -> list[Figure]:
    """Return the target ratios."""
    sparse, dense = results[SPARSE], results[DENSE_MODEL]
    gather, as_dense, slower, search = TARGETS
    by_number = by_partitions(results)
    chosen = by_number[sparse["variants"][HYBRID]["partitions"]]
    return [
        Figure(f"throughput, {ALL_GATHER}", gain(sparse, ALL_GATHER), gather),
        Figure(f"throughput, {DENSE}", gain(sparse, DENSE), as_dense),
        Figure("dense model, step time", 1 / gain(dense, ALL_REDUCE), slower, most=True),
        Figure(
            "partitions, chosen / best, step time", chosen / min(by_number.values()), search, most=True
        ),
    ]  # fmt: skip


KEY = "embedding"
RATE = {KEY: 10.0, "mlp": 0.1}


def at_host(transport: Transport, plan: Plan) -> None:
    """Run the plan's groups at a host; rank 0 prints a line for each."""
    for group in plan["groups"]:
        tell(transport, {"name": group["name"], **compare(transport, group)})


class Trained:
    """A runner, its batches, and what its steps took."""

    def __init__(self, transport: Transport, group: dict[str, Any], settings: dict[str, Any]) -> None:
        data, model = of_group(group)
        searched = group["model"] == KEY and settings.pop("search", False)
        config = ParallaxConfig(warm_up=group["warm_up"], sampled=group["steps"], **settings)
        rule = partial(MomentumSGD, RATE[group["model"]], momentum=0)
        split = [partitioner([KEY])] if searched else []
        # One rank per host: each host's name is its machine's.
        self.runner: Runner = get_runner(model, transport, rule, config, partitioners=split)
        self.batches = Batches(data.train, group["batch"], transport.rank, transport.size, group["seed"])
        while not self.runner.settled:
            self.runner.run(self.batches.at(self.runner.step))
        self.before = dict(self.runner.traffic.sent)
        self.seconds: list[float] = []

    def train(self, steps: int) -> list[float]:
        """Measure seconds of each step, the slowest rank's, and keep them."""
        own = []
        self.runner.transport.barrier()
        for _ in range(steps):
            batch = self.batches.at(self.runner.step)
            start = time.perf_counter()
            self.runner.run(batch)
            own.append(time.perf_counter() - start)
        slowest: list[float] = np.max(self.runner.transport.exchange(own), axis=0).tolist()
        self.seconds += slowest
        return slowest

    def report(self) -> Line:
        """Return what rank 0 prints. ``sent``: bytes per step since it settled, of all ranks, by class."""
        now = self.runner.traffic.sent
        own = {kind: (count - self.before.get(kind, 0)) / len(self.seconds) for kind, count in now.items()}
        every = self.runner.transport.exchange(own)
        sent = {kind: sum(each.get(kind, 0) for each in every) for kind in sorted(own)}
        place = {"alpha": self.runner.alphas.get(KEY), "partitions": self.runner.partitions(KEY)}
        return {"seconds": [*self.seconds], "sent": sent, **place}


def of_group(group: dict[str, Any]) -> tuple[Dataset, Model]:
    """Make the data and the model of a group, anew each time: a runner trains its model's arrays."""
    if group["model"] == "mlp":
        data = digits(group["seed"])
        return data, Perceptron(64, (group["width"], group["width"]), data.classes)
    sizes = group["rows"], group["length"], group["samples"]
    data = zipf_documents(*sizes, exponent=group["exponent"], seed=group["seed"])
    return data, EmbeddingClassifier(group["rows"], group["width"], data.classes)


def compare(transport: Transport, group: dict[str, Any]) -> dict[str, Any]:
    """Train the variants of a group in turn, a few steps each: other load on the machine affects all alike.

    With a ``grid``, time one runner in each number of partitions.
    """
    variants = {name: Trained(transport, group, dict(each)) for name, each in group["variants"].items()}
    for _ in range(group["rounds"]):
        for trained in variants.values():
            trained.train(group["steps"])
    found: Line = {"variants": {name: trained.report() for name, trained in variants.items()}}
    if group.get("grid"):
        found["grid"] = by_numbers(next(iter(variants.values())), group)
    variable = next(iter(variants.values())).runner.parameters
    return found | {"variable_bytes": {key: value.nbytes for key, value in variable.items()}}


def by_numbers(trained: Trained, group: dict[str, Any]) -> dict[str, list[float]]:
    """Measure the seconds of each step for the grid's numbers of partitions and the chosen one."""
    chosen = trained.runner.partitions(KEY)
    grid = sorted({*group["grid"], chosen})
    times: dict[str, list[float]] = {str(partitions): [] for partitions in grid}
    for _ in range(group["rounds"]):
        for partitions in grid:
            trained.runner.repartition([KEY], partitions)
            trained.train(1)  # its first step makes new memory
            times[str(partitions)] += trained.train(group["steps"])
    return times
