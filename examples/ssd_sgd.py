# SPDX-License-Identifier: BSD-2-Clause
"""SSD-SGD on an existing MPI: a push in every step, a pull in every k-th one.

    mpirun -np 4 python -m mpi4py examples/ssd_sgd.py [--k K] [--update glu|sgd|dc-asgd-a] [--codec CODEC]
        [--compare]

Workers train a perceptron on handwritten digits; every rank is both worker and server. With --compare
SSGD and k = 1..5 are trained in turn, and their accuracies printed.
"""

import argparse
import time
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from inceptionn import CODECS, Codec
from inceptionn.evaluate.training import MLP, Batches, digits
from inceptionn.layers.parameter_server import MomentumSGD, ParameterServer
from inceptionn.layers.ssd_sgd import LOCAL_UPDATES, SSDSGD
from inceptionn.transport import MpiTransport, Transport, TransportError, connect_mpi


class Outcome(NamedTuple):
    """One training at one worker: test accuracy, seconds per step, pulls, bytes per step of all ranks."""

    accuracy: float
    seconds: float
    pulls: int
    sent: dict[str, float]


def train(transport: Transport, arguments: argparse.Namespace, k: int, seed: int) -> Outcome:
    """Train once; k = 0 is SSGD, a warm-up without end."""
    model, data = MLP(64, (48,), 10), digits(seed)
    group = ParameterServer(
        transport,
        model.initial(seed),
        MomentumSGD(arguments.rate, momentum=0.9),
        codec=Codec(2.0**-arguments.bound, arguments.codec) if arguments.codec else None,
    )
    with group:
        assert group.worker is not None
        batches = Batches(data.train, arguments.batch, transport.rank, transport.size, seed)
        update = LOCAL_UPDATES[arguments.update]()
        warm_up = arguments.warm_up if k else arguments.steps
        start = time.perf_counter()
        ssd = SSDSGD(group.worker, max(1, k), warm_up, arguments.rate, update)
        weights = ssd.weights
        for step in range(arguments.steps):
            weights = ssd.step(model.gradients(weights, batches.at(step)))
        weights = ssd.finish()
        seconds = time.perf_counter() - start
    sent = group.traffic.of_all(transport).per_step(arguments.steps)
    return Outcome(model.accuracy(weights, data.test), seconds / arguments.steps, ssd.pulls, sent)


def main() -> None:
    """Train, and let rank 0 print the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--k", type=int, default=4, help="delay steps")
    parser.add_argument("--update", choices=tuple(LOCAL_UPDATES), default="glu", help="local update")
    parser.add_argument("--codec", choices=CODECS, help="gradients through this codec")
    parser.add_argument("--bound", type=int, default=10, help="error bound 2^-BOUND of the codec")
    parser.add_argument("--tcp", action="store_true", help="data over TCP, MPI only to find the ranks")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warm-up", type=int, default=60, help="steps of SSGD at the beginning")
    parser.add_argument("--batch", type=int, default=16, help="samples per worker and step")
    parser.add_argument("--rate", type=float, default=0.05, help="the servers' learning rate")
    parser.add_argument("--seeds", type=int, default=1, help="number of training runs to average")
    parser.add_argument("--compare", action="store_true", help="SSGD and k = 1..5")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps must be at least 1, not {arguments.steps}")
    if arguments.k < 1:
        parser.error(f"--k must be at least 1, not {arguments.k}")

    comm = MPI.COMM_WORLD
    with connect_mpi(comm) if arguments.tcp else MpiTransport(comm) as transport:
        base = None
        for k in range(6) if arguments.compare else (arguments.k,):
            found = [train(transport, arguments, k, seed) for seed in range(arguments.seeds)]
            accuracy = 100 * float(np.mean([outcome.accuracy for outcome in found]))
            base = accuracy if base is None else base
            if transport.rank == 0:
                name = f"SSD-SGD, k = {k}, {arguments.update}" if k else "SSGD"
                sent = ", ".join(f"{kind} {size:.0f}" for kind, size in found[0].sent.items())
                change = f" ({accuracy - base:+.2f})" if k and arguments.compare else ""
                print(
                    f"{name:24} accuracy {accuracy:.2f} %{change}, {1e3 * found[0].seconds:.2f} ms per step, "
                    f"{found[0].pulls} pulls; bytes/step {sent}",
                    flush=True,
                )


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, OSError, TransportError, TypeError, ValueError) as error:
        raise SystemExit(f"rank {MPI.COMM_WORLD.rank}: {error}") from error
