# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench parallax``: sparse variables by servers, by all-gathers, and made dense."""

from statistics import median
from typing import Annotated, Any

import typer

from ....commands import report
from ....commands.console import new_progress
from ....commands.study import Columns, Figure, Study, flat, measurement
from ....netns import Network, rate_text, require
from ..common.job import lines_of

RANK = "inceptionn.evaluate.bench.layers.parallax_rank"
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
    groups = plan_of(batch, steps, rounds, quick, seed)
    results = {}
    with new_progress(study.console) as progress, Network(hosts, rate) as network:
        task = progress.add_task("a model with an embedding", total=len(groups))
        for line in lines_of(network, RANK, {"groups": groups}):
            results[line["name"]] = line
            progress.update(task, advance=1, description="a dense model")
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


def plan_of(batch: int, steps: int, rounds: int, quick: bool, seed: int) -> list[dict[str, Any]]:
    """Return the groups that the ranks train."""
    common = {"steps": steps, "rounds": rounds, "warm_up": 2, "seed": seed}
    sparse = {HYBRID: {"search": True}, ALL_GATHER: {"strategy": "all_gather"}, DENSE: {"strategy": "dense"}}
    dense = {HYBRID: {"strategy": "hybrid"}, ALL_REDUCE: {"strategy": "dense"}}
    grid = GRID[::3] if quick else GRID
    return [
        {"name": SPARSE, **EMBEDDING, **common, "batch": batch, "variants": sparse, "grid": grid},
        {"name": DENSE_MODEL, **MLP, **common, "rounds": 2 * rounds, "batch": 32, "variants": dense},
    ]


def step_seconds(group: dict[str, Any], variant: str) -> float:
    """Return the median step of a variant."""
    return median(group["variants"][variant]["seconds"])


def by_partitions(results: dict[str, Any]) -> dict[int, float]:
    """Return the median step of the model with an embedding, by the number of partitions."""
    return {int(p): median(times) for p, times in results[SPARSE]["grid"].items()}


def figures_of(results: dict[str, Any]) -> list[Figure]:
    """Return the target ratios."""
    sparse, dense = results[SPARSE], results[DENSE_MODEL]
    gather, as_dense, slower, search = TARGETS
    own = step_seconds(sparse, HYBRID)
    by_number = by_partitions(results)
    chosen = by_number[sparse["variants"][HYBRID]["partitions"]]
    return [
        Figure(f"throughput, {ALL_GATHER}", step_seconds(sparse, ALL_GATHER) / own, gather),
        Figure(f"throughput, {DENSE}", step_seconds(sparse, DENSE) / own, as_dense),
        Figure(
            "dense model, step time",
            step_seconds(dense, HYBRID) / step_seconds(dense, ALL_REDUCE), slower, most=True,
        ),
        Figure(
            "partitions, chosen / best, step time", chosen / min(by_number.values()), search, most=True
        ),
    ]  # fmt: skip
