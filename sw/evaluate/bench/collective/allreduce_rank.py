# SPDX-License-Identifier: BSD-2-Clause
"""One rank of ``inceptionn bench allreduce``; under MPI it measures MPI's own, too, in the same processes."""

import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .... import converted
from ....collectives import MEAN, SUM, Parts, allgather_comp, allreduce_comp, reduce_scatter_comp, statistics
from ....transport import Transport
from ..common.rank import Plan, mpi_world, tell
from .variants import ALL_GATHER, MPI, REDUCE_SCATTER, RING_RAW, VARIANTS, Variant

CHUNK = 1 << 18
"""Values compared at a time."""
_HALF_A_PLACE = 2.0**-8
"""The most by which rounding to bfloat16 changes a value, relative to it."""

Lanes = NDArray[np.float32]
Exact = NDArray[np.floating[Any]]
Call = Callable[[Any, Any], object]
"""Makes the result of a rank's own values, in memory that exists."""


def main(transport: Transport, plan: Plan) -> None:
    """Run the plan."""
    comm = mpi_world()
    for kind, paths in plan["arrays"].items():
        given = np.load(paths[transport.rank])
        sources = [_wide(np.load(path, mmap_mode="r")) for path in paths]
        total = np.zeros(given.size)
        for source in sources:
            total += source
        blocks = [Parts(given.size, len(paths)).block(rank) for rank in range(len(paths))]
        counts = [block.stop - block.start for block in blocks]
        mine = blocks[transport.rank]
        for op in plan["ops"]:
            exact_of = partial(_exact, op, sources, total, blocks, mine)
            call_of = partial(_call, transport, comm, plan, op, counts)
            own = given[mine] if op == ALL_GATHER else given
            _measure(transport, plan, {"data": kind, "op": op}, own, call_of, exact_of)


def _exact(
    op: str, sources: Sequence[Lanes], total: Exact, blocks: Sequence[slice], mine: slice, variant: Variant
) -> Exact:
    """Return a rank's correct result. ``mine``: its block; ``total``: the sum of the ranks' ``sources``."""
    if op == REDUCE_SCATTER:
        return total[mine]
    if op == ALL_GATHER:  # of every rank its block of its own values
        return np.concatenate([source[block] for source, block in zip(sources, blocks, strict=True)])
    whole = total - sources[0] if variant.apart else total
    return whole / (len(sources) - variant.apart) if op == "mean" else whole


def _measure(
    transport: Transport, plan: Plan, what: dict[str, str], own: NDArray[Any], call_of: Callable[[str], Call],
    exact_of: Callable[[Variant], Exact],
) -> None:  # fmt: skip
    """Time all variants in rounds, so that other load on the machine affects all of them alike."""
    result = np.zeros(exact_of(VARIANTS[RING_RAW]).size, own.dtype)
    for turn in range(max(plan["rounds"].values())):
        for name, rounds in plan["rounds"].items():
            variant = VARIANTS[name]
            if turn >= rounds or not variant.does(what["op"]):
                continue
            call = call_of(name)
            if turn == 0:
                call(own, result)  # not timed: it opens connections and loads code
            transport.barrier()
            before, counted = transport.bytes_sent, statistics(transport)
            start = time.perf_counter()
            call(own, result)
            line: dict[str, Any] = {**what, "variant": name}
            line["seconds"] = max(transport.exchange(time.perf_counter() - start))
            if turn == 0:
                if name != MPI:
                    line["bytes_sent"] = max(transport.exchange(transport.bytes_sent - before))
                    line["scale"] = statistics(transport).since(counted).scale or 0
                line |= _checked(transport, result, exact_of(variant), what["op"] != REDUCE_SCATTER)
            tell(transport, line)


def _wide(values: NDArray[Any]) -> Lanes:
    """Return values as float32; uint16 are bfloat16 patterns."""
    return converted(values, patterns=True) if values.dtype == np.uint16 else values


def _checked(transport: Transport, result: NDArray[Any], exact: Exact, shared: bool) -> dict[str, Any]:
    """Compare a result with the exact one, but for rounding to bfloat16, and the ranks' bits if shared."""
    error = 0.0
    for i in range(0, max(1, result.size), CHUNK):
        part = _wide(result[i : i + CHUNK])
        errors = np.abs(part - exact[i : i + CHUNK])
        if result.dtype == np.uint16:
            errors -= np.abs(part) * _HALF_A_PLACE
        error = max(error, float(errors.max(initial=0.0)))
    found = transport.exchange([zlib.crc32(result.data), error])
    return {
        "same_bits": not shared or len({checksum for checksum, _ in found}) == 1,
        "largest_error": max(error for _, error in found),
    }


def _call(transport: Transport, comm: Any, plan: Plan, op: str, counts: Sequence[int], name: str) -> Call:
    """Return what a variant does of an operation, by us or by MPI. ``counts``: lanes of the ranks' blocks."""
    if name == MPI:
        return _by_mpi(comm, op, counts)
    settings = {**VARIANTS[name].settings(plan["bound"], plan.get("scale")), "dtype": "bfloat16"}
    if op == ALL_GATHER:
        return partial(allgather_comp, transport, counts=counts, **settings)
    which = MEAN if op == "mean" else SUM
    if op == REDUCE_SCATTER:
        return partial(reduce_scatter_comp, transport, op=which, counts=counts, **settings)
    return partial(allreduce_comp, transport, op=which, **settings)


def _by_mpi(comm: Any, op: str, counts: Sequence[int]) -> Call:
    def mean(own: Lanes, result: Lanes) -> None:
        comm.Allreduce(own, result)
        np.multiply(result, np.float32(1 / comm.size), out=result)

    calls: dict[str, Call] = {
        "sum": comm.Allreduce,
        "mean": mean,
        REDUCE_SCATTER: lambda own, result: comm.Reduce_scatter(own, result, counts),
        ALL_GATHER: lambda own, result: comm.Allgatherv(own, [result, counts]),
    }
    return calls[op]
