# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench feedback``: what error feedback and a scale per tensor do to trainings."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Annotated

import numpy as np
import typer

from .... import MAX_K, Codec
from ....commands import report
from ....commands.console import CsvFile, JsonFile, PlotFile, Table, new_figure, tracked, write_plot
from ...training.data import require_digits
from ..common.data import one_thread
from .planes import AUTO, SCALES, TENSOR, Ours
from .spikes import EVENTS, LEAST_STEPS, RULES, spikes_table, trained
from .training import BATCH, MODELS, OPTIMIZERS, Workers, train

VARIANTS = tuple(product(SCALES, (False, True)))
"""Scale, and whether there is error feedback."""
PAIRS = (
    ("feedback / none, auto", (AUTO, True), (AUTO, False)),
    ("feedback / none, tensor", (TENSOR, True), (TENSOR, False)),
    ("tensor / auto, none", (TENSOR, False), (AUTO, False)),
    ("tensor / auto, feedback", (TENSOR, True), (AUTO, True)),
)
POINTS = 16
"""Places between which the losses of two variants are compared."""


@dataclass(frozen=True)
class Run:
    """One training. ``k`` and ``scale`` are None without compression. ``sent``: bytes by rank and step."""

    model: str
    optimizer: str
    ranks: int
    k: int | None
    scale: str | None
    feedback: bool
    seed: int
    loss: float
    accuracy: float
    sent: float


def feedback(
    models: Annotated[str, report.listed(f"Of {', '.join(MODELS)}.", show_default="all of them")] = ",".join(
        MODELS
    ),
    optimizers: Annotated[str, report.listed(f"Of {', '.join(OPTIMIZERS)}.", show_default="both")] = ",".join(
        OPTIMIZERS
    ),
    ranks: Annotated[str, report.listed(f"Simulated ranks, of 2..{BATCH}.")] = "4,64",
    bounds: Annotated[str, report.listed("Each k is the bound 2**-k.")] = "8,10,12",
    steps: Annotated[int, report.whole(1, 100_000, "Steps of each training.")] = 200,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each kind.")] = 1,
    seed: report.FirstSeed = 0,
    spikes: Annotated[
        bool, typer.Option("--spikes", help="Instead: skipped and clipped steps, and what they leave.")
    ] = False,
    full: Annotated[bool, report.full(ranks="4,8,16,64", bounds="6,8,10,12", seeds=3)] = False,
    quick: Annotated[bool, report.quick(models="mlp", ranks="4,16", bounds="8,10", steps=50)] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    plot: PlotFile = None,
) -> None:
    """Measure trainings through compressed sums: with and without error feedback, by scale and bound.

    About five minutes, with --full half an hour, with --quick some seconds.

    The models learn scikit-learn's digits, 128 samples a step in all. Ranks are simulated: with planes a sum
    is that of what each rank's values become, whatever the ring's order. A scale is common to all values, or
    one for each tensor. Bytes are those of a ring.

    With --spikes four threads train the perceptron through real all-reduces. Every 20 steps the gradients of
    one are multiplied by 1e3 or 1e6, or one value is infinite, and the step is skipped or clipped. --models
    and --ranks do not count.
    """
    wanted = report.choices(optimizers, tuple(OPTIMIZERS), "--optimizers")
    every = range(seed, seed + seeds)
    grid = [
        (model, optimizer, each)
        for model in report.choices(models, tuple(MODELS), "--models")
        for each in every
        for optimizer in wanted
    ]
    numbers, ks = report.numbers(ranks, 2, BATCH, "--ranks"), report.numbers(bounds, 1, MAX_K, "--bounds")
    if spikes and plot is not None:
        raise typer.BadParameter("--spikes makes tables alone, no --plot")
    if spikes and steps < LEAST_STEPS:
        raise typer.BadParameter(f"--steps must be {LEAST_STEPS} or more with --spikes, not {steps}")
    out = report.Report(seed, json_file, csv_file, plot)
    require_digits()
    if spikes:
        _spikes(out, wanted, ks, steps, every)
        return
    runs: list[Run] = []
    jobs = [(*case, number) for case in grid for number in numbers]
    with one_thread():
        for model, optimizer, each, number in tracked(
            out.console, jobs, lambda job: f"{job[0]}, {job[1]}, {job[3]} ranks, seed {job[2]}"
        ):
            runs += trainings(model, optimizer, number, ks, steps, each)
    out.show_conditions(f"planes; digits, {BATCH} samples a step, {steps} steps, {seeds} seed(s)")
    names = list(dict.fromkeys(run.model for run in runs))
    parts = [accuracies([run for run in runs if run.model == name], name) for name in names]
    if len(names) > 1:
        parts.append(accuracies(runs, "mean of all models"))
    out.show([*parts, equal_bytes(runs)])
    rows = [asdict(run) for run in runs]
    facts = {"bench": "feedback", "batch": BATCH, "training_steps": steps, "seeds": seeds, "runs": rows}
    out.write(facts, rows, lambda path: draw(path, runs))


