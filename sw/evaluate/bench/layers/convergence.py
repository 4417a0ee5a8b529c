# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench convergence``: training through compressed all-reduces, at equal bound and bytes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import numpy as np

from .... import BOUNDED as PAPER
from .... import MAX_K, PLANES, Codec, scale_exponent
from ....collectives import MEAN, allreduce_comp
from ....commands import report
from ....commands.console import CsvFile, JsonFile, PlotFile, Table, new_figure, new_progress, write_plot
from ....transport import Transport
from ...training import (
    CNN,
    MLP,
    Batches,
    Dataset,
    Floats,
    Model,
    Momentum,
    Transformer,
    digits,
    flatten,
    unflatten,
)
from ...training.data import require_digits
from ..common.data import one_thread
from ..common.threads import on_ranks

MODELS: dict[str, Callable[[], Model]] = {"mlp": MLP, "cnn": CNN, "transformer": Transformer}
RAW, BOUNDED, EQUAL_BOUND, EQUAL_BYTES = "raw", "bounded", "planes, equal bound", "planes, equal bytes"
CODECS = {BOUNDED: PAPER, EQUAL_BOUND: PLANES, EQUAL_BYTES: PLANES}
RATE, MOMENTUM, BATCH = 0.05, 0.9, 16
POINTS = 30
"""Test losses in a curve."""
SAMPLES = 8
"""Gradients from which the bound of equal bytes is found."""


@dataclass
class Run:
    """One training. ``losses``: of the test set, at ``steps``. ``sent``: bytes by rank 0, per step."""

    model: str
    variant: str
    k: int | None
    seed: int
    steps: list[int]
    losses: list[float]
    accuracy: float
    sent: float


def convergence(
    models: Annotated[str, report.listed(f"Of {', '.join(MODELS)}.", show_default="all of them")] = ",".join(
        MODELS
    ),
    workers: Annotated[int, report.whole(2, 16, "Workers, threads of this process.")] = 4,
    steps: Annotated[int, report.whole(1, 100_000, "Steps of each training.")] = 300,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each kind.")] = 3,
    bound: report.Bound = 6,
    seed: report.FirstSeed = 0,
    quick: Annotated[bool, report.quick(steps=30, seeds=1)] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    plot: PlotFile = None,
) -> None:
    """Measure loss and accuracy of training runs whose gradients go through each kind of ring all-reduce.

    About ten minutes, with --quick one.

    Raw, bounded, planes at the same bound, and planes at the smallest bound that needs no more bytes than
    bounded (found on gradients of the raw run). Scale auto, no error feedback. The models learn
    scikit-learn's digits by momentum, with 16 samples per worker and step.
    """
    chosen = report.choices(models, tuple(MODELS), "--models")
    out = report.Report(seed, json_file, csv_file, plot)
    require_digits()
    runs: list[Run] = []
    with new_progress(out.console) as progress, one_thread():
        task = progress.add_task("", total=4 * seeds * len(chosen))
        for name in chosen:
            model = MODELS[name]()
            equal = bound
            for variant in (RAW, *CODECS):
                k = {RAW: None, EQUAL_BYTES: equal}.get(variant, bound)
                for each in range(seed, seed + seeds):
                    progress.update(task, description=f"{name}: {variant}, seed {each}")
                    run, gradients = train(model, variant, k, workers, steps, each)
                    runs.append(run)
                    progress.advance(task)
                    if variant == RAW and each == seed:
                        equal = bound_of_equal_bytes(gradients, bound, workers)
    out.show_conditions(
        f"{workers} workers, {steps} steps, {seeds} seed{'s' * (seeds > 1)}, bound 2**-{bound}, scale auto"
    )
    out.show(table_of([run for run in runs if run.model == MODELS[name]().name]) for name in chosen)
    facts = {
        "bench": "convergence", "workers": workers, "training_steps": steps, "bound": 2.0**-bound,
        "batch": BATCH, "rate": RATE, "momentum": MOMENTUM, "runs": [asdict(run) for run in runs],
    }  # fmt: skip
    rows = [
        {**report.flat({**asdict(run), "losses": []}), "steps": run.steps[-1], "loss": run.losses[-1]}
        for run in runs
    ]
    out.write(facts, rows, lambda path: draw(path, runs))


def settings_of(variant: str, k: int | None) -> dict[str, Any]:
    """Return the arguments of `allreduce_comp`."""
    if k is None:
        return {"path": "off"}
    codec = Codec(2.0**-k, *CODECS[variant], threads=1)
    return {"path": "software", "codec": codec, "scale": "auto"}


