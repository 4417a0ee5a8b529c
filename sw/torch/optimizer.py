# SPDX-License-Identifier: BSD-2-Clause
"""Optimizers of ``torch.optim`` at the servers of the training layers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..layers.parameter_server import Optimizer, Partition, Schedule
from ..layers.parameter_server.optimizer import schedule_of
from ..layers.parameters import Floats
from ..system.text import brief

_STARTED = "started"


class TorchOptimizer(Optimizer):
    """A server's update rule that uses one torch optimizer per partition of its weights.

    ::

        ParameterServer(transport, parameters_of(module), TorchOptimizer(torch.optim.AdamW, lr=1e-3))

    Torch works on the server's own memory. Its state goes into the layers' checkpoints. A partition is a flat
    part of a parameter, so an optimizer must work value by value, like SGD, Adam and most others. Sparse
    gradients (Parallax) need an optimizer that takes them, such as ``SGD`` or ``SparseAdam``.

    Parameters
    ----------
    kind, options
        The class, and its arguments after the parameters. ``lr`` may be a `Schedule`, a function of the step.

    Raises ``TypeError`` for an optimizer whose steps need a closure, and torch's own errors for wrong
    options.
    """

    def __init__(self, kind: type[torch.optim.Optimizer], **options: Any) -> None:
        self.kind, self._given = kind, dict(options)
        rate = options.get("lr")
        schedule: Schedule | None = schedule_of(rate) if callable(rate) else None
        self._options = options if schedule is None else {**options, "lr": schedule(0)}
        if kind is torch.optim.LBFGS:
            raise TypeError("LBFGS needs a closure, but a server has only gradients")
        group = self._optimizer(torch.zeros(1)).param_groups[0]
        self.schedule = schedule_of(group["lr"]) if schedule is None else schedule
        for name in ("momentum", "weight_decay"):  # SSD-SGD's local update needs these
            if name in group:
                setattr(self, name, group[name])
        self._optimizers: dict[int, torch.optim.Optimizer] = {}

    def _optimizer(self, weights: torch.Tensor) -> torch.optim.Optimizer:
        return self.kind([torch.nn.Parameter(weights)], **self._options)

    def update(
        self,
        partition: Partition,
        weights: Floats,
        gradient: Floats,
        step: int,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        memory = torch.from_numpy(weights)
        optimizer = self._optimizers.get(partition.number)
        if optimizer is None:
            optimizer = self._optimizers[partition.number] = self._optimizer(memory)
        group = optimizer.param_groups[0]
        parameter = group["params"][0]
        parameter.data = memory
        group["lr"] = self.schedule(step)
        grad = torch.from_numpy(gradient)
        if rows is not None:
            indices = torch.from_numpy(rows)[None]
            grad = torch.sparse_coo_tensor(indices, grad, weights.shape, check_invariants=False)
        parameter.grad = grad
        optimizer.step()
        parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number, optimizer in self._optimizers.items():
            found |= _arrays(number, optimizer)
        return found

    def partition_state(self, partition: Partition) -> dict[str, Any]:
        optimizer = self._optimizers.get(partition.number)
        if optimizer is not None:
            return _arrays(partition.number, optimizer)
        # The state that a first step makes, set to zero.
        optimizer = self._optimizer(torch.zeros(partition.size))
        parameter = optimizer.param_groups[0]["params"][0]
        parameter.grad = torch.zeros(partition.size)
        optimizer.step()
        return {name: np.zeros_like(array) for name, array in _arrays(partition.number, optimizer).items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        numbers: dict[int, dict[str, Any]] = {}
        if not isinstance(state, Mapping):
            raise ValueError(f"an optimizer's state must be a dictionary, not {brief(state)}")
        for name, array in state.items():
            place, dot, word = name.partition(".") if isinstance(name, str) else ("", "", "")
            if not dot or not place.isdecimal():
                raise ValueError(f"{self!r} does not keep {brief(name)}")
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
                raise ValueError(f"the optimizer's {name} must be an array of numbers, not {brief(array)}")
            numbers.setdefault(int(place), {})[word] = array
        optimizers: dict[int, torch.optim.Optimizer] = {}
        for number, arrays in numbers.items():
            started = arrays.pop(_STARTED, None)
            if started is None:
                raise ValueError(f'{self!r} keeps "{number}.{_STARTED}", the checkpoint has {sorted(state)}')
            if started.size != 1:
                raise ValueError(f'"{number}.{_STARTED}" must be one number, not {started.size}')
            if not started:
                continue
            optimizer = self._optimizer(torch.zeros(0))
            kept = {word: torch.from_numpy(np.array(array)) for word, array in arrays.items()}
            optimizer.state[optimizer.param_groups[0]["params"][0]] = kept
            optimizers[number] = optimizer
        self._optimizers = optimizers

    def __repr__(self) -> str:
        return f"TorchOptimizer({self.kind.__name__}, {self._given!r})"


def _arrays(number: int, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Copy an optimizer's state by name. Only tensors, since torch's own optimizers keep nothing else."""
    state = optimizer.state[optimizer.param_groups[0]["params"][0]]
    found = {
        f"{number}.{word}": value.detach().numpy().copy()
        for word, value in state.items()
        if isinstance(value, torch.Tensor)
    }
    return {**found, f"{number}.{_STARTED}": np.ones(1, np.float32)}
