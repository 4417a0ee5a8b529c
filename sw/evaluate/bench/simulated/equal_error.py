# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench equal-error``: our codecs beside others at equal error, and at equal bytes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated

import numpy as np
import typer

from .... import MAX_K, Codec, CodecName
from ....commands import report
from ....commands.console import CsvFile, JsonFile, PlotFile, Table, new_figure, new_progress, write_plot
from ...training import Floats, Parameters
from ...training.data import require_digits
from ..common.data import one_thread
from .planes import AUTO, Ours
from .rivals import RIVALS, Rival
from .training import MODELS, OPTIMIZERS, Compressor, Outcome, Workers, train

OURS: dict[str, CodecName] = {"planes": "planes", "bounded": "paper"}
"""Our codecs by their name in the tables."""
RANKS, EARLY, SIDE = 4, 10, 512
HALVINGS = 24
"""Steps of the search for an error."""


@dataclass(frozen=True)
class Sample:
    """One gradient, in the shapes of its tensors."""

    name: str
    seed: int
    shapes: Parameters
    values: Floats


@dataclass(frozen=True)
class EqualError:
    """A rival on a sample, and our ratios at its relative L2 error; None: even the least is larger."""

    rival: str
    sample: str
    seed: int
    error: float
    ratio: float
    planes: float | None
    bounded: float | None


@dataclass(frozen=True)
class Finest:
    """A training with our codec at the finest bound, 2**-k, that needs no more bytes than a rival."""

    k: int
    loss: float


@dataclass(frozen=True)
class EqualLoss:
    """Test losses of trainings with a rival, and with those of our codecs that can do with its bytes."""

    rival: str
    model: str
    optimizer: str
    seed: int
    raw: float
    loss: float
    ratio: float
    ours: dict[str, Finest] = field(default_factory=dict)


def equal_error(
    steps: Annotated[int, report.whole(20, 100_000, "Steps of each training.")] = 200,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each kind.")] = 1,
    with_feedback: Annotated[
        bool, typer.Option("--feedback/--no-feedback", help="Error feedback for every codec in trainings.")
    ] = True,
    seed: report.FirstSeed = 0,
    quick: Annotated[bool, report.quick(steps=30)] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    plot: PlotFile = None,
) -> None:
    """Compare our codecs with others: ratios at equal relative L2 error, losses at equal bytes.

    About four minutes a seed, with --quick half a minute.

    Gradients are of a perceptron, a CNN and a transformer, early and late in a training on scikit-learn's
    digits, and drawn from three distributions. Our bound and scale are searched until the error is the
    other's. Trainings have four ranks; a byte is one of a rank's own gradient, and sums are exact for all
    codecs. Ours take the finest bound that needs no more bytes than the other.
    """
    out = report.Report(seed, json_file, csv_file, plot)
    require_digits()
    cases = [
        (model, optimizer, each) for model in MODELS for optimizer in OPTIMIZERS
        for each in range(seed, seed + seeds)
    ]  # fmt: skip
    samples: list[Sample] = []
    losses: list[EqualLoss] = []
    with new_progress(out.console) as progress, one_thread():
        task = progress.add_task("", total=len(cases) * len(RIVALS) + len(RIVALS))
        for case in cases:
            race = Race(*case, steps=steps, feedback=with_feedback)
            if case[1] == "adam":
                samples += race.samples()
            for rival in RIVALS:
                progress.update(task, description=f"{case[0]}, {case[1]}, seed {case[2]}: {rival.name}")
                losses.append(race.against(rival))
                progress.advance(task)
        for each in range(seed, seed + seeds):
            samples += drawn(each)
        errors: list[EqualError] = []
        for rival in RIVALS:
            progress.update(task, advance=1, description=f"equal error: {rival.name}")
            errors += [at_equal_error(rival, sample) for sample in samples]
    fed = "with" if with_feedback else "without"
    out.show_conditions(f"{RANKS} ranks, {steps} steps, {seeds} seed(s), {fed} error feedback; scale auto")
    out.show([*error_tables(errors), *loss_tables(losses)])
    rows = [report.flat(asdict(row)) for row in errors] + [report.flat(asdict(row)) for row in losses]
    facts = {
        "bench": "equal-error", "ranks": RANKS, "training_steps": steps, "feedback": with_feedback,
        "errors": [asdict(row) for row in errors], "losses": [asdict(row) for row in losses],
    }  # fmt: skip
    out.write(facts, rows, lambda path: draw(path, errors))


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


