# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench equal-error``: our codecs beside others at equal error, and at equal bytes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from operator import itemgetter
from statistics import geometric_mean
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from .... import MAX_K, Codec, CodecName
from ....commands import report
from ....commands.console import Table, tracked
from ....commands.study import Curve, Draw, Panel, Study, flat, measurement, panels
from ....commands.user_codec import UserCodec, user_codec
from ...training import Floats, Parameters, count_of
from ...training.loop import MODELS, OPTIMIZERS
from ..common.data import one_thread
from ..common.rows import Row, where
from .compressors import AUTO, RIVALS, Compressor, Simulated, of_stream, ours
from .grid import Case, crossed, require

Makers = Mapping[str, Callable[[Parameters], Compressor]]
"""As `RIVALS`."""
OURS: dict[str, CodecName] = {"planes": "planes", "bounded": "paper"}
"""Our codecs by their name in the tables."""
RANKS, EARLY, SIDE = 4, 10, 512
HALVINGS = 24
"""Steps of the search for an error."""


class Sample(NamedTuple):
    """One gradient, in the shapes of its tensors."""

    name: str
    seed: int
    shapes: Parameters
    values: Floats


@measurement("equal-error", plot=True)
def equal_error(
    study: Study,
    steps: Annotated[int, report.whole(20, 100_000, "Steps of each training.")] = 200,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each kind.")] = 1,
    seed: report.FirstSeed = 0,
    given: UserCodec = None,
    quick: Annotated[bool, report.quick(steps=30)] = False,
) -> None:
    """Compare our codecs with others: ratios at equal relative L2 error, losses at equal bytes.

    About four minutes a seed, with --quick half a minute. Needs torch.

    Gradients are of a perceptron, a CNN and a transformer, early and late in a training on scikit-learn's
    digits, and drawn from three distributions. Our bound and scale are searched until the error is the
    other's. Trainings have four ranks and error feedback; a byte is one of a rank's own gradient, and sums
    are exact for all codecs. Ours take the finest bound that needs no more bytes than the other. A codec of
    your own (--with) is one of the others, without a scale.
    """
    other = user_codec(given)
    if other is not None and other.name in RIVALS:
        raise typer.BadParameter(
            f"--with: this bench has a codec {other.name!r}, so yours needs another name"
        )
    rivals = RIVALS if other is None else {**RIVALS, other.name: of_stream(other)}
    require(MODELS, OPTIMIZERS)
    every = range(seed, seed + seeds)
    cases = [Case(*each) for each in product(MODELS, OPTIMIZERS, (RANKS,), every)]
    samples: list[Sample] = []
    losses: list[Row] = []
    with one_thread():
        for case in tracked(study.console, cases, "{0.model}, {0.optimizer}, seed {0.seed}".format):
            race = Race(case, steps, rivals)
            if case.optimizer == "adam":
                samples += race.samples()
            losses += map(race.against, rivals)
        samples += [sample for each in every for sample in drawn(each)]
        pairs = tracked(study.console, list(product(rivals, samples)), "equal error: {0[0]}".format)
        errors = [at_equal_error(rival, sample, rivals) for rival, sample in pairs]
    study.conditions.append(f"{RANKS} ranks, {steps} steps, {seeds} seed(s), error feedback; scale auto")
    study.show(*tables(errors, losses))
    study.rows = [flat(row) for row in (*errors, *losses)]
    study.facts |= {"ranks": RANKS, "training_steps": steps, "errors": errors, "losses": losses}
    study.plot(curves(errors), 11, 2.5 * -(-len({row["sample"] for row in errors}) // 3) + 0.6)


def drawn(seed: int) -> list[Sample]:
    """Draw one array from each of three distributions, the last two with heavy tails."""
    random, size = np.random.default_rng(seed), (SIDE, SIDE)
    found = {
        "normal": random.normal(size=size),
        "Laplace": random.laplace(size=size),
        "Student's t, 3": random.standard_t(3, size=size),
    }
    values = {name: (1e-3 * each).astype(np.float32) for name, each in found.items()}
    return [Sample(name, seed, {"": each}, each.reshape(-1)) for name, each in values.items()]


def relative_error(values: Floats, kept: Floats) -> float:
    """Return the L2 norm of the errors over that of the values."""
    return float(np.linalg.norm(np.subtract(kept, values, dtype=float)) / np.linalg.norm(values))


def at_equal_error(rival: str, sample: Sample, rivals: Makers = RIVALS) -> Row:
    """Measure a rival on a sample, and our ratios at its error; None: even our least error is larger."""
    compressor = rivals[rival](sample.shapes)
    for _ in range(3):  # PowerSGD's factors have converged then, as over the steps of a training
        kept, sent = compressor(sample.values[np.newaxis])
    error = relative_error(sample.values, kept[0])
    raw = sample.values.nbytes
    return {
        "rival": rival, "sample": sample.name, "seed": sample.seed, "error": error,
        "ratio": raw / sent(),
        **{name: ratio_at(error, codec, sample.values) for name, codec in OURS.items()},
    }  # fmt: skip


def ratio_at(error: float, codec: CodecName, values: Floats) -> float | None:
    """Return the ratio at which a codec has this relative error; None if it cannot have so small a one.

    Bounds are powers of two. Between them, and beyond, the values are scaled by any factor.
    """
    unit = values / np.abs(values).max()

    def at(fineness: float) -> tuple[float, float]:
        k = int(np.clip(np.ceil(fineness), 1, MAX_K))
        coder, scaled = Codec(2.0**-k, codec, threads=1), unit * np.float32(2 ** (fineness - k))
        return relative_error(scaled, coder.lossy(scaled)), values.nbytes / len(coder.compress(scaled))

    low, high = -8.0, MAX_K + 12.0
    if at(high)[0] > error:
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[0] > error else (low, middle)
    return at(high)[1]


class Race:
    """Trainings of one model without compression, with rivals, and with our codecs in no more bytes."""

    def __init__(self, case: Case, steps: int, rivals: Makers = RIVALS) -> None:
        self.case, self.shapes = case, case.shapes
        self._steps, self._rivals = steps, rivals
        self._seen: dict[int, Floats] = {}
        self._raw = case.train(steps, before=self._see)["loss"]
        self.ours = cache(self._ours)
        """Trains with our codec at a bound, once."""

    def _see(self, step: int, gradients: Floats) -> None:
        if step in (EARLY, self._steps // 2, self._steps - 1):
            self._seen[step] = gradients.copy()

    def samples(self) -> list[Sample]:
        """Return the first rank's gradients early and late in the training without compression."""
        return [
            Sample(f"{self.case.model}, {name}", self.case.seed, self.shapes, self._seen[step][0])
            for name, step in (("early", EARLY), ("late", self._steps - 1))
        ]

    def _train(self, compressor: Compressor) -> dict[str, float]:
        return self.case.train(self._steps, Simulated(compressor, feedback=True))

    def against(self, rival: str) -> Row:
        """Train with a rival, and with each of ours at the finest bound that needs no more bytes, 2**-k."""
        found = self._train(self._rivals[rival](self.shapes))
        finest = {name: self.finest(codec, found["sent"]) for name, codec in OURS.items()}
        ours = {name: {"k": k, "loss": self.ours(OURS[name], k)["loss"]} for name, k in finest.items() if k}
        return {
            "rival": rival, "model": self.case.model, "optimizer": self.case.optimizer,
            "seed": self.case.seed, "raw": self._raw, "loss": found["loss"],
            "ratio": 4 * count_of(self.shapes) / found["sent"], "ours": ours,
        }  # fmt: skip

    def _compressor(self, codec: CodecName, k: int) -> Compressor:
        return ours(Codec(2.0**-k, codec, threads=1), AUTO, self.shapes, of_sums=False)

    def _ours(self, codec: CodecName, k: int) -> dict[str, float]:
        return self._train(self._compressor(codec, k))

    def finest(self, codec: CodecName, most: float) -> int | None:
        """Return the largest k whose training sends at most ``most`` bytes, or None."""
        for k in range(MAX_K, 0, -1):
            compressor = self._compressor(codec, k)
            sizes = [compressor(gradients)[1]() for gradients in self._seen.values()]
            if np.mean(sizes) <= most and self.ours(codec, k)["sent"] <= most:
                return k
        return None


def _of_rivals(
    title: str, rows: Sequence[Row], column: Any, form: str, value: Callable[[Row], float | None],
    ratio: bool = False,
) -> Table:  # fmt: skip
    """Tabulate geometric means by rival and column, "-" where a value is None; with the rivals' ratios."""
    means = {
        rival: f"{geometric_mean(row['ratio'] for row in where(rows, rival=rival)):.2f}"
        for rival in dict.fromkeys(row["rival"] for row in rows)
    }
    lines = {"": lambda row: row["rival"], "ratio": lambda row: means[row["rival"]]}

    def cell(case: Sequence[Row]) -> str:
        known = [found for row in case if (found := value(row)) is not None]
        if len(known) < len(case):
            return "-"
        return form.format(0.0 if 0 in known else geometric_mean(known))  # a lossless codec has no error

    return crossed(title, rows, lines if ratio else {"": lines[""]}, column, cell, left=1)


def tables(errors: Sequence[Row], losses: Sequence[Row]) -> Iterator[Table]:
    """Tabulate geometric means: errors, losses over raw ones, ours at the same error and in no more bytes."""
    sample, case = "{sample}".format_map, "{model}, {optimizer}".format_map

    def gain(row: Row, name: str) -> float | None:
        return None if row[name] is None else row[name] / row["ratio"]

    def ours(row: Row, name: str) -> float | None:
        return row["ours"][name]["loss"] / row["loss"] if name in row["ours"] else None

    yield _of_rivals("Relative L2 error", errors, sample, "{:.2g}", itemgetter("error"), ratio=True)
    for name in OURS:
        title = f"Bytes at equal error over those of {name} (above 1: ours are fewer)"
        yield _of_rivals(title, errors, sample, "{:.2f}", partial(gain, name=name))
    title = "Test loss over that of raw gradients"
    yield _of_rivals(title, losses, case, "{:.3f}", lambda row: row["loss"] / row["raw"], ratio=True)
    for name in OURS:
        title = f"Test loss of {name} in no more bytes over the other's (below 1: planes is better)"
        yield _of_rivals(title, losses, case, "{:.3f}", partial(ours, name=name))


def curves(rows: Sequence[Row]) -> Draw:
    """Draw ratio over error on each sample of the first seed: every rival a point, ours the curves."""
    found = []
    for sample in dict.fromkeys(row["sample"] for row in rows):
        first = where(rows, sample=sample, seed=rows[0]["seed"])
        lines = []
        for name, style in zip(OURS, ("k-", "k:"), strict=True):
            known = sorted((row["error"], row[name]) for row in first if row[name] is not None)
            lines.append(Curve(name, [error for error, _ in known], [ratio for _, ratio in known], style))
        for at, row in enumerate(first):
            lines.append(Curve(row["rival"], [row["error"]], [row["ratio"]], f"C{at}o"))
        axes = {"xscale": "log", "yscale": "log", "title": sample, "xlabel": "relative L2 error",
                "ylabel": "ratio"}  # fmt: skip
        found.append(Panel(curves=lines, axes=axes))
    return panels(*(found[at : at + 3] for at in range(0, len(found), 3)), columns=6, sharey=True)
