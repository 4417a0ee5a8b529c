# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench means``: the error of compressed means by the number of ranks, and what it does."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any

import numpy as np

from .... import PLANES, Codec
from ....collectives import ErrorFeedback, Parts, statistics
from ....commands import report
from ....commands.codec_option import CodecOption, ModeOption, chosen
from ....commands.console import new_progress
from ....layers.parameter_server import MomentumSGD
from ...study import Columns, Curve, Draw, Panel, Study, measurement, panels
from ...training import MLP, Floats, Trainer, train
from ...training.data import require_digits
from ...training.loop import mean_of
from ..common.data import one_thread
from .exchanges import Ring
from .grid import Row

RAW, COMPRESSED, FEEDBACK = "raw", "mean", "mean, feedback"
HIDDEN, RATE, MOMENTUM, BATCH = (64,), 0.05, 0.9, 4
MOST_RANKS = 256

ERRORS: Columns[Row] = {
    "ranks": lambda row: str(row["ranks"]),
    "mean": lambda row: f"{row['mean']:.4f}",
    "mean, feedback": lambda row: f"{row['feedback']:.4f}",
    "energy that residuals\ndo not explain": lambda row: f"{row['unexplained']:.1e}",
    "bytes that dividing\nlast adds, %": lambda row: f"{100 * row['added_bytes']:.1f}",
}
TRAININGS: Columns[Row] = {
    "": lambda row: row["variant"],
    "test loss": lambda row: f"{row['losses'][-1]:.4f}",
    "accuracy, %": lambda row: f"{100 * row['accuracy']:.1f}",
}


@measurement("means", plot=True)
def means(
    study: Study,
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
) -> None:
    """Measure the error of compressed means by ranks, with and without error feedback; accuracy of trainings.

    About five minutes, with --quick some seconds.

    Ranks are threads of this process and call the all-reduce itself, a ring with scale auto. A perceptron
    learns scikit-learn's digits by momentum, with 4 samples per rank and step. The first table takes the
    gradients of its exact training.
    """
    numbers = report.numbers(ranks, 2, MOST_RANKS, "--ranks")
    coder = Codec(2.0**-bound, *chosen(codec, mode, PLANES), threads=1)
    require_digits()
    with new_progress(study.console) as progress, one_thread():
        task = progress.add_task("", total=steps * len(numbers) + 3 * training_steps)

        def tick(text: str) -> None:
            progress.update(task, advance=1, description=text)

        errors = [errors_of(coder, number, steps, seed, tick) for number in numbers]
        trainings = [
            trained(variant, coder, numbers[-1], training_steps, seed, tick)
            for variant in (RAW, COMPRESSED, FEEDBACK)
        ]
    study.conditions.append(f"{coder.name}, ring; MLP 64-{HIDDEN[0]}-10, {BATCH} samples per rank")
    study.table(f"Relative error of the means, accumulated over {steps} steps", ERRORS, errors)
    study.table(f"{numbers[-1]} ranks, {training_steps} steps", TRAININGS, trainings)
    study.facts |= {
        "codec": coder.name, "error_steps": steps, "training_steps": training_steps, "batch": BATCH,
        "rate": RATE, "momentum": MOMENTUM, "errors": errors, "trainings": trainings,
    }  # fmt: skip
    study.rows = [{"what": "error", **row} for row in errors] + [
        {"what": "training", "variant": row["variant"], "ranks": row["ranks"], "accuracy": row["accuracy"],
         "loss": row["losses"][-1]} for row in trainings
    ]  # fmt: skip
    study.plot(curves(errors, trainings), 9, 3.6)


def _trainer(ranks: int, seed: int) -> Trainer:
    return Trainer(MLP(64, HIDDEN), MomentumSGD(RATE, MOMENTUM), ranks, BATCH, seed)


