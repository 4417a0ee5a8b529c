# SPDX-License-Identifier: BSD-2-Clause
"""A2DTWP on an existing MPI: each layer's weights travel with the leading bytes that it needs.

    mpirun -np 4 python -m mpi4py examples/a2dtwp.py [--aggregator] [--oracle BYTES] [--whole] [--codec CODEC]

Workers train a perceptron on handwritten digits. Weights are pulled from a parameter server, or with
--aggregator sent by rank 0, in the formats that AWP chooses; --oracle keeps one format for the whole
training, --whole sends fp32. With --codec gradients are sent through it.
"""

import argparse
from typing import Any

from mpi4py import MPI

from inceptionn import CODECS, Codec
from inceptionn.evaluate.training import MLP, Batches, Parameters, digits
from inceptionn.layers.a2dtwp import AWP, AdtEncoding, Oracle, WeightAggregator, weight_keys
from inceptionn.layers.parameter_server import MomentumSGD, ParameterServer
from inceptionn.layers.traffic import Traffic
from inceptionn.transport import MpiTransport, Transport, TransportError, connect_mpi

MODEL = MLP(64, (128,), 10)


def by_servers(
    transport: Transport, arguments: argparse.Namespace, batches: Batches, precision: Any, codec: Any
) -> tuple[Parameters, Traffic]:
    """Train with every rank as worker and server; weights are packed on the pull leg."""
    group = ParameterServer(
        transport,
        MODEL.initial(),
        MomentumSGD(arguments.rate, 0.9, arguments.decay),
        codec=codec,
        encoding=None if precision is None else AdtEncoding(precision),
    )
    with group:
        assert group.worker is not None
        weights = group.worker.pull()
        for step in range(arguments.steps):
            group.worker.push(MODEL.gradients(weights, batches.at(step)))
            weights = group.worker.pull()
    return weights, group.traffic


def by_aggregator(
    transport: Transport, arguments: argparse.Namespace, batches: Batches, precision: Any, codec: Any
) -> tuple[Parameters, Traffic]:
    """Train with rank 0 as the keeper of the weights; it sends them to all, packed."""
    weights = MODEL.initial()
    optimizer = MomentumSGD(arguments.rate, 0.9, arguments.decay)
    aggregator = WeightAggregator(transport, weights, optimizer, precision=precision, codec=codec)
    for step in range(arguments.steps):
        weights = aggregator.step(MODEL.gradients(weights, batches.at(step)))
    return weights, aggregator.traffic


def main() -> None:
    """Train, and let rank 0 print formats, bytes and accuracy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--aggregator", action="store_true", help="rank 0 in place of parameter servers")
    parser.add_argument("--oracle", type=int, metavar="BYTES", help="one format for the whole training")
    parser.add_argument("--whole", action="store_true", help="weights as fp32")
    parser.add_argument("--threshold", type=float, default=1e-3, help="T of AWP")
    parser.add_argument("--interval", type=int, default=40, help="INTERVAL of AWP, in steps")
    parser.add_argument("--increment", type=int, default=8, help="N of AWP, in bits")
    parser.add_argument("--codec", choices=CODECS, help="gradients through this codec")
    parser.add_argument("--tcp", action="store_true", help="data over TCP, MPI only to find the ranks")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="samples per worker and step")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    parser.add_argument("--decay", type=float, default=1e-4, help="weight decay")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps must be at least 1, not {arguments.steps}")

    comm = MPI.COMM_WORLD
    data = digits()
    precision: Any = None
    if arguments.oracle is not None:
        precision = Oracle(dict.fromkeys(weight_keys(MODEL.initial()), arguments.oracle))
    elif not arguments.whole:
        precision = AWP(
            weight_keys(MODEL.initial()),
            threshold=arguments.threshold,
            interval=arguments.interval,
            increment=arguments.increment,
        )
    train = by_aggregator if arguments.aggregator else by_servers
    with connect_mpi(comm) if arguments.tcp else MpiTransport(comm) as transport:
        batches = Batches(data.train, arguments.batch, transport.rank, transport.size)
        codec = Codec(2**-10, arguments.codec) if arguments.codec else None
        weights, own = train(transport, arguments, batches, precision, codec)
        traffic = own.of_all(transport)
        if transport.rank == 0:
            form = "fp32" if precision is None else precision.name
            print(f"{transport.size} workers, {MODEL.name}, {form}")
            for kind, sent in traffic.per_step(arguments.steps).items():
                ratio = traffic.raw[kind] / traffic.sent[kind]
                print(f"bytes/step  {kind:10} {sent:12.0f}   ratio {ratio:.2f}")
            if precision is not None:
                print("bits        " + ", ".join(f"{key} {precision.bits(key)}" for key in weights))
            print(f"accuracy    {MODEL.accuracy(weights, data.test):.4f}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, OSError, TransportError, TypeError, ValueError) as error:
        raise SystemExit(f"rank {MPI.COMM_WORLD.rank}: {error}") from error
