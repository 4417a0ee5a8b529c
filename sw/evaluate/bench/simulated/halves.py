# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench halves``: trainings whose gradients are bfloat16, raw and compressed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Annotated

import numpy as np

from .... import Codec, converted
from ....commands import report
from ....commands.console import CsvFile, JsonFile, Table, tracked
from ...training import Floats, Parameters
from ...training.data import require_digits
from ..common.data import one_thread
from .planes import AUTO, TENSOR, Ours
from .rivals import RIVALS
from .training import OPTIMIZERS, Compressor, Workers, train

RANKS = 4
MODELS = ("cnn", "transformer")
RAW = "bfloat16, raw"


@dataclass(frozen=True)
class Training:
    """Cross-entropy (nats) and accuracy of the test set; ``ratio``: of raw bfloat16 bytes to those sent."""

    form: str
    model: str
    optimizer: str
    seed: int
    loss: float
    accuracy: float
    ratio: float


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


def _planes(k: int, scale: str) -> Callable[[Parameters], Compressor]:
    return lambda shapes: Ours(Codec(2.0**-k, "planes", threads=1), scale, shapes)


_INT4 = next(rival for rival in RIVALS if rival.name.startswith("int4"))
FORMS: dict[str, Callable[[Parameters], Compressor]] = {
    RAW: lambda shapes: RawRing(),
    "planes 2^-10": _planes(10, AUTO),
    "planes 2^-12": _planes(12, AUTO),
    "planes 2^-10, scale per tensor": _planes(10, TENSOR),
    _INT4.name: lambda shapes: OfOwn(_INT4.prepare(shapes)),
}
"""The forms of gradients that are compared, by their names in the tables."""


def halves(
    steps: Annotated[int, report.whole(20, 100_000, "Steps of each training.")] = 200,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each kind.")] = 3,
    seed: report.FirstSeed = 0,
    quick: Annotated[bool, report.quick(steps=20, seeds=1)] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
) -> None:
    """Train with gradients of bfloat16: by a raw ring, by planes at several bounds, and by int4.

    About ten minutes, with --quick some seconds.

    A small CNN and a transformer learn scikit-learn's digits with four ranks, by momentum and by Adam. Every
    rank rounds its gradient to bfloat16, and the mean is rounded to it. No error feedback. The sums of planes
    and of int4 are made in float32, those of the raw ring are rounded at each rank.
    """
    out = report.Report(seed, json_file, csv_file)
    require_digits()
    found = []
    jobs = list(product(range(seed, seed + seeds), MODELS))
    with one_thread():
        for each, model in tracked(out.console, jobs, lambda job: f"{job[1]}, seed {job[0]}"):
            workers = Workers(model, RANKS, each)
            for optimizer, form in product(OPTIMIZERS, FORMS):
                found.append(trained(workers, form, model, optimizer, each, steps))
    out.show_conditions(f"{RANKS} ranks, {steps} steps, {seeds} seed(s), gradients of bfloat16")
    out.show([table_of(found)])
    rows = [asdict(row) for row in found]
    out.write({"bench": "halves", "ranks": RANKS, "training_steps": steps, "trainings": rows}, rows)


def trained(workers: Workers, form: str, model: str, optimizer: str, seed: int, steps: int) -> Training:
    """Train a model in one form."""
    result = train(workers, optimizer, steps, Halves(FORMS[form](workers.shapes)), seed=seed)
    size = sum(values.size for values in workers.shapes.values())
    raw = 4 * size * (RANKS - 1) / RANKS
    return Training(form, model, optimizer, seed, result.loss, result.accuracy, raw / result.sent)


def table_of(found: Sequence[Training]) -> Table:
    """Tabulate the means over seeds: ratio, test loss and accuracy."""
    cases = list(dict.fromkeys((row.model, row.optimizer) for row in found))
    headings = [f"{model},\n{optimizer}" for model, optimizer in cases]
    table = Table("Test loss (accuracy, ratio over raw bfloat16)", "", *headings)
    for form in FORMS:
        cells = []
        for case in cases:
            own = [row for row in found if (row.form, row.model, row.optimizer) == (form, *case)]
            loss, accuracy, ratio = (
                float(np.mean([getattr(row, name) for row in own])) for name in ("loss", "accuracy", "ratio")
            )
            cells.append(f"{loss:.4f} ({accuracy:.2%}, {ratio:.2f})")
        table.add_row(form, *cells)
    return table