def errors_of(codec: Codec, ranks: int, steps: int, seed: int, tick: Callable[[str], None]) -> Row:
    """Measure means of a number of ranks, accumulated over all steps.

    ``mean`` and ``feedback`` are their distance from the exact sum over the steps, relative to its length.
    ``added_bytes`` is what dividing after the last compression adds to the bytes of a call, as a share.
    ``unexplained`` is the share of the exact sum's energy that is in neither the means with feedback nor the
    last residuals.
    """
    trainer = _trainer(ranks, seed)
    total = np.zeros((3, trainer.weights.size))
    added = 0
    with closing(Ring(ranks)) as exact, closing(Ring(ranks, codec)) as plain:
        with closing(Ring(ranks, codec, ErrorFeedback)) as fed:
            for step in range(steps):
                gradients = trainer.gradients(step)
                before = statistics(plain.transports[0])
                found = [ring(gradients) for ring in (exact, plain, fed)]
                scale = statistics(plain.transports[0]).since(before).scale or 0
                added += added_by_dividing_last(codec, scale, found[1], ranks)
                total += found
                trainer.apply(found[0], step)
                tick(f"errors of {ranks} ranks")
        bytes_sent = sum(transport.bytes_sent for transport in plain.transports)
        rest = mean_of(np.stack([memory.residual("") for memory in fed.memories]))
    length = float(np.linalg.norm(total[0])) or 1.0
    alone, with_feedback, with_rest = (
        float(np.linalg.norm(other - total[0])) / length for other in (total[1], total[2], total[2] + rest)
    )
    return {
        "ranks": ranks, "mean": alone, "feedback": with_feedback,
        "added_bytes": added / (bytes_sent - added) if added else 0.0, "unexplained": with_rest**2,
    }  # fmt: skip


def added_by_dividing_last(codec: Codec, scale: int, mean: Floats, ranks: int) -> int:
    """Return the bytes that a call sends more than if the quotient went round in place of the sum.

    Each of the ranks' blocks passes ``ranks - 1`` links in the second half of a ring. The other call is a
    model: the same one, with the mean's streams in that half.
    """
    coder, total = codec.scaled(scale), mean * np.float32(ranks)
    blocks = [Parts(mean.size, ranks).block(rank) for rank in range(ranks)]
    sizes = [sum(len(coder.compress(values[block])) for block in blocks) for values in (total, mean)]
    return (ranks - 1) * (sizes[0] - sizes[1])


def trained(
    variant: str, codec: Codec, ranks: int, steps: int, seed: int, tick: Callable[[str], None]
) -> dict[str, Any]:
    """Train through all-reduces: ``losses`` of the test set by step, and the final ``accuracy``, 0..1."""
    trainer, losses = _trainer(ranks, seed), []

    def after(step: int) -> None:
        losses.append(trainer.loss())
        tick(f"training of {ranks} ranks: {variant}")

    memory = ErrorFeedback if variant == FEEDBACK else None
    with closing(Ring(ranks, None if variant == RAW else codec, memory)) as ring:
        train(trainer, steps, ring, after=after)
    return {"variant": variant, "ranks": ranks, "losses": losses, "accuracy": trainer.accuracy()}


def curves(errors: Sequence[Row], trainings: Sequence[Row]) -> Draw:
    """Plot errors by ranks, and the test loss by step of the trainings."""
    ranks = [row["ranks"] for row in errors]
    axes: Mapping[str, Any] = {"yscale": "log", "xlabel": "ranks", "ylabel": "relative error"}
    lines = [
        Curve(label, ranks, [row[name] for row in errors], "o-")
        for label, name in ((COMPRESSED, "mean"), (FEEDBACK, "feedback"))
    ]
    losses = [Curve(run["variant"], range(1, len(run["losses"]) + 1), run["losses"]) for run in trainings]
    title = f"{trainings[0]['ranks']} ranks"
    return panels([
        Panel(curves=lines, axes={**axes, "xscale": "log", "xticks": ranks, "xticklabels": ranks}),
        Panel(curves=losses, axes={**axes, "xlabel": "step", "ylabel": "test loss", "title": title}),
    ])  # fmt: skip
