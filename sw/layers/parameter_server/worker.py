# SPDX-License-Identifier: BSD-2-Clause
"""The worker's interface: pushes of gradients and pulls of weights, by key."""

from collections.abc import Iterable, Mapping

import numpy as np

from ...collectives import all_finite
from ..checks import NonFiniteGradient, Policy, check_policy, float32_array
from ..parameters import Floats, Parameters
from .checkpoint import Checkpoints, Saved
from .exchange.handle import Handle
from .node import Node
from .optimizer import Optimizer


class Worker:
    """This rank's worker (`ParameterServer.worker`). Only one thread may use it.

    Attributes: ``index``, 0..count-1; ``count``, the number of workers; ``synchronous``, whether the mode is
    "sync"; ``optimizer``, this rank's instance; ``skipped``, the (key, step) of gradients that were not
    finite, with policy "skip"; ``checkpoints``, the writer of checkpoints, or None; ``saved``, this worker's
    state in the restored checkpoint, or None.

    The *step* of a key is the number of this worker's pushes of it. Keys may be pushed one by one, in any
    order, as layers finish. One `push` of several keys makes fewer messages.
    """

    def __init__(
        self,
        node: Node,
        index: int,
        policy: Policy,
        synchronous: bool,
        step: int,
        optimizer: Optimizer,
        checkpoints: Checkpoints | None = None,
        saved: Saved | None = None,
    ) -> None:
        check_policy(policy)
        self.index, self.count = index, len(node.workers)
        self.policy = policy
        self.skipped: list[tuple[str, int]] = []
        self.synchronous, self.optimizer = synchronous, optimizer
        self.checkpoints, self.saved = checkpoints, saved
        self._node = node
        self._steps = dict.fromkeys(node.plan.keys, step)

    @property
    def step(self) -> int:
        """Number of steps that this worker has pushed completely (the fewest pushes of any key)."""
        return min(self._steps.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each key."""
        return dict(self._node.plan.shapes)

    def ipush(self, gradients: Mapping[str, Floats]) -> Handle[None]:
        """Begin to send the gradients of some keys. They must keep their values until `Handle.wait`.

        Gradients are float32 arrays of the parameters' shapes. Raises ``ValueError`` for an unknown key or
        another shape, ``TypeError`` for another type, and ``OverflowError`` for values that the group's scale
        moves out of fp32's range. A gradient that is not finite raises `NonFiniteGradient`. With policy
        "skip" it leaves this worker out of the step's mean, for all keys of the call.
        """
        for key, gradient in gradients.items():
            self._check(key, gradient)
        steps = {key: self._steps[key] for key in gradients}
        if not steps:
            raise ValueError("push needs at least one key")
        wrong = [key for key, gradient in gradients.items() if not all_finite(gradient)]
        if wrong and self.policy == "raise":
            raise NonFiniteGradient(wrong[0], steps[wrong[0]])
        for gradient in () if wrong else gradients.values():
            self._node.push_leg.check(gradient)
        self.skipped += [(key, steps[key]) for key in wrong]
        handle = self._node.push(None if wrong else gradients, steps)
        for key in gradients:
            self._steps[key] += 1
        return handle

    def push(self, gradients: Mapping[str, Floats]) -> None:
        """Send the gradients of some keys, and return when their arrays may be changed."""
        self.ipush(gradients).wait()

    def ipull(self, keys: Iterable[str] | None = None, into: Parameters | None = None) -> Handle[Parameters]:
        """Begin to fetch weights. `Handle.wait` returns them by key, as float32 arrays of the keys' shapes.

        In mode "sync" these are exactly the weights after the update of this worker's last push, so the pull
        waits for all workers' pushes of that step. In mode "async" they are the current weights, which
        include this worker's own pushes.

        ``keys`` None means all. ``into`` holds arrays to fill instead of new ones.
        """
        wanted = self._node.plan.keys if keys is None else tuple(keys)
        for key in wanted:
            self._known(key)
        if not wanted:
            raise ValueError("pull needs at least one key")
        arrays: Parameters = {}
        for key in wanted:
            if into is None:
                arrays[key] = np.empty(self._node.plan.shapes[key], np.float32)
                continue
            self._check(key, into[key])
            if not into[key].flags.c_contiguous:
                raise ValueError(f"the array for key {key!r} must be C-contiguous")
            arrays[key] = into[key]
        versions = {key: self._steps[key] if self.synchronous else 0 for key in wanted}
        return self._node.pull(versions, arrays)

    def pull(self, keys: Iterable[str] | None = None, into: Parameters | None = None) -> Parameters:
        """Fetch weights; see `ipull`."""
        return self.ipull(keys, into).wait()

    def _known(self, key: str) -> None:
        if key not in self._steps:
            raise ValueError(f"there is no key {key!r}; the keys are {', '.join(map(repr, self._steps))}")

    def _check(self, key: str, values: Floats) -> None:
        self._known(key)
        float32_array(key, values)
        if values.shape != self._node.plan.shapes[key]:
            raise ValueError(f"key {key!r} has the shape {self._node.plan.shapes[key]}, not {values.shape}")
