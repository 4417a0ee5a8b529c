# SPDX-License-Identifier: BSD-2-Clause
"""The interface of a model, and each worker's share of the samples."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ...transport import transport_of
from ..parameters import Floats, Gradients, Parameters
from .exchange.row_sets import Rows


class Trainable(Protocol):
    """The methods that a runner needs of a model, such as `TorchModel`."""

    def initial(self, seed: int = 0) -> Parameters:
        """Return float32 arrays by key. The runner updates them in place for the next call."""

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Any) -> tuple[float, Gradients]:
        """Return the loss, and gradients by key. A `RowSparse` means that the variable is sparse (Sec. 5)."""

    def rows(self, batch: Any) -> Mapping[str, Rows]:
        """Return the rows that the batch looks up, ascending and distinct, by key of the sparse variable."""


def shard(data: Iterable[Any], comm: Any) -> list[Any]:
    """Return this rank's samples of ``data``: every N-th, beginning with its rank (``shard`` of Sec. 4.1).

    The shares of all N ranks are disjoint and of equal size, since all must run the same number of steps. The
    remainder at the end is left out. Raises ``ValueError`` for fewer than N samples. For arrays, use
    `inceptionn.evaluate.training.Batches`, which distributes steps instead.
    """
    transport = transport_of(comm)
    samples = list(data)
    share = len(samples) // transport.size
    if not share:
        raise ValueError(f"data must have a sample for each of {transport.size} ranks, not {len(samples)}")
    return samples[transport.rank : share * transport.size : transport.size]
