# SPDX-License-Identifier: BSD-2-Clause
"""A torch module as a model for a runner. ``nn.Embedding(sparse=True)`` is a sparse variable."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..parameters import Floats, Gradients, Parameters, RowSparse
from .exchange.row_sets import Rows


class TorchModel:
    """Computes with torch on the CPU. The runner's arrays share memory with the module's parameters.

    Parameters
    ----------
    module
        All its parameters must be float32 on the CPU. Buffers are not synchronised.
    loss
        ``loss(module, batch)`` returns a scalar tensor.
    lookups
        ``lookups(batch)`` returns, by name of a sparse embedding's weight (``"embedding.weight"``), an
        integer tensor of any shape with the rows that the batch looks up.

    Raises ``TypeError`` for a parameter that is not float32 on the CPU. Training starts from the
    module's values, so build it with the same seed at all ranks. The ``seed`` of `initial` is not used.
    """

    def __init__(
        self,
        module: Any,
        loss: Callable[[Any, Any], Any],
        lookups: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> None:
        self.module, self._loss, self._lookups = module, loss, lookups
        self._arrays: Parameters = {}
        self._sparse = {
            f"{name}.weight" if name else "weight"
            for name, part in module.named_modules()
            if getattr(part, "sparse", False)
        }
        for key, parameter in module.named_parameters():
            if str(parameter.dtype) != "torch.float32" or parameter.device.type != "cpu":
                raise TypeError(
                    f"{key} must be float32 on the CPU, not {parameter.dtype} on {parameter.device}"
                )
            self._arrays[key] = parameter.detach().numpy()

    def initial(self, seed: int = 0) -> Parameters:
        """Return the module's parameters by name. Writing into them changes the module."""
        return self._arrays

    def rows(self, batch: Any) -> dict[str, Rows]:
        """Return the distinct rows of each embedding."""
        found = self._lookups(batch) if self._lookups is not None else {}
        return {key: np.unique(np.asarray(tokens)).astype(np.int64) for key, tokens in found.items()}

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Any) -> tuple[float, Gradients]:
        """Run one forward and backward pass.

        Raises ``ValueError`` if ``parameters`` are not those of `initial`.
        """
        if any(parameters[key] is not array for key, array in self._arrays.items()):
            raise ValueError("the parameters must be those that initial() returned")
        self.module.zero_grad(set_to_none=True)
        loss = self._loss(self.module, batch)
        loss.backward()
        gradients: Gradients = {}
        for key, parameter in self.module.named_parameters():
            grad = parameter.grad
            shape = tuple(parameter.shape)
            if grad is None and key in self._sparse:  # not part of this batch's graph
                nothing = np.empty((0, *shape[1:]), np.float32)
                gradients[key] = RowSparse(np.empty(0, np.int64), nothing, shape)
            elif grad is None:
                gradients[key] = np.zeros(shape, np.float32)
            elif grad.is_sparse:
                grad = grad.coalesce()
                rows = grad.indices()[0].numpy().astype(np.int64)
                gradients[key] = RowSparse(rows, grad.values().numpy(), shape)
            else:
                gradients[key] = grad.numpy()
        return float(loss.detach()), gradients
