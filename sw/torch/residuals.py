# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback for DDP's buckets, whose parameters DDP reassigns once, and for a group's all-reduces."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

import numpy as np

from ..codec.scaling import Scaling
from ..collectives.agreement import agree
from ..collectives.call import Feedback
from ..collectives.error_feedback import ErrorFeedback
from ..layers.parameters import Floats
from ..transport import Transport
from .host_copy import lanes_of

Layout = tuple[tuple[int, int], ...]
"""The parameters of a bucket: the number of each, and its number of lanes."""

MOST_PLACES = 4096
"""All-reduces of a step in a group with error feedback."""


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
        self._expected = 0
        """Parameters of the module whose residuals were loaded; 0 if their number is not known."""

    @property
    def count(self) -> int:
        """Parameters of the module; 0 before its first step."""
        return len(self._seen) or self._expected

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: residuals of its own, for a module that is wrapped anew."""
        return {**vars(type(self)(deepcopy(self.feedback))), "_expected": self.count}

    def layout(self, parameters: Sequence[Any], kept: Sequence[Any]) -> Layout:
        """Return the layout of the ``kept`` parameters of a bucket, and number all of them."""
        for parameter in parameters:
            if id(parameter) not in self._numbers:
                self._numbers[id(parameter)] = len(self._seen)
                self._seen.append(parameter)
        return tuple((self._numbers[id(parameter)], lanes_of(parameter)) for parameter in kept)

    def of_call(self, transport: Transport, layout: Layout) -> Feedback:
        """Return the error feedback of a call. An error of its residuals is raised at every rank."""
        try:
            self.prepare(layout)
        except ValueError as error:
            agree(transport, {}, None, error)  # in place of the call's, so that all ranks raise
        return self.feedback, layout

    def prepare(self, layout: Layout) -> None:
        """Collect the residuals of a bucket from the buckets that held its parameters before.

        Raises ``ValueError`` if a loaded residual has another size than its parameter, and changes nothing.
        """
        if layout in self._layouts:
            return
        numbers = dict(layout)
        flat, scales = self.feedback.state_dict(), self.scales()
        moved = {name: flat.pop(name) for name in [*flat] if not numbers.keys().isdisjoint(dict(name))}  # type: ignore[call-overload]
        parts = _split(moved)
        _check_sizes(parts, numbers)
        if moved:
            flat[layout] = np.concatenate(
                [parts.pop(number, np.zeros(size, np.float32)) for number, size in layout]
            )
        flat |= _alone(parts)
        self._keep(flat, scales, layout)

    def _keep(self, flat: dict[Any, Floats], scales: Mapping[int, int], layout: Layout) -> None:
        """Replace all residuals by those of some buckets, and know this bucket as well."""
        self.feedback.load_state_dict(flat)
        self._set_scales(flat, scales)
        self._layouts = {name for name in flat if isinstance(name, tuple)} | {layout}

    def by_parameter(self) -> dict[int, Floats]:
        """Copy all residuals, by the parameters' numbers."""
        return _split(self.feedback.state_dict())

    def scales(self) -> dict[int, int]:
        """Return the usual scale of each parameter, as `ErrorFeedback` has them by bucket."""
        found: dict[int, int] = {}
        for layout, scaling in self.feedback.usual.items():
            numbers, sizes = zip(*cast(Layout, layout), strict=True)
            found |= zip(numbers, scaling.at(np.cumsum(sizes) - sizes).tolist(), strict=True)
        return found

    def _set_scales(self, layouts: Iterable[Any], scales: Mapping[int, int]) -> None:
        """Set the usual scales of the buckets that have them for each parameter."""
        for layout in layouts:
            if all(number in scales for number, _ in layout):
                numbers, sizes = zip(*layout, strict=True)
                self.feedback.usual[layout] = Scaling.of([scales[number] for number in numbers], sizes)

    def reset(self) -> None:
        """Forget all residuals and usual scales."""
        self.feedback.reset()
        self._layouts.clear()
        self._expected = 0

    def check(self, count: int) -> None:
        """Raise ``ValueError`` if residuals were loaded of a module with another number of parameters."""
        if self._expected:
            _check_count(self._expected, count)

    def load(self, residuals: Mapping[int, Floats], scales: Mapping[int, int], count: int = 0) -> None:
        """Replace all residuals. ``count`` is the number of their module's parameters; 0 if it is not known.

        ``scales`` has the usual scales of those that are known.

        Raises ``ValueError`` unless they are flat float32 arrays of finite values, of the number and sizes of
        the parameters that are known.
        """
        for number, values in residuals.items():
            if values.ndim != 1:
                raise ValueError(
                    f"the residual of parameter {number} must be flat, not of shape {values.shape}"
                )
        count = (count or len(self._seen)) if residuals else 0
        if count:
            _check_count(max(count, max(residuals) + 1), len(self._seen) or count)
        _check_sizes(residuals, dict(enumerate(map(lanes_of, self._seen))))
        alone = _alone(residuals)
        self.feedback.load_state_dict(alone)
        self._set_scales(alone, scales)
        self._expected = count
        self._layouts.clear()


class PlacedResiduals(Residuals):
    """The residuals of a group's all-reduces, by their places in a step: a group cannot identify tensors.

    A place whose number of values changes begins without a residual, as DDP's buckets do after its first
    step, when their sizes change.
    """

    def __init__(self, feedback: ErrorFeedback) -> None:
        super().__init__(feedback)
        self._place = 0

    def begin_step(self) -> None:
        """Let the next all-reduce be the first of a step."""
        self._place = 0

    def place(self, lanes: int) -> Layout:
        """Return the layout of a step's next all-reduce. ``ValueError`` at its place `MOST_PLACES`."""
        if self._place == MOST_PLACES:
            raise ValueError(
                f"{MOST_PLACES} all-reduces with error feedback in one step: call advance() of the state of "
                "compressed() after each step"
            )
        self._place += 1
        return ((self._place - 1, lanes),)

    def prepare(self, layout: Layout) -> None:
        """Drop the residual of this place if it has another size."""
        if layout in self._layouts:
            return
        flat, scales = self.feedback.state_dict(), self.scales()
        ((place, _),) = layout
        kept = {name: values for name, values in flat.items() if name == layout or place not in dict(name)}  # type: ignore[call-overload]
        self._keep(kept, scales, layout)


def _split(flat: Mapping[Any, Floats]) -> dict[int, Floats]:
    found: dict[int, Floats] = {}
    for layout, values in flat.items():
        ends = np.cumsum([size for _, size in layout])
        found |= zip((number for number, _ in layout), np.split(values, ends[:-1]), strict=True)
    return found


def _check_count(found: int, count: int) -> None:
    if found != count:
        raise ValueError(
            f"the residuals are of a module with {found} trained parameters, this one has {count}: load the "
            "state with residuals={}"
        )


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
