# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench halves``: trainings whose gradients are bfloat16, raw and compressed."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Annotated

import numpy as np

from .... import converted
from ....commands import report
from ....commands.console import tracked
from ...study import Study, measurement
from ...training import Floats, Parameters, count_of
from ...training.loop import OPTIMIZERS
from ..common.data import one_thread
from .exchanges import AUTO, TENSOR, Compressor, Simulated, planes
from .grid import Case, Row, average, crossed, require
from .rivals import RIVALS

RANKS = 4
MODELS = ("cnn", "transformer")
RAW = "bfloat16, raw"


def rounded(values: Floats) -> Floats:
    """Return the nearest bfloat16 values, as float32."""
    return converted(converted(values, "bfloat16"), patterns=True)


class RawRing:
    """A ring that sends bfloat16 and rounds each partial sum to it."""

    def __call__(self, wanted: Floats) -> Floats:
        """Return the sum, and zeros for all ranks but the first."""
        kept = np.zeros_like(wanted)
        for own in wanted:
            kept[0] = rounded(kept[0] + own)
        return kept

    def sent(self, kept: Floats) -> float:
        """Return the bytes that a rank of a ring sends for as many bfloat16 values."""
        return 4 * kept.shape[1] * (len(kept) - 1) / len(kept)


class Halves:
    """Gradients that every rank rounds to bfloat16 before a compressor, and means that are rounded to it."""

    def __init__(self, inner: Compressor) -> None:
        self._inner = inner
        self._kept: Floats = np.zeros((1, 1), np.float32)

    def __call__(self, wanted: Floats) -> Floats:
        """Return the mean in the place of every rank's values."""
        self._kept = self._inner(rounded(wanted))
        mean = rounded(self._kept.sum(axis=0) / np.float32(len(wanted)))
        return np.broadcast_to(mean, wanted.shape)

    def sent(self, kept: Floats) -> float:
        """Return the bytes by rank."""
        return self._inner.sent(self._kept)


class OfOwn:
    """A rival that codes each rank's gradient; a ring is taken to send sums in as many bytes."""

    def __init__(self, inner: Compressor) -> None:
        self._inner = inner

    def __call__(self, wanted: Floats) -> Floats:
        """Return what arrives."""
        return self._inner(wanted)

    def sent(self, kept: Floats) -> float:
        """Return the bytes by rank."""
        return 2 * self._inner.sent(kept) * (len(kept) - 1) / len(kept)


_INT4 = next(rival for rival in RIVALS if rival.name.startswith("int4"))
FORMS: dict[str, Callable[[Parameters], Compressor]] = {
    RAW: lambda shapes: RawRing(),
    "planes 2^-10": partial(planes, 10, AUTO),
    "planes 2^-12": partial(planes, 12, AUTO),
    "planes 2^-10, scale per tensor": partial(planes, 10, TENSOR),
    _INT4.name: lambda shapes: OfOwn(_INT4.prepare(shapes)),
}
"""The forms of gradients that are compared, by their names in the tables."""


@measurement("halves")
def halves(
    study: Study,
    steps: Annotated[int, report.whole(20, 100_000, "Steps of each training.")] = 200,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each kind.")] = 3,
    seed: report.FirstSeed = 0,
    quick: Annotated[bool, report.quick(steps=20, seeds=1)] = False,
) -> None:
    """Train with gradients of bfloat16: by a raw ring, by planes at several bounds, and by int4.

    About ten minutes, with --quick some seconds. Needs torch.

    A small CNN and a transformer learn scikit-learn's digits with four ranks, by momentum and by Adam. Every
    rank rounds its gradient to bfloat16, and the mean is rounded to it. No error feedback. The sums of planes
    and of int4 are made in float32, those of the raw ring are rounded at each rank.
    """
    require(MODELS, OPTIMIZERS)
    rows = []
    jobs = list(product(range(seed, seed + seeds), MODELS, OPTIMIZERS, FORMS))
    with one_thread():
        for each, model, optimizer, form in tracked(
            study.console, jobs, lambda job: f"{job[1]}, seed {job[0]}"
        ):
            rows.append(trained(Case(model, optimizer, RANKS, each), form, steps))
    study.conditions.append(f"{RANKS} ranks, {steps} steps, {seeds} seed(s), gradients of bfloat16")
    title = "Test loss (accuracy, ratio over raw bfloat16)"
    study.show(crossed(title, rows, {"": itemgetter("form")}, "{model},\n{optimizer}".format_map, said))
    study.rows = rows
    study.facts |= {"ranks": RANKS, "training_steps": steps, "trainings": rows}


def trained(case: Case, form: str, steps: int) -> Row:
    """Train in one form. ``ratio``: of raw bfloat16 bytes to those sent."""
    shapes = case.shapes
    found = case.train(steps, Simulated(Halves(FORMS[form](shapes))))
    ratio = 4 * count_of(shapes) * (RANKS - 1) / RANKS / found.pop("sent")
    name = {"model": case.model, "optimizer": case.optimizer, "seed": case.seed}
    return {"form": form, **name, **found, "ratio": ratio}


def said(rows: Sequence[Row]) -> str:
    """Return the means of a group as text."""
    loss, accuracy, ratio = (average(rows, name) for name in ("loss", "accuracy", "ratio"))
    return f"{loss:.4f} ({accuracy:.2%}, {ratio:.2f})"
