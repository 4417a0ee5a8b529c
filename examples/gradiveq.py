# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ on an existing MPI: gradients of convolutions are summed in compressed form.

    mpirun -np 4 python -m mpi4py examples/gradiveq.py [--threshold LAMBDA] [--limit LOSS] [--codec CODEC]
        [--raw]

Workers train a network of three convolutions on handwritten digits. Phases of quantised sampling and of
compressed all-reduces alternate; with --limit a compressed phase ends early when most workers lose more.
With --codec the compressed slices, and what is not compressed, go through it. --raw is the baseline.
"""

import argparse
import time
from typing import Any

import numpy as np
from mpi4py import MPI

from inceptionn import CODECS, Codec
from inceptionn.evaluate.training import Batches, digits, model_of
from inceptionn.layers.gradiveq import GradiVeQ
from inceptionn.transport import MpiTransport, TransportError, connect_mpi


def main() -> None:
    """Train, and let rank 0 print phases, compressors, bytes and accuracy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threshold", type=float, default=0.01, help="share of variance that may be lost")
    parser.add_argument("--limit", type=float, help="local loss above which a worker votes to sample again")
    parser.add_argument("--warm-up", type=int, default=30, help="raw steps at the beginning")
    parser.add_argument("--sampling", type=int, default=100, help="steps of a sampling phase")
    parser.add_argument("--compressed", type=int, default=400, help="steps of a compressed phase, at most")
    parser.add_argument("--codec", choices=CODECS, help="compressed slices through this codec")
    parser.add_argument("--bound", type=int, default=12, help="error bound 2^-BOUND of the codec")
    parser.add_argument("--raw", action="store_true", help="no compression at all")
    parser.add_argument("--tcp", action="store_true", help="data over TCP, MPI only to find the ranks")
    parser.add_argument("--channels", default="32,64,64", help="of each convolution")
    parser.add_argument("--steps", type=int, default=530)
    parser.add_argument("--batch", type=int, default=16, help="samples per worker and step")
    parser.add_argument("--rate", type=float, default=0.04, help="learning rate, falling along half a cosine")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps must be at least 1, not {arguments.steps}")

    comm = MPI.COMM_WORLD
    model = model_of("cnn", channels=tuple(int(word) for word in arguments.channels.split(",")))
    data, parameters = digits(), model.initial()
    momenta = {key: np.zeros_like(value) for key, value in parameters.items()}
    codec = Codec(2.0**-arguments.bound, arguments.codec) if arguments.codec else None
    settings: dict[str, Any] = {
        "threshold": arguments.threshold,
        "warm_up": arguments.steps if arguments.raw else arguments.warm_up,
        "sampling": arguments.sampling,
        "compressed": arguments.compressed,
        "loss_limit": arguments.limit,
        "codec": codec,
        "rest_codec": codec,
    }
    with connect_mpi(comm) if arguments.tcp else MpiTransport(comm) as transport:
        exchange = GradiVeQ(transport, parameters, **settings)
        batches = Batches(data.train, arguments.batch, transport.rank, transport.size)
        start = time.perf_counter()
        for step in range(arguments.steps):
            mean = exchange.all_reduce(model.gradients(parameters, batches.at(step)))
            rate = np.float32(arguments.rate * (1 + np.cos(np.pi * step / arguments.steps)) / 2)
            for key, gradient in mean.items():
                momenta[key] = np.float32(0.9) * momenta[key] - rate * gradient
                parameters[key] = parameters[key] + momenta[key]
        seconds = time.perf_counter() - start
        traffic = exchange.traffic.of_all(transport)
        if transport.rank == 0:
            each = 1e3 * seconds / arguments.steps
            print(f"{transport.size} workers, {model.name}, {arguments.steps} steps, {each:.2f} ms each")
            phases = (f"{phase} from {step}" for phase, step in exchange.phases.history)
            print("phases      " + ", ".join(phases))
            for key, found in exchange.dimensions.items():
                print(f"K -> d      {key:14} " + ", ".join(f"{size} -> {d}" for size, d in found))
            for kind, sent in traffic.per_step(arguments.steps).items():
                ratio = traffic.raw[kind] / max(1, traffic.sent[kind])
                print(f"bytes/step  {kind:12} {sent:12.0f}   ratio {ratio:.2f}")
            print(f"all bytes   ratio {sum(traffic.raw.values()) / max(1, traffic.total):.2f}")
            if arguments.limit is not None:
                print(f"local loss  {exchange.loss:.3f}")
            print(f"accuracy    {model.accuracy(parameters, data.test):.4f}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, ModuleNotFoundError, OSError, TransportError, TypeError, ValueError) as error:
        raise SystemExit(f"rank {MPI.COMM_WORLD.rank}: {error}") from error