def train(
    model: Model, variant: str, k: int | None, workers: int, steps: int, seed: int
) -> tuple[Run, list[Floats]]:
    """Train once, data-parallel; return the run, and some gradients of rank 0.

    Errors of a rank end all of them.
    """
    data, settings = digits(seed), settings_of(variant, k)

    def work(transport: Transport) -> tuple[Run, list[Floats]]:
        run = Run(model.name, variant, k, seed, [], [], 0, 0)
        return _rank(transport, model, data, settings, steps, run)

    return on_ranks(workers, work)[0]


def _rank(
    transport: Transport, model: Model, data: Dataset, settings: dict[str, Any], steps: int, run: Run
) -> tuple[Run, list[Floats]]:
    batches = Batches(data.train, BATCH, transport.rank, transport.size, run.seed)
    parameters = model.initial(run.seed)
    vector = flatten(parameters)
    change, total = Momentum(RATE, MOMENTUM), np.empty_like(vector)
    kept = []
    sent = 0
    for step in range(steps):
        gradient = flatten(model.gradients(unflatten(vector, parameters), batches.at(step)))
        if step % max(1, steps // SAMPLES) == 0:
            kept.append(gradient)
        before = transport.bytes_sent
        allreduce_comp(transport, gradient, total, MEAN, **settings)
        sent += transport.bytes_sent - before
        vector += change(total)
        last = step + 1 == steps
        if transport.rank == 0 and (last or (step + 1) % max(1, steps // POINTS) == 0):
            run.steps.append(step + 1)
            run.losses.append(model.loss(unflatten(vector, parameters), data.test))
    run.accuracy, run.sent = model.accuracy(unflatten(vector, parameters), data.test), sent / steps
    return run, kept


def bound_of_equal_bytes(gradients: Sequence[Floats], k: int, workers: int) -> int:
    """Return the largest k for which gradients take no more bytes in planes than in ``bounded``.

    ``k`` is the bound of ``bounded``. Gradients are scaled as in an all-reduce of this number of workers.
    """
    growth = math.ceil(math.log2(workers))

    def size(codec: Codec) -> int:
        return sum(len(codec.compress(x, scale=scale_exponent(x, codec.codec) - growth)) for x in gradients)

    limit = size(Codec(2.0**-k))
    fitting = [finer for finer in range(k, MAX_K + 1) if size(Codec(2.0**-finer, "planes")) <= limit]
    return max(fitting, default=k)


def table_of(runs: Sequence[Run]) -> Table:
    """Tabulate one line per variant: means over the seeds, and the range of the accuracies."""
    title = f"{runs[0].model}: means over the seeds"
    table = Table(title, "", "bound", "kB sent\nper step", "of raw", "test loss", "accuracy", "least to most")
    variants = {run.variant: [other for other in runs if other.variant == run.variant] for run in runs}
    raw = mean(run.sent for run in variants[RAW])
    for variant, found in variants.items():
        sent, accuracies = mean(run.sent for run in found), [100 * run.accuracy for run in found]
        table.add_row(
            variant,
            "-" if found[0].k is None else f"2**-{found[0].k}",
            f"{sent / 1e3:.1f}",
            f"1:{raw / sent:.1f}",
            f"{mean(run.losses[-1] for run in found):.4f}",
            f"{mean(accuracies):.2f} %",
            f"{min(accuracies):.1f} to {max(accuracies):.1f}",
        )
    return table


def draw(path: Path, runs: Sequence[Run]) -> None:
    """Test loss over steps and over bytes, the mean over the seeds; one column of panels for each model."""
    models = list(dict.fromkeys(run.model for run in runs))
    figure = new_figure(4.2 * len(models), 6.4)
    panels = figure.subplots(2, len(models), squeeze=False)
    for column, name in enumerate(models):
        for variant in dict.fromkeys(run.variant for run in runs):
            found = [run for run in runs if (run.model, run.variant) == (name, variant)]
            steps = np.array(found[0].steps)
            losses = np.mean([run.losses for run in found], axis=0)
            panels[0][column].plot(steps, losses, label=variant)
            panels[1][column].plot(steps * mean(run.sent for run in found) / 1e6, losses)
        panels[0][column].set(title=name, xlabel="step", ylabel="test loss", yscale="log")
        panels[1][column].set(xlabel="MB sent by each worker", ylabel="test loss", xscale="log", yscale="log")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    write_plot(path, figure)
