# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench parallax``: sparse variables by servers, by all-gathers, and made dense."""

from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from ....commands import report
from ....commands.console import CsvFile, JsonFile, PlotFile, Table, new_figure, new_progress, write_plot
from ....layers.parallax import CostModel, fit
from ....netns import Network, rate_text, require
from ..common.job import lines_of

RANK = "inceptionn.evaluate.bench.layers.parallax_rank"
PORT = 29530
TIMEOUT = 120.0
"""Seconds without progress after which a rank gives up."""
PATIENCE = 600.0
"""Seconds that a group may take: it trains many steps before it prints anything."""
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


def parallax(
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one worker and one server each.")] = 8,
    rate: Annotated[str, typer.Option(help="Bits per second of every link.")] = "1g",
    batch: Annotated[int, report.whole(1, 2000, "Documents per worker and step.")] = 200,
    steps: Annotated[int, report.whole(1, 1000, "Steps of each turn.")] = 4,
    rounds: Annotated[int, report.whole(1, 1000, "Turns; the median step counts.")] = 5,
    seed: report.Seed = 0,
    quick: Annotated[bool, report.quick(hosts=4, steps=2, rounds=2)] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    plot: PlotFile = None,
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
    out = report.Report(seed, json_file, csv_file, plot)
    require()
    groups = plan_of(batch, steps, rounds, quick, seed)
    results = {}
    with new_progress(out.console) as progress, Network(hosts, rate) as network:
        task = progress.add_task("a model with an embedding", total=len(groups))
        plan = {"port": PORT, "timeout": TIMEOUT, "groups": groups}
        for line in lines_of(network, RANK, plan, PATIENCE):
            results[line["name"]] = line
            progress.update(task, advance=1, description="a dense model")
    out.show_conditions(f"{hosts} hosts, links of {rate_text(bits)}")
    titles = {SPARSE: "A model with an embedding", DENSE_MODEL: "A dense model"}
    out.show([_steps_table(title, results[name]) for name, title in titles.items()])
    out.show([_partitions_table(results[SPARSE])])
    out.show_figures(figures_of(results))
    rows = [
        {"model": model, "variant": name, **report.flat(variant)}
        for model, group in results.items()
        for name, variant in group["variants"].items()
    ]
    facts = {"bench": "parallax", "hosts": hosts, "rate": bits, "groups": groups, "results": results}
    out.write(facts, rows, lambda path: draw(path, results))


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


def figures_of(results: dict[str, Any]) -> list[report.Figure]:
    """Return the target ratios."""
    sparse, dense = results[SPARSE], results[DENSE_MODEL]
    gather, as_dense, slower, search = TARGETS
    own = step_seconds(sparse, HYBRID)
    by_number = {int(p): median(times) for p, times in sparse["grid"].items()}
    chosen = by_number[sparse["variants"][HYBRID]["partitions"]]
    return [
        report.Figure(f"throughput, {ALL_GATHER}", step_seconds(sparse, ALL_GATHER) / own, gather),
        report.Figure(f"throughput, {DENSE}", step_seconds(sparse, DENSE) / own, as_dense),
        report.Figure(
            "dense model, step time",
            step_seconds(dense, HYBRID) / step_seconds(dense, ALL_REDUCE), slower, most=True,
        ),
        report.Figure(
            "partitions, chosen / best, step time", chosen / min(by_number.values()), search, most=True
        ),
    ]  # fmt: skip


def _steps_table(title: str, group: dict[str, Any]) -> Table:
    found = next(iter(group["variants"].values()))
    alpha = "" if found["alpha"] is None else f", alpha {found['alpha']:.3f}"
    size = sum(group["variable_bytes"].values()) / 1e6
    columns = ("", "ms per step", "steps/s", "MB sent per step", "partitions")
    table = Table(f"{title}: {size:.1f} MB of variables{alpha}", *columns)
    for name, variant in group["variants"].items():
        seconds = step_seconds(group, name)
        table.add_row(
            name, f"{1e3 * seconds:.1f}", f"{1 / seconds:.2f}", f"{sum(variant['sent'].values()) / 1e6:.2f}",
            str(variant["partitions"] or "-"),
        )  # fmt: skip
    return table


def model_of(group: dict[str, Any]) -> tuple[CostModel, dict[int, float]]:
    """Return equation 1 as the search fitted it, and its samples."""
    samples = {int(p): seconds for p, seconds in group["variants"][HYBRID]["samples"][0]}
    return fit(samples), samples


def _partitions_table(group: dict[str, Any]) -> Table:
    model, samples = model_of(group)
    chosen = group["variants"][HYBRID]["partitions"]
    table = Table("Partitions: ms per step", "", "tried by the search", "its model", "brute force")
    for partitions, times in sorted((int(p), times) for p, times in group["grid"].items()):
        sampled = f"{1e3 * samples[partitions]:.1f}" if partitions in samples else ""
        mark = " (chosen)" if partitions == chosen else ""
        table.add_row(
            f"{partitions}{mark}",
            sampled,
            f"{1e3 * model.time(partitions):.1f}",
            f"{1e3 * median(times):.1f}",
        )
    return table


def draw(path: Path, results: dict[str, Any]) -> None:
    """Plot step times of the strategies, and the search next to brute force."""
    group = results[SPARSE]
    figure = new_figure(10, 3.6)
    left, right = figure.subplots(1, 2)
    names = list(group["variants"])
    bars = left.barh(names, [1e3 * step_seconds(group, name) for name in names])
    left.bar_label(bars, fmt="{:.1f}", padding=3, fontsize=8)
    left.margins(x=0.15)
    left.invert_yaxis()
    left.set_xlabel("ms per step")
    model, samples = model_of(group)
    grid = sorted(map(int, group["grid"]))
    right.plot(grid, [1e3 * median(group["grid"][str(p)]) for p in grid], "o-", label="brute force")
    right.plot(grid, [1e3 * model.time(p) for p in grid], "--", label="the search's model")
    right.plot(list(samples), [1e3 * t for t in samples.values()], "x", label="tried by the search")
    right.axvline(group["variants"][HYBRID]["partitions"], color="grey", lw=0.8)
    right.set_xscale("log", base=2)
    right.set_xlabel("partitions")
    right.set_ylabel("ms per step")
    right.legend()
    write_plot(path, figure)
