# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench means``: the error of compressed means by the number of ranks, and what it does."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np

from .... import PLANES, Codec
from ....collectives import MEAN, ErrorFeedback, Parts, allreduce_comp, statistics
from ....commands import report
from ....commands.codec_option import CodecOption, ModeOption, chosen
from ....commands.console import CsvFile, JsonFile, PlotFile, Table, new_figure, new_progress, write_plot
from ....transport import Transport
from ...training import MLP, Batches, Floats, Momentum, digits, flatten, unflatten
from ...training.data import require_digits
from ..common.data import one_thread
from ..common.threads import on_ranks

RAW, COMPRESSED, FEEDBACK = "raw", "mean", "mean, feedback"
HIDDEN, RATE, MOMENTUM, BATCH = (64,), 0.05, 0.9, 4
MOST_RANKS = 256

T = TypeVar("T")


@dataclass
class Errors:
    """Means of ``ranks`` ranks, accumulated over all steps.

    ``mean`` and ``feedback`` are their distance from the exact sum over the steps, relative to its length.
    ``added_bytes`` is what dividing after the last compression adds to the bytes of a call, as a share.
    ``unexplained`` is the share of the exact sum's energy that is in neither the means with feedback nor the
    last residuals.
    """

    ranks: int
    mean: float
    feedback: float
    added_bytes: float
    unexplained: float


@dataclass
class Training:
    """One training through all-reduces: losses of the test set by step, and the final accuracy (0..1)."""

    variant: str
    ranks: int
    losses: list[float] = field(default_factory=list)
    accuracy: float = 0.0


def means(
    ranks: Annotated[
        str, report.listed("Numbers of simulated ranks; the largest also trains.")
    ] = "4,8,16,64",
    steps: Annotated[int, report.whole(1, 100_000, "Steps over which errors accumulate.")] = 40,
    training_steps: Annotated[int, report.whole(1, 100_000, "Steps of each training.")] = 150,
    bound: report.Bound = 10,
    codec: CodecOption = None,
    mode: ModeOption = None,
    seed: report.FirstSeed = 0,
    quick: Annotated[bool, report.quick(ranks="4,8", steps=10, training_steps=20)] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    plot: PlotFile = None,
) -> None:
    """Measure the error of compressed means by ranks, with and without error feedback; accuracy of trainings.

    About five minutes, with --quick some seconds.

    Ranks are threads of this process and call the all-reduce itself, a ring with scale auto. A perceptron
    learns scikit-learn's digits by momentum, with 4 samples per rank and step. The first table takes the
    gradients of its exact training.
    """
    out = report.Report(seed, json_file, csv_file, plot)
    numbers = report.numbers(ranks, 2, MOST_RANKS, "--ranks")
    coder = Codec(2.0**-bound, *chosen(codec, mode, PLANES), threads=1)
    require_digits()
    with new_progress(out.console) as progress, one_thread():
        task = progress.add_task("", total=steps * len(numbers) + 3 * training_steps)

        def tick(text: str) -> None:
            progress.update(task, advance=1, description=text)

        errors = [on_ranks(n, partial(_errors, coder, steps, seed, tick))[0] for n in numbers]
        trainings = [
            on_ranks(max(numbers), partial(_train, variant, coder, training_steps, seed, tick))[0]
            for variant in (RAW, COMPRESSED, FEEDBACK)
        ]
    out.show_conditions(f"{coder.name}, scale auto, ring; MLP 64-{HIDDEN[0]}-10, {BATCH} samples per rank")
    out.show([errors_table(errors, steps), trainings_table(trainings, training_steps)])
    facts = {
        "bench": "means", "codec": coder.name, "error_steps": steps, "training_steps": training_steps,
        "batch": BATCH, "rate": RATE, "momentum": MOMENTUM,
        "errors": [asdict(row) for row in errors], "trainings": [asdict(row) for row in trainings],
    }  # fmt: skip
    rows = [{"what": "error", **asdict(row)} for row in errors] + [
        {"what": "training", "variant": row.variant, "ranks": row.ranks, "accuracy": row.accuracy,
         "loss": row.losses[-1]} for row in trainings
    ]  # fmt: skip
    out.write(facts, rows, lambda path: draw(path, errors, trainings))


class _Worker:
    """A rank's model, samples and optimizer. All ranks hold the same weights."""

    def __init__(self, transport: Transport, seed: int) -> None:
        self.rank = transport.rank
        self.model, self.data = MLP(64, HIDDEN), digits(seed)
        self._batches = Batches(self.data.train, BATCH, transport.rank, transport.size, seed)
        self._shapes = self.model.initial(seed)
        self._weights = flatten(self._shapes)
        self._change = Momentum(RATE, MOMENTUM)

    def gradient(self, step: int) -> Floats:
        """Return this rank's gradient, flat."""
        return flatten(self.model.gradients(self.parameters, self._batches.at(step)))

    def apply(self, mean: Floats) -> None:
        """Take a step of momentum."""
        self._weights += self._change(mean)

    @property
    def parameters(self) -> dict[str, Floats]:
        """The weights by key."""
        return unflatten(self._weights, self._shapes)


