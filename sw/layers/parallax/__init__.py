# SPDX-License-Identifier: BSD-2-Clause
"""Parallax (Kim et al., EuroSys 2019): all-reduce for dense variables, partitioned servers for sparse ones.

::

    data = parallax.shard(samples, comm)                  # this worker's samples with parallax.partitioner()
    as words:                 # searches the number of partitions of these
        ...parallax.variable("embedding", initial)...
    runner = parallax.get_runner(model, comm, MomentumSGD, partitioners=[words])
    for batch in data:
        loss = runner.run(batch)
"""

from ..parameter_server import MomentumSGD, NonFiniteGradient, Optimizer
from .config import ParallaxConfig, Partitioner, partitioner, variable
from .partition_search import CostModel, PartitionSearch, fit
from .runner import Runner, get_runner
from .trainable import Trainable, shard
from .transfer_model import SparsityMeter, choose

__all__ = [
    "CostModel", "MomentumSGD", "NonFiniteGradient", "Optimizer", "ParallaxConfig", "PartitionSearch",
    "Partitioner", "Runner", "SparsityMeter", "Trainable", "choose", "fit", "get_runner", "partitioner",
    "shard", "variable",
]  # fmt: skip
