# SPDX-License-Identifier: BSD-2-Clause
"""Trains a network on handwritten digits, data-parallel: one process per host, gradients by all-reduce.

    inceptionn cluster run -n 4 -- python examples/train.py [--path nic|software|off|auto] [--steps N]

It finds its rank, the number of ranks and the rendezvous in its environment (``docs/cluster.md``), so it runs
unchanged on real hosts:

    INCEPTIONN_RANK=1 INCEPTIONN_SIZE=4 INCEPTIONN_RENDEZVOUS=10.0.0.1:29520 python examples/train.py
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.training import MLP, Batch, digits, flatten, unflatten
from inceptionn.transport import connect


def main() -> None:
    """Train, and let rank 0 print the accuracy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--path", default="auto", choices=("auto", "nic", "software", "off"))
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    rank, size = int(os.environ["INCEPTIONN_RANK"]), int(os.environ["INCEPTIONN_SIZE"])
    address = os.environ.get("INCEPTIONN_ADDRESS")

    try:
        data, model = digits(), MLP(hidden=(256,))
    except ModuleNotFoundError as error:
        raise SystemExit(f"train.py: {error}") from None
    weights = model.initial(seed=1)
    order, velocity = np.random.default_rng(7), np.zeros_like(flatten(weights))
    with connect(rank, size, os.environ["INCEPTIONN_RENDEZVOUS"], host=address) as group:
        begin = time.monotonic()
        for _ in range(arguments.steps):
            batch = order.permutation(len(data.train))[: 32 * size][rank::size]  # alike at all ranks
            mine = flatten(model.gradients(weights, Batch(*(part[batch] for part in data.train))))
            mean = np.empty_like(mine)
            allreduce_comp(group, mine, mean, MEAN, path=arguments.path)
            velocity = np.float32(0.9) * velocity - np.float32(0.05) * mean
            weights = unflatten(flatten(weights) + velocity, weights)
        if rank == 0:
            how = f"NICs, bound {group.nic_codec.error_bound:g}" if group.nic_codec else "no NICs"
            print(f"{how}: {arguments.steps} steps of {mine.size} values in {time.monotonic() - begin:.1f} s")
            print(f"accuracy on the test set: {100 * model.accuracy(weights, data.test):.1f} %")


if __name__ == "__main__":
    main()