def at_equal_error(rival: Rival, sample: Sample) -> EqualError:
    """Measure a rival on a sample, and our ratios at its error."""
    compressor = rival.prepare(sample.shapes)
    for _ in range(3):  # PowerSGD's factors have converged then, as over the steps of a training
        kept = compressor(sample.values[np.newaxis])
    error = relative_error(sample.values, kept[0])
    raw = sample.values.nbytes
    ours = {name: ratio_at(error, codec, sample.values) for name, codec in OURS.items()}
    return EqualError(rival.name, sample.name, sample.seed, error, raw / compressor.sent(kept), **ours)


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


class OwnBytes(Ours):
    """Our codec between simulated ranks, whose bytes are those of the ranks' own gradients."""

    def sent(self, kept: Floats) -> float:
        """Return the mean bytes of a rank's gradient."""
        return float(np.mean([len(self.codec.compress(row)) for row in kept * self._factors]))


class Race:
    """Trainings of one model without compression, with rivals, and with our codecs in no more bytes."""

    def __init__(self, model: str, optimizer: str, seed: int, *, steps: int, feedback: bool) -> None:
        self.case = (model, optimizer, seed)
        self._workers, self._steps, self._feedback = Workers(model, RANKS, seed), steps, feedback
        self._seen: dict[int, Floats] = {}
        self._raw = train(self._workers, optimizer, steps, seed=seed, seen=self._see)
        self._runs: dict[tuple[str, int], Outcome] = {}

    def _see(self, step: int, gradients: Floats) -> None:
        if step in (EARLY, self._steps // 2, self._steps - 1):
            self._seen[step] = gradients.copy()

    def samples(self) -> list[Sample]:
        """Return the first rank's gradients early and late in the training without compression."""
        return [
            Sample(f"{self.case[0]}, {name}", self.case[2], self._workers.shapes, self._seen[step][0])
            for name, step in (("early", EARLY), ("late", self._steps - 1))
        ]

    def _train(self, compressor: Compressor, feedback: bool) -> Outcome:
        _, optimizer, seed = self.case
        return train(self._workers, optimizer, self._steps, compressor, feedback, seed=seed)

    def against(self, rival: Rival) -> EqualLoss:
        """Train with a rival and with ours."""
        always = rival.name.startswith(("PowerSGD", "top-k"))  # they are defined with error feedback
        found = self._train(rival.prepare(self._workers.shapes), self._feedback or always)
        size = sum(values.size for values in self._workers.shapes.values())
        row = EqualLoss(rival.name, *self.case, self._raw.loss, found.loss, 4 * size / found.sent)
        for name, codec in OURS.items():
            k = self.finest(codec, found.sent)
            if k is not None:
                row.ours[name] = Finest(k, self._ours(codec, k).loss)
        return row

    def _compressor(self, codec: CodecName, k: int) -> OwnBytes:
        return OwnBytes(Codec(2.0**-k, codec, threads=1), AUTO, self._workers.shapes)

    def _ours(self, codec: CodecName, k: int) -> Outcome:
        if (codec, k) not in self._runs:
            self._runs[codec, k] = self._train(self._compressor(codec, k), self._feedback)
        return self._runs[codec, k]

    def finest(self, codec: CodecName, most: float) -> int | None:
        """Return the largest k whose training sends at most ``most`` bytes, or None."""
        for k in range(MAX_K, 0, -1):
            compressor = self._compressor(codec, k)
            sizes = [compressor.sent(compressor(gradients)) for gradients in self._seen.values()]
            if np.mean(sizes) <= most and self._ours(codec, k).sent <= most:
                return k
        return None


def error_tables(rows: Sequence[EqualError]) -> list[Table]:
    """Tabulate errors, and how many fewer bytes each of our codecs needs at the same error.

    They are geometric means over the seeds.
    """
    samples = list(dict.fromkeys(row.sample for row in rows))
    errors = Table("Relative L2 error", "", "ratio", *samples)
    gains = [
        Table(f"Bytes at equal error over those of {name} (above 1: ours are fewer)", "", *samples)
        for name in OURS
    ]
    for rival in dict.fromkeys(row.rival for row in rows):
        own = [row for row in rows if row.rival == rival]
        ratio = geometric_mean(row.ratio for row in own)
        by_sample = [[row for row in own if row.sample == sample] for sample in samples]
        means = [geometric_mean(row.error for row in case) for case in by_sample]
        errors.add_row(rival, f"{ratio:.2f}", *(f"{mean:.2g}" for mean in means))
        for table, name in zip(gains, OURS, strict=True):
            gained = [[(getattr(row, name), row.ratio) for row in case] for case in by_sample]
            table.add_row(rival, *map(_mean_gain, gained))
    return [errors, *gains]


def _mean_gain(ratios: Sequence[tuple[float | None, float]]) -> str:
    """Return the mean of our ratio over another as text, "-" where one of ours is None."""
    known = [ours / other for ours, other in ratios if ours is not None]
    return f"{geometric_mean(known):.2f}" if len(known) == len(ratios) else "-"


def loss_tables(rows: Sequence[EqualLoss]) -> list[Table]:
    """Tabulate the rivals' losses over raw ones, and those of ours in no more bytes over the rivals'."""
    cases = list(dict.fromkeys((row.model, row.optimizer) for row in rows))
    names = [f"{model}, {optimizer}" for model, optimizer in cases]
    losses = Table("Test loss over that of raw gradients", "", "ratio", *names)
    ours = [
        Table(f"Test loss of {name} in no more bytes over the other's (below 1: ours is better)", "", *names)
        for name in OURS
    ]
    for rival in dict.fromkeys(row.rival for row in rows):
        own = [row for row in rows if row.rival == rival]
        by_case = [[row for row in own if (row.model, row.optimizer) == case] for case in cases]
        means = [geometric_mean(row.loss / row.raw for row in case) for case in by_case]
        losses.add_row(rival, f"{geometric_mean(row.ratio for row in own):.2f}", *(f"{m:.3f}" for m in means))
        for table, name in zip(ours, OURS, strict=True):
            cells = []
            for case in by_case:
                known = [row.ours[name].loss / row.loss for row in case if name in row.ours]
                cells.append(f"{geometric_mean(known):.3f}" if len(known) == len(case) else "-")
            table.add_row(rival, *cells)
    return [losses, *ours]


def draw(path: Path, rows: Sequence[EqualError]) -> None:
    """Draw ratio over error on each sample of the first seed: every rival a point, ours the curves."""
    samples = list(dict.fromkeys(row.sample for row in rows))
    lines = -(-len(samples) // 3)
    figure = new_figure(11, 2.5 * lines + 0.6)
    panels = figure.subplots(lines, 3, sharey=True, squeeze=False).reshape(-1)
    for panel in panels[len(samples) :]:
        panel.remove()
    for panel, sample in zip(panels, samples, strict=False):
        first = {row.rival: row for row in rows if (row.sample, row.seed) == (sample, rows[0].seed)}
        own = sorted(first.values(), key=lambda row: row.error)
        for name, style in zip(OURS, ("k-", "k:"), strict=True):
            known = [(row.error, getattr(row, name)) for row in own if getattr(row, name) is not None]
            panel.plot(*zip(*known, strict=True), style, label=name)
        for at, rival in enumerate(RIVALS):
            row = first[rival.name]
            panel.plot(row.error, row.ratio, "o", color=f"C{at}", label=rival.name)
        panel.set(xscale="log", yscale="log", title=sample, xlabel="relative L2 error", ylabel="ratio")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    write_plot(path, figure)
