# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench trainings``: what bound, error feedback, scale and type of gradients do to the loss."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from statistics import mean
from typing import Annotated

import numpy as np

from .... import MAX_K, Codec
from ....commands import report
from ....commands.console import Table, tracked
from ....commands.study import Columns, Curve, Draw, Panel, Study, measurement, panels
from ...training.loop import MODELS, OPTIMIZERS
from ..common.data import one_thread
from ..common.rows import Row, groups, where
from .compressors import AUTO, SCALES, TENSOR, Simulated, bf16, ours, raw_bf16
from .grid import BATCH, Case, average, crossed, require

DTYPES = ("float32", "bfloat16")
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
VARIANT: Columns[Row] = {
    "bound": lambda row: "raw" if row["k"] is None else f"2**-{row['k']}",
    "scale": lambda row: row["scale"] or "",
    "error feedback": lambda row: "" if row["k"] is None else "yes" if row["feedback"] else "no",
}


@measurement("trainings", plot=True)
def trainings(
    study: Study,
    models: Annotated[str, report.some_of(MODELS)] = ",".join(MODELS),
    optimizers: Annotated[str, report.some_of(OPTIMIZERS, "both")] = ",".join(OPTIMIZERS),
    ranks: Annotated[str, report.listed(f"Simulated ranks, of 2..{BATCH}.")] = "4,64",
    bounds: Annotated[str, report.listed("Each k is the bound 2**-k.")] = "8,10,12",
    dtype: Annotated[str, report.type_of(DTYPES, "gradients: {}.")] = DTYPES[0],
    steps: Annotated[int, report.whole(1, 100_000, "Steps of each training.")] = 200,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each kind.")] = 1,
    seed: report.FirstSeed = 0,
    full: Annotated[bool, report.full(ranks="4,8,16,64", bounds="6,8,10,12", seeds=3)] = False,
    quick: Annotated[bool, report.quick(models="mlp", ranks="4,16", bounds="8,10", steps=50)] = False,
) -> None:
    """Measure trainings through compressed sums: with and without error feedback, by scale and bound.

    About five minutes, with --full half an hour, with --quick some seconds. All but the perceptron by
    momentum needs torch.

    The models learn scikit-learn's digits, 128 samples a step in all. Ranks are simulated: with planes a sum
    is that of what each rank's values become, whatever the ring's order. A scale is common to all values, or
    one for each tensor. Bytes are those of a ring.

    With --dtype bfloat16 every rank rounds its gradient to it, and the mean is rounded; the raw ring rounds
    each partial sum, too. There is no error feedback then.
    """
    wanted, every = report.choices(optimizers, OPTIMIZERS, "--optimizers"), range(seed, seed + seeds)
    chosen = report.choices(models, MODELS, "--models")
    numbers, ks = report.numbers(ranks, 2, BATCH, "--ranks"), report.numbers(bounds, 1, MAX_K, "--bounds")
    require(chosen, wanted)
    runs: list[Row] = []
    cases = [Case(*each) for each in product(chosen, wanted, numbers, every)]
    with one_thread():
        for case in tracked(study.console, cases, "{0.model}, {0.optimizer}, {0.ranks} ranks".format):
            runs += trained(case, ks, steps, dtype)
    study.rows = runs
    study.facts |= {"training_steps": steps, "batch": BATCH, "seeds": seeds, "dtype": dtype, "runs": runs}
    study.conditions.append(
        f"planes; digits, {BATCH} samples a step, {steps} steps, {seeds} seed(s), gradients of {dtype}"
    )
    study.show(*(accuracies(where(runs, model=name), name) for name in chosen))
    if len(chosen) > 1:
        study.show(accuracies(runs, "mean of all models"))
    if dtype == "float32":
        study.show(equal_bytes(runs))
        study.plot(curves(runs), 3.4 * len(chosen), 2.1 * len(wanted) * len(numbers) + 0.6)


