# SPDX-License-Identifier: BSD-2-Clause
"""The agreement of the workers before a step's gradients are all-reduced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..collectives import agree, is_whole
from ..transport import Transport
from .checks import NonFiniteGradient, Policy
from .parameters import Floats


@dataclass(frozen=True)
class StepTerms:
    """``takes_part``: whether this rank's gradients count.

    ``workers``: the number of ranks whose gradients count. ``votes``: the number of ranks that voted.
    """

    takes_part: bool
    workers: int
    votes: int


def agree_on_step(
    transport: Transport,
    shapes: Mapping[str, tuple[int, ...]],
    gradients: Mapping[str, Floats],
    step: int,
    policy: Policy,
    vote: bool = False,
) -> StepTerms:
    """Check this rank's gradients, and exchange the result with the other ranks.

    Takes one `Transport.exchange`, after O(values) work. Every rank raises if one has other keys, shapes or
    types, is at another step, or (policy "raise") has values that are not finite. In the last case that rank
    raises `NonFiniteGradient` with key and step, and the others raise `MismatchError` with the same text.
    With "skip" such a rank does not take part.
    """
    error: Exception | None = None
    finite = True
    for key, shape in shapes.items():
        gradient: Any = gradients.get(key)
        if not isinstance(gradient, np.ndarray) or gradient.shape != shape or gradient.dtype != np.float32:
            is_array = isinstance(gradient, np.ndarray)
            found = f"{gradient.dtype} of {gradient.shape}" if is_array else type(gradient).__name__
            error = ValueError(f"the gradient of key {key!r} must be float32 of {shape}, not {found}")
            break
        if not np.isfinite(gradient).all():
            finite = False
            if policy == "raise":
                error = NonFiniteGradient(key, step)
                break
    if error is None and len(gradients) != len(shapes):
        error = ValueError(f"there is no key {sorted(set(gradients) - set(shapes))[0]!r}")
    said = finite + 2 * vote
    answers = agree(transport, {"step": step}, said, error, lambda theirs: is_whole(theirs, range(4)))
    return StepTerms(finite, sum(answer & 1 for answer in answers), sum(answer >> 1 for answer in answers))
