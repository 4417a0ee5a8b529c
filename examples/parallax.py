# SPDX-License-Identifier: BSD-2-Clause
"""Parallax on an existing MPI: an embedding by partitioned servers, the rest by all-reduce.

    mpirun -np 4 python -m mpi4py examples/parallax.py [--strategy hybrid|parameter_server|all_gather|dense]
        [--tcp]

Documents with Zipf-distributed words are classified by the mean of their word vectors. The first steps
measure which share of the embedding a worker uses (alpha) and how many partitions are fastest; then training
continues.
"""

import argparse
import time

from mpi4py import MPI

from inceptionn import CODECS, Codec
from inceptionn.evaluate.training import Batches, EmbeddingClassifier, zipf_documents
from inceptionn.layers import parallax
from inceptionn.transport import MpiTransport, TransportError, connect_mpi


def main() -> None:
    """Train, and let rank 0 print what was chosen and sent."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--strategy", choices=("hybrid", "parameter_server", "all_gather", "dense"), default="hybrid"
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--words", type=int, default=20_000, help="rows of the embedding")
    parser.add_argument("--partitions", type=int, help="of the embedding; default: search")
    parser.add_argument("--codec", choices=CODECS, help="gradients through this codec")
    parser.add_argument("--tcp", action="store_true", help="data over TCP, MPI only to find the ranks")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps must be at least 1, not {arguments.steps}")

    comm = MPI.COMM_WORLD
    data = zipf_documents(arguments.words, 16, 8192)
    model = EmbeddingClassifier(arguments.words, 64, data.classes)
    with parallax.partitioner() as words:
        parallax.variable("embedding", None)
    config = parallax.ParallaxConfig(
        strategy=arguments.strategy,
        partitions=arguments.partitions,
        codec=Codec(2**-12, arguments.codec) if arguments.codec else None,
        path="software" if arguments.codec else "off",
        warm_up=5,
        sampled=15,
    )
    with connect_mpi(comm) if arguments.tcp else MpiTransport(comm) as transport:
        # Rates are high because each word occurs in few documents and the mean divides by all of them.
        runner = parallax.get_runner(
            model, transport, lambda: parallax.MomentumSGD(20.0, momentum=0), config, partitioners=[words]
        )
        batches = Batches(data.train, 32, transport.rank, transport.size)
        start = time.perf_counter()
        for step in range(arguments.steps):
            loss = runner.run(batches.at(step))
        seconds = (time.perf_counter() - start) / arguments.steps
        traffic = runner.traffic.of_all(transport)
        accuracy = model.accuracy(runner.gathered(), data.test)
    if comm.rank == 0:
        alpha = runner.alphas.get("embedding")
        print(f"{comm.size} workers, {arguments.strategy}, embedding of {arguments.words} x {model.width}")
        print(f"alpha              {'-' if alpha is None else f'{alpha:.4f}'}")
        print(f"embedding by       {runner.architectures['embedding'].replace('_', ' ')}")
        for search in runner.searches:
            samples = ", ".join(f"{p}: {1e3 * t:.2f} ms" for p, t in search.samples.items())
            print(f"partitions tried   {samples}")
        print(f"partitions         {runner.partitions('embedding')}")
        print(f"step               {1e3 * seconds:.2f} ms")
        for kind, per_step in traffic.per_step(arguments.steps).items():
            print(f"bytes/step         {kind:10} {per_step:12.0f}")
        print(f"loss, accuracy     {loss:.3f}, {accuracy:.3f}")


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, OSError, TransportError, TypeError, ValueError) as error:
        raise SystemExit(f"rank {MPI.COMM_WORLD.rank}: {error}") from error
