# SPDX-License-Identifier: BSD-2-Clause
"""A module's parameters and gradients by name, for the training layers."""

from collections.abc import Mapping

import numpy as np
import torch

from ..layers.parameters import Floats, Parameters


def parameters_of(module: torch.nn.Module) -> Parameters:
    """Return the trained parameters by name, as float32 arrays.

    They are the module's own memory on the CPU, and copies from a GPU. Raises ``TypeError`` with the name for
    another type.
    """
    return {name: _array(name, value.detach()) for name, value in _trained(module)}


def gradients_of(module: torch.nn.Module) -> Parameters:
    """Return their gradients after a backward pass, by name. Zeros if a parameter has none.

    Sparse ones are returned dense.
    """
    return {
        name: np.zeros(tuple(value.shape), np.float32) if value.grad is None else _array(name, value.grad)
        for name, value in _trained(module)
    }


def set_parameters(module: torch.nn.Module, weights: Mapping[str, Floats]) -> None:
    """Copy weights by name into the module.

    Raises ``KeyError`` for a missing parameter, and torch's error for a wrong shape.
    """
    with torch.no_grad():
        for name, value in _trained(module):
            value.copy_(torch.from_numpy(np.ascontiguousarray(weights[name])))


def _trained(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, value) for name, value in module.named_parameters() if value.requires_grad]


def _array(name: str, value: torch.Tensor) -> Floats:
    if value.dtype != torch.float32:
        raise TypeError(f"{name} must be float32, not {value.dtype}")
    array: Floats = value.cpu().to_dense().resolve_neg().contiguous().numpy()
    return array
