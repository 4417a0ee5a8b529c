# SPDX-License-Identifier: BSD-2-Clause
"""All-reduce of gradients, compressed, on an existing MPI:

    mpirun -np 4 python -m mpi4py examples/allreduce.py [--tcp] [--values N] [--op sum|mean]

Every rank makes gradient-like values of its own; they are summed by MPI itself and by the ring, raw and
compressed, and the results compared. Without --tcp all messages go through MPI. With it, MPI only joins the
ranks: the data go over TCP, and if every host has a NIC with the engines, over marked connections.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from inceptionn import Codec
from inceptionn.collectives import MEAN, SUM, CompressedCommunicator
from inceptionn.transport import connect_mpi


def gradients(rank: int, count: int) -> np.ndarray:
    """Draw Laplace-distributed values, like those of layers.

    Blocks of 4096 have different spread.
    """
    source = np.random.default_rng(rank)
    values = source.laplace(size=count).astype(np.float32)
    spread = 10.0 ** source.uniform(-3.5, -2.5, size=count // 4096 + 1)
    return values * np.repeat(spread, 4096)[:count].astype(np.float32)


def seconds(comm: MPI.Comm, call: Callable[[], None], repeats: int = 5) -> float:
    """Return the median over repetitions of the slowest rank's time."""
    times = []
    for _ in range(repeats + 1):  # the first one warms up
        comm.Barrier()
        start = time.perf_counter()
        call()
        times.append(comm.allreduce(time.perf_counter() - start, op=MPI.MAX))
    return float(np.median(times[1:]))


def main() -> None:
    """Run, and let rank 0 print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tcp", action="store_true", help="data over TCP, MPI only to find the ranks")
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--op", choices=("sum", "mean"), default="mean")
    parser.add_argument("--bound", type=int, default=10, help="error bound 2^-BOUND without NICs")
    arguments = parser.parse_args()

    comm = MPI.COMM_WORLD
    op = MEAN if arguments.op == "mean" else SUM
    transport = connect_mpi(comm) if arguments.tcp else None
    codec = (transport and transport.nic_codec) or Codec(2.0**-arguments.bound, "planes")
    raw = CompressedCommunicator(comm, transport=transport, path="off")
    compressed = CompressedCommunicator(comm, transport=transport, codec=codec)

    x = gradients(comm.rank, arguments.values)
    exact, y = np.empty_like(x), np.empty_like(x)
    by_mpi = seconds(comm, lambda: comm.Allreduce(x, exact, op=MPI.SUM))
    if op is MEAN:
        exact /= comm.size
    by_ring = seconds(comm, lambda: raw.Allreduce(x, y, op))
    by_codec = seconds(comm, lambda: compressed.Allreduce(x, y, op))

    same = len(set(comm.allgather(y.tobytes()))) == 1
    error = float(np.abs(y - exact).max()) if y.size else 0.0
    if comm.rank == 0:
        print(f"{comm.size} ranks, {x.size} values each, {arguments.op}")
        print(f"MPI Allreduce      {by_mpi * 1e3:9.2f} ms")
        print(f"ring, raw          {by_ring * 1e3:9.2f} ms")
        nic = transport is not None and transport.nic
        print(
            f"ring, {'NIC' if nic else 'codec'}{' ' * (13 - 4 * nic if nic else 8)}{by_codec * 1e3:9.2f} ms"
        )
        print(f"largest error {error:.2e}; bound of one compression {codec.error_bound:.2e}")
        print(f"bit-identical at all ranks: {'yes' if same else 'NO'}")
    if transport is not None:
        transport.close()
    limit = codec.error_bound * (2 if op is MEAN else comm.size) * 1.01
    if not same or error > limit:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