def _errors(
    codec: Codec, steps: int, seed: int, tick: Callable[[str], None], transport: Transport
) -> Errors:  # fmt: skip
    worker, memory = _Worker(transport, seed), ErrorFeedback(codec)
    exact, mean, fed = (np.empty(worker.gradient(0).size, np.float32) for _ in range(3))
    total = np.zeros((3, exact.size))
    bytes_sent = added = 0
    for step in range(steps):
        gradient = worker.gradient(step)
        allreduce_comp(transport, gradient, exact, MEAN, path="off")
        before = statistics(transport)
        allreduce_comp(transport, gradient, mean, MEAN, codec=codec, path="software")
        call = statistics(transport).since(before)
        allreduce_comp(
            transport, gradient, fed, MEAN, codec=codec, path="software", feedback=(memory, "gradient")
        )
        bytes_sent += sum(transport.exchange(call.bytes_sent))
        if transport.rank == 0:
            added += added_by_dividing_last(codec, call.scale or 0, mean, transport.size)
            total += (exact, mean, fed)
            tick(f"errors of {transport.size} ranks")
        worker.apply(exact)
    length = float(np.linalg.norm(total[0])) or 1.0
    rest = np.empty_like(exact)
    allreduce_comp(transport, memory.residual("gradient"), rest, MEAN, path="off")
    alone, with_feedback, with_rest = (
        float(np.linalg.norm(other - total[0])) / length for other in (total[1], total[2], total[2] + rest)
    )
    share = added / (bytes_sent - added) if added else 0.0
    return Errors(transport.size, alone, with_feedback, share, with_rest**2)


def added_by_dividing_last(codec: Codec, scale: int, mean: Floats, ranks: int) -> int:
    """Return the bytes that a call sends more than if the quotient went round in place of the sum.

    Each of the ranks' blocks passes ``ranks - 1`` links in the second half of a ring. The other call is a
    model: the same one, with the mean's streams in that half.
    """
    coder, total = codec.scaled(scale), mean * np.float32(ranks)
    blocks = [Parts(mean.size, ranks).block(rank) for rank in range(ranks)]
    sizes = [sum(len(coder.compress(values[block])) for block in blocks) for values in (total, mean)]
    return (ranks - 1) * (sizes[0] - sizes[1])


def _train(
    variant: str, codec: Codec, steps: int, seed: int, tick: Callable[[str], None], transport: Transport
) -> Training:
    worker, run = _Worker(transport, seed), Training(variant, transport.size)
    settings: dict[str, Any] = {"codec": codec, "path": "off" if variant == RAW else "software"}
    if variant == FEEDBACK:
        settings["feedback"] = ErrorFeedback(codec), "gradient"
    mean = np.empty_like(worker.gradient(0))
    for step in range(steps):
        allreduce_comp(transport, worker.gradient(step), mean, MEAN, **settings)
        worker.apply(mean)
        if transport.rank == 0:
            run.losses.append(worker.model.loss(worker.parameters, worker.data.test))
            tick(f"training of {transport.size} ranks: {variant}")
    run.accuracy = worker.model.accuracy(worker.parameters, worker.data.test)
    return run


def errors_table(errors: Sequence[Errors], steps: int) -> Table:
    """Tabulate one line per number of ranks."""
    table = Table(
        f"Relative error of the means, accumulated over {steps} steps",
        "ranks", "mean", "mean, feedback", "energy that residuals\ndo not explain",
        "bytes that dividing\nlast adds, %",
    )  # fmt: skip
    for row in errors:
        table.add_row(
            str(row.ranks), f"{row.mean:.4f}", f"{row.feedback:.4f}", f"{row.unexplained:.1e}",
            f"{100 * row.added_bytes:.1f}",
        )  # fmt: skip
    return table


def trainings_table(trainings: Sequence[Training], steps: int) -> Table:
    """Tabulate one line per variant."""
    table = Table(f"{trainings[0].ranks} ranks, {steps} steps", "", "test loss", "accuracy, %")
    for run in trainings:
        table.add_row(run.variant, f"{run.losses[-1]:.4f}", f"{100 * run.accuracy:.1f}")
    return table


def draw(path: Path, errors: Sequence[Errors], trainings: Sequence[Training]) -> None:
    """Plot errors by ranks, and the test loss by step of the trainings."""
    figure = new_figure(9, 3.6)
    left, right = figure.subplots(1, 2)
    ranks = [row.ranks for row in errors]
    left.plot(ranks, [row.mean for row in errors], "o-", label=COMPRESSED)
    left.plot(ranks, [row.feedback for row in errors], "o-", label=FEEDBACK)
    left.set(xscale="log", yscale="log", xlabel="ranks", ylabel="relative error")
    left.set_xticks(ranks, map(str, ranks))
    left.minorticks_off()
    left.legend()
    for run in trainings:
        right.plot(range(1, len(run.losses) + 1), run.losses, label=run.variant)
    right.set(yscale="log", xlabel="step", ylabel="test loss", title=f"{trainings[0].ranks} ranks")
    right.legend()
    write_plot(path, figure)
