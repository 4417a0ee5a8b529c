# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench feedback --spikes``: what error feedback returns after a step that was not applied."""

from collections.abc import Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any

import numpy as np

from .... import Codec
from ....collectives import ErrorFeedback
from ....commands.console import Table
from ...training import Floats
from .exchanges import Ring
from .grid import Case, Row, average, crossed

RANKS, SPIKING = 4, 1
FIRST, APART = 20, 20
"""The step of the first spike, and the steps from one to the next."""
LEAST_STEPS = FIRST + 4
CLIPPED = 1.0
"""The norm to which means are clipped."""
LOSS_SCALE = 2.0**10
"""The factor of a loss scaler at first. It is halved at a mean that is not finite, whose step is skipped."""
EVENTS = {
    "none": (0.0, "apply", 1),
    "1e3, skipped": (1e3, "skip", 1),
    "1e6, skipped": (1e6, "skip", 1),
    "1e6, three skipped in a row": (1e6, "skip", 3),
    "1e3, clipped": (1e3, "clip", 1),
    "1e6, clipped": (1e6, "clip", 1),
    "inf, loss scaler": (1.0, "inf", 1),
    "inf beside 1e6, loss scaler": (1e6, "inf", 1),
}
"""By what a rank's gradients are multiplied, what the program does with the mean, and for how many steps."""


class Unlimited(ErrorFeedback):
    """Residuals that are never limited nor dropped."""

    def _limit(self, left: Floats, bound: float, scaling: Any, usual: Any) -> None:
        pass

    def finish(self, name: Any, scaling: Any, result: Any) -> None:
        self.usual[name] = scaling


class ByLast(ErrorFeedback):
    """The usual scale is the last call's."""

    def _learn(self, name: Any, scaling: Any, result: Any) -> None:
        self.usual[name] = scaling


class Clamped(ByLast):
    """Residuals are limited to what the last scale would have left, at every rise."""

    def _limit(self, left: Floats, bound: float, scaling: Any, usual: Any) -> None:
        most = np.float32(bound * 2.0 ** -usual.scales[0])
        np.clip(left, -most, most, out=left)


class Dropped(ByLast):
    """Residuals are dropped where the exponent has risen by k/2 or more."""

    def _limit(self, left: Floats, bound: float, scaling: Any, usual: Any) -> None:
        if bound * 4.0 ** (usual.scales[0] - scaling.scales[0]) >= 1:
            left[...] = 0


RULES: dict[str, type[ErrorFeedback] | None] = {
    "raw": None,
    "nothing": Unlimited,
    "limited by the last scale": Clamped,
    "dropped at k/2": Dropped,
    "default": ErrorFeedback,
}


def trained(optimizer: str, event: str, rule: str, k: int, seed: int, steps: int) -> dict[str, Any]:
    """Train with a spike every `APART` steps, by all-reduces of `RANKS` threads.

    ``after``: the largest norm of a step after a spike over that of the step before it.
    """
    factor, action, length = EVENTS[event]
    trainer = Case("mlp", optimizer, RANKS, seed).trainer()
    memory = RULES[rule]
    codec = None if memory is None else Codec(2.0**-k, "planes", threads=1)
    scale, norms = LOSS_SCALE if action == "inf" else 1.0, []
    with closing(Ring(RANKS, codec, memory)) as ring:
        for step in range(steps):
            spike = factor and step >= FIRST and step % APART < length
            gradients = trainer.gradients(step) * np.float32(scale)
            if spike:
                gradients[SPIKING] *= np.float32(factor)
                if action == "inf":
                    gradients[SPIKING, 7] = np.inf
            mean = ring(gradients) / np.float32(scale)
            norms.append(float(np.linalg.norm(mean)))
            if action == "inf" and not np.isfinite(norms[-1]):
                scale /= 2
            elif not (spike and action == "skip"):
                if action == "clip":
                    mean *= np.float32(min(1, CLIPPED / norms[-1]))
                trainer.apply(mean, step)
    after = max(norms[step + length] / norms[step - 1] for step in range(FIRST, steps - length, APART))
    return {
        "optimizer": optimizer, "event": event, "rule": rule, "k": k, "seed": seed, "after": after,
        "loss": trainer.loss(), "accuracy": trainer.accuracy(),
    }  # fmt: skip


def said(rows: Sequence[Row]) -> str:
    """Return the means of a group as text."""
    after, loss, accuracy = (average(rows, name) for name in ("after", "loss", "accuracy"))
    return f"{after:.3g}; {loss:.3f}; {100 * accuracy:.1f}"


def table_of(found: Sequence[Row], k: int) -> Table:
    """Tabulate one line per optimizer and kind of spike: largest norm, loss and accuracy of each rule."""
    title = f"Bound 2**-{k}: norm after a spike over that before; test loss; accuracy, %"
    lines = {"optimizer": itemgetter("optimizer"), "spike": itemgetter("event")}
    return crossed(title, found, lines, itemgetter("rule"), said)