def trained(case: Case, ks: Sequence[int], steps: int, dtype: str = "float32") -> Iterator[Row]:
    """Train without compression, then in every variant at every bound. ``ratio``: of raw bytes to those."""
    name, shapes, rounded = case._asdict(), case.shapes, dtype == "bfloat16"
    raw = case.train(steps, Simulated(bf16(raw_bf16)) if rounded else None)
    yield name | {"k": None, "scale": None, "feedback": False, "ratio": 1.0} | raw
    for k, (scale, fed) in product(ks, VARIANTS):
        if not (fed and rounded):
            compressor = ours(Codec(2.0**-k, "planes", threads=1), scale, shapes)
            found = case.train(steps, Simulated(bf16(compressor) if rounded else compressor, fed))
            ratio = raw["sent"] / found["sent"]
            yield name | {"k": k, "scale": scale, "feedback": fed, "ratio": ratio} | found


def accuracies(runs: Sequence[Row], title: str) -> Table:
    """Tabulate means over the seeds: one line per bound and variant, one column per optimizer and ranks."""

    def cell(rows: Sequence[Row]) -> str:
        loss, accuracy, ratio = map(partial(average, rows), ("loss", "accuracy", "ratio"))
        return f"{100 * accuracy:.1f} ({loss:.4f}, {ratio:.2f})"

    heading = f"Accuracy of the test set, % (loss, ratio over raw): {title}"
    return crossed(heading, runs, VARIANT, "{optimizer}, {ranks}".format_map, cell)


def equal_bytes(runs: Sequence[Row]) -> Table:
    """Tabulate the ratio of two variants' losses at equal bytes: one line per optimizer and ranks."""
    names = [name for name, *_ in PAIRS]
    table = Table("Ratio of the test losses at equal bytes (below 1: the first is better)", "", *names)
    for (optimizer, ranks), case in groups(runs, "optimizer", "ranks").items():
        cells = []
        for _, *pair in PAIRS:
            of_models = groups(case, "model").values()
            found = [_ratio(*(_curve(rows, *variant) for variant in pair)) for rows in of_models]
            valid = [ratio for ratio in found if ratio is not None]
            ratio = np.exp(np.mean(np.log(valid))) if valid else 0
            cells.append("diverged" if np.isnan(ratio) else f"{ratio:.2f}" if valid else "-")
        table.add_row(f"{optimizer}, {ranks} ranks", *cells)
    return table


Points = list[tuple[float, float]]


def _curve(runs: Sequence[Row], scale: str, fed: bool) -> Points:
    """Return logarithms of bytes and loss, each the mean over the seeds, by ascending bytes."""
    return sorted(
        (float(np.log(average(rows, "sent"))), mean(float(np.log(row["loss"])) for row in rows))
        for rows in groups(where(runs, scale=scale, feedback=fed), "k").values()
    )


def _ratio(curve: Points, other: Points) -> float | None:
    """Return the geometric mean of the losses' ratio over the bytes that both curves have."""
    first, last = max(curve[0][0], other[0][0]), min(curve[-1][0], other[-1][0])
    if first > last:
        return None
    places = np.linspace(first, last, POINTS)
    a, b = (np.interp(places, *np.transpose(points)) for points in (curve, other))
    return float(np.exp((a - b).mean()))


def curves(runs: Sequence[Row]) -> Draw:
    """Test loss over the ratio: panels by optimizer and number of ranks, below each other, and by model."""
    found: dict[tuple[str, int], list[Panel]] = {}
    for (optimizer, ranks, model), case in groups(runs, "optimizer", "ranks", "model").items():
        raw = where(case, k=None)
        loss, lines = average(raw, "loss"), []
        for (scale, fed), style in zip(VARIANTS, ("C0o--", "C0o-", "C1s--", "C1s-"), strict=True):
            sent, losses = np.exp(_curve(case, scale, fed)).T
            kept = losses < 30 * loss  # what diverged leaves the panel
            label = scale + (", feedback" if fed else "")
            lines.append(Curve(label, (raw[0]["sent"] / sent)[kept].tolist(), losses[kept].tolist(), style))
        axes = {
            "yscale": "log", "title": f"{model}, {optimizer}, {ranks} ranks",
            "xlabel": "ratio", "ylabel": "test loss",
        }  # fmt: skip
        found.setdefault((optimizer, ranks), []).append(Panel(curves=lines, axes=axes, across=(loss, "raw")))
    return panels(*found.values())
