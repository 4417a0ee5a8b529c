# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback for DDP's buckets. DDP reassigns parameters to buckets once, and residuals follow them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..collectives.error_feedback import ErrorFeedback
from ..layers.parameters import Floats
from .host_copy import lanes_of

Layout = tuple[tuple[int, int], ...]
"""The parameters of a bucket: the number of each, and its number of lanes."""


class Residuals:
    """The residuals of all parameters, as flat arrays by bucket.

    DDP reassigns parameters to buckets after its first step. Here all parameters are numbered in the order of
    the first step, raw ones too. This order is the same whenever the same module is wrapped again with the
    same bucket sizes, so residuals can be saved and loaded by number, whatever travels raw.
    """

    def __init__(self, feedback: ErrorFeedback) -> None:
        self.feedback = feedback
        self._layouts: set[Layout] = set()
        self._numbers: dict[int, int] = {}
        self._seen: list[Any] = []  # keeps the parameters alive, and so their ids unique

    def layout(self, parameters: Sequence[Any], kept: Sequence[Any]) -> Layout:
        """Return the layout of the ``kept`` parameters of a bucket, and number all of them."""
        for parameter in parameters:
            if id(parameter) not in self._numbers:
                self._numbers[id(parameter)] = len(self._seen)
                self._seen.append(parameter)
        return tuple((self._numbers[id(parameter)], lanes_of(parameter)) for parameter in kept)

    def prepare(self, layout: Layout) -> None:
        """Collect the residuals of a bucket from the buckets that held its parameters before.

        Raises ``ValueError`` if a loaded residual has another size than its parameter, and changes nothing.
        """
        if layout in self._layouts:
            return
        numbers = dict(layout)
        flat = self.feedback.state_dict()
        moved = {name: flat.pop(name) for name in [*flat] if not numbers.keys().isdisjoint(dict(name))}  # type: ignore[call-overload]
        parts = _split(moved)
        _check_sizes(parts, numbers)
        if moved:
            flat[layout] = np.concatenate(
                [parts.pop(number, np.zeros(size, np.float32)) for number, size in layout]
            )
        flat |= _alone(parts)
        self.feedback.load_state_dict(flat)
        self._layouts = {name for name in flat if isinstance(name, tuple)} | {layout}

    def by_parameter(self) -> dict[int, Floats]:
        """Copy all residuals, by the parameters' numbers."""
        return _split(self.feedback.state_dict())

    def load(self, residuals: Mapping[int, Floats]) -> None:
        """Replace all residuals.

        Raises ``ValueError`` unless they are flat float32 arrays of finite values, of the sizes of the
        parameters that are known.
        """
        for number, values in residuals.items():
            if values.ndim != 1:
                raise ValueError(
                    f"the residual of parameter {number} must be flat, not of shape {values.shape}"
                )
        _check_sizes(residuals, dict(enumerate(map(lanes_of, self._seen))))
        self.feedback.load_state_dict(_alone(residuals))
        self._layouts.clear()


def _split(flat: Mapping[Any, Floats]) -> dict[int, Floats]:
    found: dict[int, Floats] = {}
    for layout, values in flat.items():
        ends = np.cumsum([size for _, size in layout])
        found |= zip((number for number, _ in layout), np.split(values, ends[:-1]), strict=True)
    return found


def _check_sizes(residuals: Mapping[int, Floats], sizes: Mapping[int, int]) -> None:
    for number, values in residuals.items():
        size = sizes.get(number, values.size)
        if values.size != size:
            raise ValueError(
                f"the residual of parameter {number} has {values.size} values, the parameter has {size}: "
                "the state is that of another module"
            )


def _alone(parts: Mapping[int, Floats]) -> dict[Any, Floats]:
    return {((number, values.size),): values for number, values in parts.items()}
