# SPDX-License-Identifier: BSD-2-Clause
"""A parameter server on an existing MPI; workers train a perceptron on handwritten digits:

    mpirun -np 4 python -m mpi4py examples/parameter_server.py [--servers N] [--mode sync|async]
        [--codec CODEC] [--tcp]

Every rank is both worker and server; with --servers the first N ranks are servers only. With --codec
gradients are pushed through it. Without --tcp all messages go through MPI. With --checkpoints the
servers save their state every 50 steps; --restore continues from there.
"""

import argparse
import time

from mpi4py import MPI

from inceptionn import CODECS, Codec
from inceptionn.evaluate.training import MLP, Batches, digits
from inceptionn.layers.parameter_server import MomentumSGD, ParameterServer, StepDecay
from inceptionn.transport import MpiTransport, TransportError, connect_mpi


def main() -> None:
    """Train, and let the first worker print the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--servers", type=int, default=0, help="ranks that are servers only; 0: all are both")
    parser.add_argument("--mode", choices=("sync", "async"), default="sync")
    parser.add_argument("--codec", choices=CODECS, help="gradients through this codec")
    parser.add_argument("--bound", type=int, default=10, help="error bound 2^-BOUND of the codec")
    parser.add_argument("--tcp", action="store_true", help="data over TCP, MPI only to find the ranks")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="samples per worker and step")
    parser.add_argument("--rate", type=float, help="learning rate; default 0.1, asynchronous 0.02")
    parser.add_argument("--skip", action="store_true", help="leave out gradients that are not finite")
    parser.add_argument("--checkpoints", metavar="DIR")
    parser.add_argument("--restore", metavar="DIR")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps must be at least 1, not {arguments.steps}")

    comm = MPI.COMM_WORLD
    if not 0 <= arguments.servers < comm.size:
        parser.error(f"--servers must be 0..{comm.size - 1}, not {arguments.servers}")
    transport = connect_mpi(comm) if arguments.tcp else MpiTransport(comm)
    apart = range(arguments.servers) or None
    workers = range(arguments.servers, comm.size)
    model, data = MLP(64, (128,), 10), digits()
    rate = arguments.rate or (0.1 if arguments.mode == "sync" else 0.02)
    start = time.perf_counter()
    with transport:
        group = ParameterServer(
            transport,
            model.initial(),
            MomentumSGD(StepDecay(rate, (200,), 0.2), momentum=0.9, weight_decay=1e-4),
            mode=arguments.mode,
            servers=apart,
            workers=workers,
            codec=Codec(2.0**-arguments.bound, arguments.codec) if arguments.codec else None,
            nonfinite="skip" if arguments.skip else "raise",
            checkpoints=arguments.checkpoints,
            every=50,
            restore=arguments.restore,
        )
        weights = None
        with group:
            if group.worker is None:
                group.serve()
            else:
                batches = Batches(data.train, arguments.batch, group.worker.index, group.worker.count)
                weights = group.worker.pull()
                for step in range(group.worker.step, arguments.steps):
                    group.worker.push(model.gradients(weights, batches.at(step)))
                    weights = group.worker.pull()
        seconds = time.perf_counter() - start
        traffic = group.traffic.of_all(transport)
        delays = transport.exchange(None if group.server is None else list(group.server.delays.items()))
        if transport.rank == workers[0] and weights is not None:
            steps = arguments.steps - group.start_step
            print(f"{len(workers)} workers, {len(group.servers)} servers, {arguments.mode}, {model.name}")
            if group.start_step:
                print(f"restored at step {group.start_step}")
            print(f"{steps} steps in {seconds:.2f} s, {1e3 * seconds / max(1, steps):.2f} ms each")
            for kind, sent in traffic.per_step(max(1, steps)).items():
                ratio = traffic.raw[kind] / traffic.sent[kind]
                print(f"bytes/step  {kind:8} {sent:12.0f}   ratio {ratio:.2f}")
            if arguments.mode == "async":
                counts = [pair for found in delays if found for pair in found]
                mean = sum(delay * count for delay, count in counts) / sum(count for _, count in counts)
                print(f"mean delay  {mean:.2f} updates")
            print(f"accuracy    {model.accuracy(weights, data.test):.4f}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, OSError, TransportError, TypeError, ValueError) as error:
        raise SystemExit(f"rank {MPI.COMM_WORLD.rank}: {error}") from error