def _spikes(
    out: report.Report, optimizers: Sequence[str], ks: Sequence[int], steps: int, seeds: range
) -> None:  # fmt: skip
    cases = list(product(optimizers, EVENTS, RULES, ks, seeds))
    with one_thread():
        every = tracked(out.console, cases, lambda case: ", ".join(case[:3]))
        runs = [trained(*case, steps) for case in every]
    out.show_conditions(f"planes, 4 ranks; digits, {BATCH} samples, {steps} steps, {len(seeds)} seed(s)")
    out.show([spikes_table([run for run in runs if run.k == k], k) for k in ks])
    rows = [asdict(run) for run in runs]
    out.write({"bench": "feedback, spikes", "training_steps": steps, "runs": rows}, rows, None)


def trainings(
    model: str, optimizer: str, ranks: int, ks: Sequence[int], steps: int, seed: int
) -> Iterator[Run]:  # fmt: skip
    """Train without compression, then in every variant at every bound."""
    workers = Workers(model, ranks, seed)
    raw = train(workers, optimizer, steps, seed=seed)
    yield Run(model, optimizer, ranks, None, None, False, seed, **asdict(raw))
    for k, (scale, fed) in product(ks, VARIANTS):
        ours = Ours(Codec(2.0**-k, "planes", threads=1), scale, workers.shapes)
        found = train(workers, optimizer, steps, ours, fed, seed=seed)
        yield Run(model, optimizer, ranks, k, scale, fed, seed, **asdict(found))


def accuracies(runs: Sequence[Run], title: str) -> Table:
    """Tabulate the mean accuracy: one line per bound and variant, one column per optimizer and ranks."""
    columns = sorted({(run.optimizer, run.ranks) for run in runs}, key=lambda each: (each[0] != "sgd", each))
    names = [f"{optimizer}, {ranks}" for optimizer, ranks in columns]
    table = Table(f"Accuracy of the test set, %: {title}", "bound", "scale", "error feedback", *names, left=3)
    kinds = dict.fromkeys((run.k, run.scale, run.feedback) for run in runs)
    for k, scale, fed in sorted(kinds, key=lambda kind: (kind[0] or 0, kind[1] or "", kind[2])):
        cells = [
            mean(
                run.accuracy for run in runs
                if (run.k, run.scale, run.feedback, run.optimizer, run.ranks) == (k, scale, fed, *column)
            )
            for column in columns
        ]  # fmt: skip
        first = ("raw", "", "") if k is None else (f"2**-{k}", scale or "", "yes" if fed else "no")
        table.add_row(*first, *(f"{100 * cell:.1f}" for cell in cells))
    return table


