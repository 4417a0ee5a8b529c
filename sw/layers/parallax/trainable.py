# SPDX-License-Identifier: BSD-2-Clause
"""What a training hands in: its model, and each worker's share of the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ...training import Floats, Gradients, Parameters
from ...transport.mpi import transport_of
from .exchange.row_sets import Rows


class Trainable(Protocol):
    """What a runner needs of a model: `inceptionn.training.Model`, or `TorchModel`."""

    def initial(self, seed: int = 0) -> Parameters:
        """float32 arrays by key; what the runner writes into them is what the next call computes with."""

    def loss_and_gradients(self, parameters: Mapping[str, Floats], batch: Any) -> tuple[float, Gradients]:
        """The loss, and by key arrays or `RowSparse`, which says that the variable is sparse (Sec. 5)."""

    def rows(self, batch: Any) -> Mapping[str, Rows]:
        """By key of a sparse variable the rows, ascending and distinct, that the batch looks up."""


def shard(data: Iterable[Any], comm: Any) -> list[Any]:
    """This rank's samples of ``data``: every N-th, from its rank on (``shard`` of Sec. 4.1).

    The shares of all N ranks are disjoint and equal, since all must run the same number of steps: the last
    samples, fewer than N, are left out. Raises ``ValueError`` if there are fewer than N in all. For arrays
    and `Batch`es see `inceptionn.training.Batches`, which deals out steps instead.
    """
    transport = transport_of(comm)
    samples = list(data)
    share = len(samples) // transport.size
    if not share:
        raise ValueError(f"data must have a sample for each of {transport.size} ranks, not {len(samples)}")
    return samples[transport.rank : share * transport.size : transport.size]
