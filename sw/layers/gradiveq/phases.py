# SPDX-License-Identifier: BSD-2-Clause
"""When GradiVeQ compresses (Sec. 3 and Fig. 6): a warm-up, then sampling and compressed phases by turns."""

from __future__ import annotations

from collections import deque
from typing import Literal

Phase = Literal["warm-up", "sampling", "compressed"]

WINDOW = 10
"""Steps over which a worker averages its local loss before it votes; the paper names no number."""


class Phases:
    """The phase of each step; the same at all workers if they are told the same.

    ``warm_up``, ``sampling`` (L_t), ``compressed``: steps of each; the last two are 100 and 400 in the paper.
    A compressed phase also ends when more than half of the workers vote for it. ``ValueError`` for fewer than
    2 sampling steps, 1 compressed one, or 0 of warm-up.

    ``phase``: of the present step. ``history``: phases and the steps that they began at.
    """

    def __init__(self, warm_up: int, sampling: int, compressed: int, limit: float | None = None) -> None:
        for name, steps, least in (
            ("warm_up", warm_up, 0), ("sampling", sampling, 2), ("compressed", compressed, 1)
        ):  # fmt: skip
            if isinstance(steps, bool) or not isinstance(steps, int) or steps < least:
                raise ValueError(f"{name} must be at least {least} steps, not {steps!r}")
        if limit is not None and not limit > 0:
            raise ValueError(f"loss_limit must be above 0, not {limit!r}")
        self.lengths: dict[Phase, int] = {
            "warm-up": warm_up, "sampling": sampling, "compressed": compressed
        }  # fmt: skip
        self.limit = limit
        self.phase: Phase = "warm-up" if warm_up else "sampling"
        self.history: list[tuple[Phase, int]] = [(self.phase, 0)]
        self._left = self.lengths[self.phase]
        self._step = 0
        self._losses: deque[float] = deque(maxlen=WINDOW)

    @property
    def vote(self) -> bool:
        """Whether this worker's local loss, averaged over ten steps of this phase, is above the limit."""
        full = len(self._losses) == self._losses.maxlen
        return self.limit is not None and full and sum(self._losses) / len(self._losses) > self.limit

    def note(self, loss: float) -> None:
        """Takes the local loss of a compressed step (eq. 7)."""
        self._losses.append(loss)

    def begin(self, votes: int, workers: int) -> tuple[Phase, bool]:
        """Begins a step: its phase, and whether it is the first one of it."""
        changed = False
        over = self.phase == "compressed" and 2 * votes > workers
        if not self._left or over:
            self.phase = "compressed" if self.phase == "sampling" else "sampling"
            self._left = self.lengths[self.phase]
            self._losses.clear()
            self.history.append((self.phase, self._step))
            changed = True
        self._left -= 1
        self._step += 1
        return self.phase, changed
