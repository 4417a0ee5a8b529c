# SPDX-License-Identifier: BSD-2-Clause
"""Trains a network on handwritten digits, data-parallel: one process per host, gradients by all-reduce.

    inceptionn cluster run -n 4 -- python examples/train.py [--path nic|software|off|auto] [--steps N]
    torchrun --nproc-per-node 4 examples/train.py
    mpirun -np 4 python -m mpi4py examples/train.py
    INCEPTIONN_RANK=1 INCEPTIONN_SIZE=4 INCEPTIONN_RENDEZVOUS=10.0.0.1:29520 python examples/train.py

It finds the other ranks by what has started it (`inceptionn.transport.from_environment`), so it runs
unchanged on virtual hosts and on real ones. Alone it trains as a group of one.
"""

import argparse
import time

import numpy as np

from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.evaluate.training import MLP, Batch, digits, flatten, unflatten
from inceptionn.transport import from_environment


def main() -> None:
    """Train, and let rank 0 print the accuracy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--path", default="auto", choices=("auto", "nic", "software", "off"))
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()

    try:
        data, model = digits(), MLP(hidden=(256,))
    except ModuleNotFoundError as error:
        raise SystemExit(f"train.py: {error}") from None
    weights = model.initial(seed=1)
    order, velocity = np.random.default_rng(7), np.zeros_like(flatten(weights))
    with from_environment() as group:
        rank, size = group.rank, group.size
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
