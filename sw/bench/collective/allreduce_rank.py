# SPDX-License-Identifier: BSD-2-Clause
"""One rank of ``inceptionn bench allreduce``: what runs in each host.

    python -m inceptionn.bench.collective.allreduce_rank PLAN [RANK]

Under MPI its own all-reduce can be measured in the same processes. Rank 0 prints one JSON line per
measurement.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...collectives import MEAN, SUM, allreduce_comp
from ...transport import Transport
from ..common.rank import Plan, mpi_world, report, run
from .variants import MPI, variant_of

WARM_UP = 1 << 18
"""Values of a first call that is not timed: it opens connections and loads code."""

Lanes = NDArray[np.float32]


def main(transport: Transport, plan: Plan) -> None:
    """Runs the plan."""
    comm = mpi_world()
    for kind, paths in plan["arrays"].items():
        sources = [np.load(path, mmap_mode="r") for path in paths]
        own = np.array(sources[transport.rank])
        total = np.zeros(own.size)
        for source in sources:
            total += source
        for op in plan["ops"]:
            exact = total / transport.size if op == "mean" else total
            _measure(transport, comm, plan, {"data": kind, "op": op}, own, exact)


def _measure(
    transport: Transport,
    comm: Any,
    plan: Plan,
    what: dict[str, str],
    own: Lanes,
    exact: NDArray[np.float64],
) -> None:
    """Times all variants in rounds, so that other load on the machine affects all of them alike."""
    result = np.zeros_like(own)
    for turn in range(max(plan["rounds"].values())):
        for name, rounds in plan["rounds"].items():
            if turn >= rounds:
                continue
            call = _call(transport, comm, plan["bound"], what["op"], name)
            if turn == 0:
                call(own[:WARM_UP], result[:WARM_UP])
            transport.barrier()
            before = transport.bytes_sent
            start = time.perf_counter()
            call(own, result)
            line: dict[str, Any] = {**what, "variant": name}
            line["seconds"] = max(transport.exchange(time.perf_counter() - start))
            if turn == 0:
                if name != MPI:
                    line["bytes_sent"] = max(transport.exchange(transport.bytes_sent - before))
                line |= _checked(transport, result, exact)
            report(transport, line)


def _checked(transport: Transport, result: Lanes, exact: NDArray[np.float64]) -> dict[str, Any]:
    """Whether all ranks hold the same bits, and how far they are from the exact result."""
    error = max(float(np.abs(result[i : i + WARM_UP] - exact[i : i + WARM_UP]).max(initial=0.0))
                for i in range(0, max(1, result.size), WARM_UP))  # fmt: skip
    found = transport.exchange([zlib.crc32(result.data), error])
    return {
        "same_bits": len({checksum for checksum, _ in found}) == 1,
        "largest_error": max(error for _, error in found),
    }


def _call(
    transport: Transport, comm: Any, bound: float, op: str, name: str
) -> Callable[[Lanes, Lanes], None]:
    if name != MPI:
        settings = variant_of(name).settings(bound)
        which = MEAN if op == "mean" else SUM
        return lambda own, result: allreduce_comp(transport, own, result, which, **settings)
    factor = np.float32(1 / transport.size)

    def by_mpi(own: Lanes, result: Lanes) -> None:
        comm.Allreduce(own, result)
        if op == "mean":
            np.multiply(result, factor, out=result)

    return by_mpi


if __name__ == "__main__":
    run(main)