def equal_bytes(runs: Sequence[Run]) -> Table:
    """Tabulate the ratio of two variants' losses at equal bytes: one line per optimizer and ranks."""
    names = [name for name, *_ in PAIRS]
    table = Table("Ratio of the test losses at equal bytes (below 1: the first is better)", "", *names)
    for optimizer, ranks in dict.fromkeys((run.optimizer, run.ranks) for run in runs):
        lines = []
        for _, *pair in PAIRS:
            found = []
            for model in dict.fromkeys(run.model for run in runs):
                case = [r for r in runs if (r.model, r.optimizer, r.ranks) == (model, optimizer, ranks)]
                ours, other = (_curve(case, *variant) for variant in pair)
                found.append(_ratio(ours, other))
            valid = [ratio for ratio in found if ratio is not None]
            ratio = np.exp(np.mean(np.log(valid))) if valid else 0
            lines.append("diverged" if np.isnan(ratio) else f"{ratio:.2f}" if valid else "-")
        table.add_row(f"{optimizer}, {ranks} ranks", *lines)
    return table


Curve = list[tuple[float, float]]


def _curve(runs: Sequence[Run], scale: str, fed: bool) -> Curve:
    """Return logarithms of bytes and loss, each the mean over the seeds, by ascending bytes."""
    own = [run for run in runs if (run.scale, run.feedback) == (scale, fed)]
    points = [[run for run in own if run.k == k] for k in {run.k for run in own}]
    return sorted(
        (float(np.log(mean(run.sent for run in point))), mean(float(np.log(run.loss)) for run in point))
        for point in points
    )


def _ratio(ours: Curve, other: Curve) -> float | None:
    """Return the geometric mean of the losses' ratio over the bytes that both curves have."""
    first, last = max(ours[0][0], other[0][0]), min(ours[-1][0], other[-1][0])
    if first > last:
        return None
    places = np.linspace(first, last, POINTS)
    a, b = (np.interp(places, *np.transpose(curve)) for curve in (ours, other))
    return float(np.exp((a - b).mean()))


def draw(path: Path, runs: Sequence[Run]) -> None:
    """Test loss over bytes: a row of panels for each optimizer and number of ranks, a column per model."""
    from matplotlib.ticker import FixedLocator

    models = list(dict.fromkeys(run.model for run in runs))
    lines = list(dict.fromkeys((run.optimizer, run.ranks) for run in runs))
    lines.sort(key=lambda each: (each[0] != "sgd", each[1]))
    figure = new_figure(3.4 * len(models), 2.1 * len(lines) + 0.6)
    panels = figure.subplots(len(lines), len(models), squeeze=False)
    label: Callable[[str, bool], str] = lambda scale, fed: scale + (", feedback" if fed else "")  # noqa: E731
    for (row, (optimizer, ranks)), (column, model) in product(enumerate(lines), enumerate(models)):
        panel = panels[row][column]
        case = [r for r in runs if (r.model, r.optimizer, r.ranks) == (model, optimizer, ranks)]
        raw = [run for run in case if run.k is None]
        wanted = mean(run.loss for run in raw)
        panel.axhline(wanted, color="gray", linewidth=1, label="raw")
        for (scale, fed), style in zip(VARIANTS, ("C0o--", "C0o-", "C1s--", "C1s-"), strict=True):
            curve = np.exp(_curve(case, scale, fed))
            panel.plot(raw[0].sent / curve[:, 0], curve[:, 1], style, markersize=3, label=label(scale, fed))
        panel.set(xscale="log", yscale="log", title=f"{model}, {optimizer}, {ranks} ranks")
        panel.set_ylim(top=min(panel.get_ylim()[1], 30 * wanted))  # what diverged leaves the panel
        panel.title.set_fontsize(9)
        panel.xaxis.set(major_locator=FixedLocator((5, 10, 20, 40)), minor_formatter="")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("{x:.2g}")
        panel.tick_params(which="both", labelsize=7)
    for panel in panels[-1]:
        panel.set_xlabel("ratio")
    for row in panels:
        row[0].set_ylabel("test loss")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    write_plot(path, figure)
