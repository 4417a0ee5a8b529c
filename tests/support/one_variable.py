# SPDX-License-Identifier: BSD-2-Clause
"""The smallest model that Parallax trains."""

from typing import Any

import numpy as np

from inceptionn.layers.parameters import RowSparse


class OneVariable:
    """A model of one variable, zero at first.

    Its gradient has ``values``, or what they return for a batch, in the rows ``used``; it is dense for None.
    """

    def __init__(self, shape: tuple[int, int], used: Any, values: Any) -> None:
        self.shape, self.used, self.values = shape, used, values

    def initial(self, seed: int = 0) -> Any:
        return {"words": np.zeros(self.shape, np.float32)}

    def rows(self, batch: Any) -> Any:
        return {} if self.used is None else {"words": self.used}

    def loss_and_gradients(self, parameters: Any, batch: Any) -> tuple[float, Any]:
        values = self.values(batch) if callable(self.values) else self.values
        shape = self.shape if self.used is None else (len(self.used), self.shape[1])
        gradient = np.array(np.broadcast_to(values, shape), np.float32)
        return 0.0, {"words": gradient if self.used is None else RowSparse(self.used, gradient, self.shape)}
