# SPDX-License-Identifier: BSD-2-Clause
"""Gradients in every step or local updates, raw or compressed: which training ends sooner?"""

from typing import NamedTuple

from .scenario import Option, Prediction


class Answer(NamedTuple):
    """The fastest way of each kind, and how they compare at equal numbers of steps.

    ``allowed``: how many times as many steps local updates may take to the same loss, and still end as soon.
    """

    every_step: Option
    local: Option
    allowed: float

    def text(self) -> str:
        """Return the answer in a line."""
        local, step = self.local.name, self.every_step.name
        soonest, other = (local, step) if self.allowed > 1 else (step, local)
        times = max(self.allowed, 1 / self.allowed)
        text = f'At equal numbers of steps "{soonest}" ends soonest, {times:.3g} times as fast as "{other}".'
        if self.allowed > 1:
            text += (
                f" It does unless it needs more than {self.allowed:.3g} times as many steps to the same loss."
            )
        return text


def compared(every_step: Prediction, local: Prediction) -> Answer:
    """Compare the fastest way to exchange gradients in every step with the fastest of local updates."""
    one, other = (min(found.options, key=lambda way: way.step) for found in (every_step, local))
    return Answer(one, other, one.step / other.step)
