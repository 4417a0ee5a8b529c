# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench convergence``: training through compressed all-reduces, at equal bound and bytes."""

import math
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import numpy as np

from .... import BOUNDED as PAPER
from .... import MAX_K, PLANES, Codec, scale_exponent
from ....commands import report
from ....commands.console import new_progress
from ....layers.parameter_server import MomentumSGD
from ...study import Columns, Curve, Draw, Panel, Study, measurement, panels
from ...training import Floats, Trainer, loop, model_of
from ...training.loop import MODELS
from ..common.data import one_thread
from .exchanges import Ring
from .grid import Row, average, groups, require, where

RAW, BOUNDED, EQUAL_BOUND, EQUAL_BYTES = "raw", "bounded", "planes, equal bound", "planes, equal bytes"
CODECS = {BOUNDED: PAPER, EQUAL_BOUND: PLANES, EQUAL_BYTES: PLANES}
RATE, MOMENTUM, BATCH = 0.05, 0.9, 16
POINTS = 30
"""Test losses in a curve."""
SAMPLES = 8
"""Gradients from which the bound of equal bytes is found."""


@measurement("convergence", plot=True)
def convergence(
    study: Study,
    models: Annotated[str, report.listed(f"Of {', '.join(MODELS)}.", show_default="all of them")] = ",".join(
        MODELS
    ),
    workers: Annotated[int, report.whole(2, 16, "Workers, threads of this process.")] = 4,
    steps: Annotated[int, report.whole(1, 100_000, "Steps of each training.")] = 300,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each kind.")] = 3,
    bound: report.Bound = 6,
    seed: report.FirstSeed = 0,
    quick: Annotated[bool, report.quick(steps=30, seeds=1)] = False,
) -> None:
    """Measure loss and accuracy of training runs whose gradients go through each kind of ring all-reduce.

    About ten minutes, with --quick one. All but the perceptron needs torch.

    Raw, bounded, planes at the same bound, and planes at the smallest bound that needs no more bytes than
    bounded (found on gradients of the raw run). Scale auto, no error feedback. The models learn
    scikit-learn's digits by momentum, with 16 samples per worker and step.
    """
    chosen = report.choices(models, MODELS, "--models")
    require(chosen)
    runs: list[Row] = []
    with new_progress(study.console) as progress, one_thread():
        task = progress.add_task("", total=4 * seeds * len(chosen))
        for name in chosen:
            equal = bound
            for variant in (RAW, *CODECS):
                k = {RAW: None, EQUAL_BYTES: equal}.get(variant, bound)
                for each in range(seed, seed + seeds):
                    progress.update(task, description=f"{name}: {variant}, seed {each}")
                    run, gradients = trained(name, variant, k, workers, steps, each)
                    runs.append(run)
                    progress.advance(task)
                    if variant == RAW and each == seed:
                        equal = bound_of_equal_bytes(gradients, bound, workers)
    study.conditions.append(
        f"{workers} workers, {steps} steps, {seeds} seed{'s' * (seeds > 1)}, bound 2**-{bound}, scale auto"
    )
    for (name,), own in groups(runs, "model").items():
        raw = average(where(own, variant=RAW), "sent")
        cases = [(raw, rows) for rows in groups(own, "variant").values()]
        study.table(f"{name}: means over the seeds", VARIANTS, cases)
    study.facts |= {
        "workers": workers, "training_steps": steps, "bound": 2.0**-bound, "batch": BATCH, "rate": RATE,
        "momentum": MOMENTUM, "runs": runs,
    }  # fmt: skip
    study.rows = [
        {**{name: value for name, value in run.items() if name != "losses"},
         "steps": run["steps"][-1], "loss": run["losses"][-1]} for run in runs
    ]  # fmt: skip
    study.plot(curves(runs), 4.2 * len(chosen), 6.4)


def trained(
    name: str, variant: str, k: int | None, workers: int, steps: int, seed: int
) -> tuple[dict[str, Any], list[Floats]]:
    """Train once, data-parallel; return the run, and some gradients of rank 0.

    ``losses``: of the test set, at ``steps``. ``sent``: bytes by rank 0, per step.
    """
    trainer = Trainer(model_of(name), MomentumSGD(RATE, MOMENTUM), workers, BATCH, seed)
    kept: list[Floats] = []
    at: list[int] = []
    losses: list[float] = []

    def before(step: int, gradients: Floats) -> None:
        if step % max(1, steps // SAMPLES) == 0:
            kept.append(gradients[0])

    def after(step: int) -> None:
        if step + 1 == steps or (step + 1) % max(1, steps // POINTS) == 0:
            at.append(step + 1)
            losses.append(trainer.loss())

    codec = None if k is None else Codec(2.0**-k, *CODECS[variant], threads=1)
    with closing(Ring(workers, codec)) as ring:
        loop.train(trainer, steps, ring, before, after)
    return {
        "model": trainer.model.name, "variant": variant, "k": k, "seed": seed, "steps": at,
        "losses": losses, "accuracy": trainer.accuracy(), "sent": ring.sent,
    }, kept  # fmt: skip


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


def _accuracies(rows: Sequence[Row]) -> list[float]:
    return [100 * row["accuracy"] for row in rows]


VARIANTS: Columns[tuple[float, list[Row]]] = {
    "": lambda case: case[1][0]["variant"],
    "bound": lambda case: "-" if case[1][0]["k"] is None else f"2**-{case[1][0]['k']}",
    "kB sent\nper step": lambda case: f"{average(case[1], 'sent') / 1e3:.1f}",
    "of raw": lambda case: f"1:{case[0] / average(case[1], 'sent'):.1f}",
    "test loss": lambda case: f"{np.mean([row['losses'][-1] for row in case[1]]):.4f}",
    "accuracy": lambda case: f"{np.mean(_accuracies(case[1])):.2f} %",
    "least to most": lambda case: f"{min(_accuracies(case[1])):.1f} to {max(_accuracies(case[1])):.1f}",
}
"""Of the raw bytes, and a variant's runs: means over the seeds, and the range of the accuracies."""


def curves(runs: Sequence[Row]) -> Draw:
    """Test loss over steps and over bytes, the mean over the seeds; one column of panels for each model."""
    above, below = [], []
    for (name,), own in groups(runs, "model").items():
        by_step, by_bytes = [], []
        for (variant,), rows in groups(own, "variant").items():
            steps, losses = np.array(rows[0]["steps"]), np.mean([row["losses"] for row in rows], axis=0)
            by_step.append(Curve(variant, steps.tolist(), losses.tolist()))
            sent = steps * average(rows, "sent") / 1e6
            by_bytes.append(Curve(variant, sent.tolist(), losses.tolist()))
        axes: dict[str, Any] = {"ylabel": "test loss", "yscale": "log"}
        above.append(Panel(curves=by_step, axes={**axes, "title": name, "xlabel": "step"}))
        below.append(
            Panel(curves=by_bytes, axes={**axes, "xlabel": "MB sent by each worker", "xscale": "log"})
        )
    return panels(above, below, columns=4)
