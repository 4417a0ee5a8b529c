# SPDX-License-Identifier: BSD-2-Clause
"""The phases of GradiVeQ: a warm-up, then sampling and compressed phases in turn (Sec. 3, Fig. 6)."""

from collections import deque
from typing import Any, Literal

from ...system.integers import integer
from ..fields import Fields

Phase = Literal["warm-up", "sampling", "compressed"]

WINDOW = 10
"""Steps over which a worker averages its local loss before it votes. The paper does not give this number."""


class Phases:
    """The phase of each step. It is equal at all workers if they pass equal arguments.

    ``warm_up``, ``sampling`` (L_t) and ``compressed`` are the steps of each phase; the last two are 100 and
    400 in the paper. A compressed phase also ends when more than half of the workers vote for it. Raises
    ``ValueError`` for fewer than 0 warm-up steps, 2 sampling steps or 1 compressed step, ``TypeError`` for
    numbers that are no integers.

    ``phase`` is that of the current step. ``history`` lists the phases and the steps at which they began.
    """

    def __init__(self, warm_up: int, sampling: int, compressed: int, limit: float | None = None) -> None:
        for name, steps, least in (
            ("warm_up", warm_up, 0), ("sampling", sampling, 2), ("compressed", compressed, 1)
        ):  # fmt: skip
            integer(name, steps, least, unit=" steps")
        if limit is not None and not limit > 0:
            raise ValueError(f"loss_limit must be above 0, not {limit!r}")
        self.lengths: dict[Phase, int] = {
            "warm-up": warm_up, "sampling": sampling, "compressed": compressed
        }  # fmt: skip
        self.limit = limit
        self.phase: Phase = "warm-up" if warm_up else "sampling"
        self.history: list[tuple[Phase, int]] = [(self.phase, 0)]
        self.left = self.lengths[self.phase]
        """Remaining steps of the current phase."""
        self._step = 0
        self._losses: deque[float] = deque(maxlen=WINDOW)

    @property
    def vote(self) -> bool:
        """True if this worker's local loss, averaged over ten steps of this phase, is above the limit."""
        full = len(self._losses) == self._losses.maxlen
        return self.limit is not None and full and sum(self._losses) / len(self._losses) > self.limit

    def note(self, loss: float) -> None:
        """Record the local loss of a compressed step (eq. 7)."""
        self._losses.append(loss)

    def begin(self, votes: int, workers: int) -> tuple[Phase, bool]:
        """Begin a step. Return its phase, and whether the step is the first of that phase."""
        changed = False
        over = self.phase == "compressed" and 2 * votes > workers
        if not self.left or over:
            self.phase = "compressed" if self.phase == "sampling" else "sampling"
            self.left = self.lengths[self.phase]
            self._losses.clear()
            self.history.append((self.phase, self._step))
            changed = True
        self.left -= 1
        self._step += 1
        return self.phase, changed

    @property
    def sampled(self) -> int:
        """Number of steps sampled so far for the next compressors."""
        return self.lengths["sampling"] - self.left if self.phase == "sampling" else 0

    def state_dict(self) -> dict[str, Any]:
        """Return the current phase and the history, for a checkpoint."""
        return {
            "phase": self.phase,
            "left": self.left,
            "step": self._step,
            "losses": list(self._losses),
            "history": [[phase, step] for phase, step in self.history],
        }

    def load_state_dict(self, state: Any) -> None:
        """Restore a `state_dict`. Raises ``ValueError`` naming the wrong field, and changes nothing then."""
        fields = Fields(state, ("phase", "left", "step", "losses", "history"))
        phase = next((known for known in self.lengths if known == fields["phase"]), None)
        if phase is None:
            raise ValueError(f"phase must be one of {', '.join(self.lengths)}, not {fields['phase']!r}")
        left, step = fields.integer("left", 0, self.lengths[phase]), fields.integer("step")
        losses, history = fields.items("losses"), fields.items("history")
        if len(losses) > WINDOW or not all(type(loss) is float and loss >= 0 for loss in losses):
            raise ValueError(f"losses must be at most {WINDOW} numbers of at least 0, not {losses!r}")
        if not history or not all(self._was(entry, step) for entry in history):
            raise ValueError(f"history must hold phases and the steps that they began at, not {history!r}")
        self.phase, self.left, self._step = phase, left, step
        self._losses = deque(losses, WINDOW)
        self.history = [(known, number) for known, number in history]

    def _was(self, entry: Any, before: int) -> bool:
        """Tell whether a list can be an entry of `history` before step ``before``."""
        if not isinstance(entry, list) or len(entry) != 2:
            return False
        phase, step = entry
        return phase in tuple(self.lengths) and type(step) is int and 0 <= step <= before
