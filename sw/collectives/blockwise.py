# SPDX-License-Identifier: BSD-2-Clause
"""Reduce-scatter and all-gather, the two halves of an all-reduce.

Both work on one block of values per rank, in the order of the ranks. Blocks may have different lengths.
"""

from collections.abc import Sequence
from typing import Any, Unpack

from ..transport import Transport
from .algorithms.hierarchical import hierarchical_all_gather, hierarchical_reduce_scatter
from .algorithms.parts import RankBlocks, Shares
from .algorithms.ring import all_gather_steps, reduce_scatter_steps, ring
from .call import Call, Collective, run
from .requests import Plan, blocking, nonblocking, plan
from .settings import RING_ALGORITHMS, BlockKeywords, Op, Settings
from .values.buffers import GatherBuffers, ScatterBuffers

REDUCE_SCATTER = Collective("reduce-scatter", algorithms=RING_ALGORITHMS)
ALL_GATHER = Collective("all-gather", summed=False, algorithms=RING_ALGORITHMS)

Counts = Sequence[int] | None


@blocking
def reduce_scatter_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    op: Op = Op.SUM,
    *,
    counts: Counts = None,
    timeout: float | None = None,
    **settings: Unpack[BlockKeywords],
) -> Plan:
    """Sum the send buffers of all ranks; each rank receives one block of the sum.

    ``sendbuf`` holds a block for every rank, and ``recvbuf`` of rank *r* gets the sum of blocks *r*. With
    `IN_PLACE` as ``sendbuf``, ``recvbuf`` holds all blocks and gets the sum at its start. ``counts`` are the
    lengths of the blocks, equal at all ranks; 0 is allowed. By default all are as long as ``recvbuf``.

    The other arguments, types and errors are those of `allreduce_comp`. The result passes ``size - 1``
    compressions and is not compressed itself, so its error is at most ``size - 1`` times the bound. (With
    ``planes``, where own values are quantised and sums are exact, it is ``size`` times the bound.)

    It needs memory for an array as large as ``sendbuf``, or none in place. Each rank sends ``(size - 1) /
    size`` of the values.
    """
    return plan(comm, timeout, reduce_scatter, sendbuf, recvbuf, counts, Settings(op, **settings))


ireduce_scatter_comp = nonblocking(reduce_scatter_comp)


@blocking
def allgather_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    *,
    counts: Counts = None,
    timeout: float | None = None,
    **settings: Unpack[BlockKeywords],
) -> Plan:
    """Collect the send buffers of all ranks in every receive buffer, one after the other in rank order.

    All ranks get bit-identical results, since a rank's own block is replaced by the values that the others
    receive. With `IN_PLACE` as ``sendbuf``, a rank's block is already at its place in ``recvbuf``. ``counts``
    are the lengths of the blocks, equal at all ranks; 0 is allowed. By default all are as long as
    ``sendbuf``.

    The other arguments, types and errors are those of `allreduce_comp`. Every value is within the bound,
    since its owner compresses it once, and the others forward it unchanged. Here each rank chooses its own
    ``scale="auto"``, so the bound is relative to the largest value of its block.
    """
    return plan(comm, timeout, all_gather, sendbuf, recvbuf, counts, Settings(**settings))


iallgather_comp = nonblocking(allgather_comp)


def reduce_scatter(t: Transport, sendbuf: Any, recvbuf: Any, counts: Counts, settings: Settings) -> None:
    """Do `reduce_scatter_comp`, as the call of a `plan`."""

    def move(call: Call, buffers: ScatterBuffers) -> None:
        form, source, lanes = call.form, call.source, call.lanes
        blocks = RankBlocks(buffers.counts, settings.sub_block)
        if settings.algorithm == "ring":
            ring(form, range(t.size), source, lanes, _one_each(blocks, t.size), reduce_scatter_steps(t.size))
        else:
            hierarchical_reduce_scatter(form, settings.group(t.size), source, lanes, blocks)
        call.settle_sum(lanes[buffers.own])
        call.unscale(lanes[buffers.own], start=buffers.own.start)

    run(
        t, REDUCE_SCATTER, settings,
        lambda: ScatterBuffers(sendbuf, recvbuf, settings.dtype, t.rank, t.size, counts), move,
    )  # fmt: skip


def all_gather(t: Transport, sendbuf: Any, recvbuf: Any, counts: Counts, settings: Settings) -> None:
    """Do `allgather_comp`, as the call of a `plan`."""

    def move(call: Call, buffers: GatherBuffers) -> None:
        form, lanes = call.form, call.lanes
        blocks = RankBlocks(buffers.counts, settings.sub_block)
        if t.size > 1:
            form.settle(lanes[buffers.own])
        if settings.algorithm == "ring":
            ring(form, range(t.size), lanes, lanes, _one_each(blocks, t.size), all_gather_steps(t.size))
        else:
            hierarchical_all_gather(form, settings.group(t.size), lanes, blocks)
        for rank in range(t.size):
            call.unscale(lanes[blocks.block(rank)], rank)

    run(
        t, ALL_GATHER, settings,
        lambda: GatherBuffers(sendbuf, recvbuf, settings.dtype, t.rank, t.size, counts), move,
    )  # fmt: skip


def _one_each(blocks: RankBlocks, size: int) -> Shares:
    """Let rank *r* own block *r*."""
    return Shares(blocks, [[rank] for rank in range(size)])
