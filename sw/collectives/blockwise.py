# SPDX-License-Identifier: BSD-2-Clause
"""Reduce-scatter and all-gather, the two halves of an all-reduce.

Both work on one block of values per rank, in the order of the ranks. Blocks may have different lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

from ..transport import Transport
from ..transport.mpi import transport_of
from .algorithms.hierarchical import hierarchical_all_gather, hierarchical_reduce_scatter
from .algorithms.parts import RankBlocks, Shares
from .algorithms.ring import all_gather_steps, reduce_scatter_steps, ring
from .call import Call, Collective, run
from .requests import CollectiveRequest, in_order, start
from .settings import RING_ALGORITHMS, Op, Path, RingAlgorithm, Scale, Settings
from .values.buffers import GatherBuffers, ScatterBuffers
from .values.stream_codec import StreamCodec

REDUCE_SCATTER = Collective("reduce-scatter", algorithms=RING_ALGORITHMS)
ALL_GATHER = Collective("all-gather", summed=False, algorithms=RING_ALGORITHMS)

Counts = Sequence[int] | None


class BlockSettings(TypedDict, total=False):
    """The settings of these calls, each as `allreduce_comp` describes it."""

    codec: StreamCodec | None
    path: Path
    algorithm: RingAlgorithm
    scale: Scale
    group_size: int | None
    dtype: Literal["bfloat16"] | None
    sub_block: int


def reduce_scatter_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    op: Op = Op.SUM,
    *,
    counts: Counts = None,
    timeout: float | None = None,
    **settings: Unpack[BlockSettings],
) -> None:
    """Sums the send buffers of all ranks; each rank receives one block of the sum.

    ``sendbuf`` holds a block for every rank, and ``recvbuf`` of rank *r* gets the sum of blocks *r*. With
    `IN_PLACE` as ``sendbuf``, ``recvbuf`` holds all blocks and gets the sum at its start. ``counts`` are the
    lengths of the blocks, equal at all ranks; 0 is allowed. By default all are as long as ``recvbuf``.

    The other arguments, types and errors are those of `allreduce_comp`. The result passes ``size - 1``
    compressions and is not compressed itself, so its error is at most ``size - 1`` times the bound.

    It needs memory for an array as large as ``sendbuf``, or none in place. Each rank sends ``(size - 1) /
    size`` of the values.
    """
    transport, chosen = transport_of(comm, timeout), Settings(op, **settings)
    in_order(transport, timeout, lambda: _reduce_scatter(transport, sendbuf, recvbuf, counts, chosen))


def ireduce_scatter_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    op: Op = Op.SUM,
    *,
    counts: Counts = None,
    timeout: float | None = None,
    **settings: Unpack[BlockSettings],
) -> CollectiveRequest:
    """Begins a `reduce_scatter_comp` of the same arguments and returns; see `CollectiveRequest`."""
    transport, chosen = transport_of(comm, timeout), Settings(op, **settings)
    return start(transport, timeout, lambda: _reduce_scatter(transport, sendbuf, recvbuf, counts, chosen))


def allgather_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    *,
    counts: Counts = None,
    timeout: float | None = None,
    **settings: Unpack[BlockSettings],
) -> None:
    """Collects the send buffers of all ranks in every receive buffer, one after the other in rank order.

    All ranks get bit-identical results, since a rank's own block is replaced by the values that the others
    receive. With `IN_PLACE` as ``sendbuf``, a rank's block is already at its place in ``recvbuf``. ``counts``
    are the lengths of the blocks, equal at all ranks; 0 is allowed. By default all are as long as
    ``sendbuf``.

    The other arguments, types and errors are those of `allreduce_comp`. Every value is within the bound,
    since its owner compresses it once, and the others forward it unchanged. Here each rank chooses its own
    ``scale="auto"``, so the bound is relative to the largest value of its block.
    """
    transport, chosen = transport_of(comm, timeout), Settings(**settings)
    in_order(transport, timeout, lambda: _all_gather(transport, sendbuf, recvbuf, counts, chosen))


def iallgather_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    *,
    counts: Counts = None,
    timeout: float | None = None,
    **settings: Unpack[BlockSettings],
) -> CollectiveRequest:
    """Begins an `allgather_comp` of the same arguments and returns; see `CollectiveRequest`."""
    transport, chosen = transport_of(comm, timeout), Settings(**settings)
    return start(transport, timeout, lambda: _all_gather(transport, sendbuf, recvbuf, counts, chosen))


def _reduce_scatter(t: Transport, sendbuf: Any, recvbuf: Any, counts: Counts, settings: Settings) -> None:
    buffers: ScatterBuffers

    def check() -> ScatterBuffers:
        nonlocal buffers
        buffers = ScatterBuffers(sendbuf, recvbuf, settings.dtype, t.rank, t.size, counts)
        return buffers

    def move(call: Call) -> None:
        form, size = call.form, t.size
        blocks = RankBlocks(buffers.counts, settings.sub_block)
        if settings.algorithm == "ring":
            ring(
                form, range(size), call.source, call.lanes, _one_each(blocks, size),
                reduce_scatter_steps(size),
            )  # fmt: skip
        else:
            hierarchical_reduce_scatter(form, settings.group(size), call.source, call.lanes, blocks)
        call.unscale(call.lanes[buffers.own], call.exponents[0])

    run(t, REDUCE_SCATTER, settings, check, move)


def _all_gather(t: Transport, sendbuf: Any, recvbuf: Any, counts: Counts, settings: Settings) -> None:
    buffers: GatherBuffers

    def check() -> GatherBuffers:
        nonlocal buffers
        buffers = GatherBuffers(sendbuf, recvbuf, settings.dtype, t.rank, t.size, counts)
        return buffers

    def move(call: Call) -> None:
        form, size, lanes = call.form, t.size, call.lanes
        blocks = RankBlocks(buffers.counts, settings.sub_block)
        if size > 1:
            form.settle(lanes[buffers.own])
        if settings.algorithm == "ring":
            ring(form, range(size), lanes, lanes, _one_each(blocks, size), all_gather_steps(size))
        else:
            hierarchical_all_gather(form, settings.group(size), lanes, blocks)
        for rank, exponent in enumerate(call.exponents):
            call.unscale(lanes[blocks.block(rank)], exponent)

    run(t, ALL_GATHER, settings, check, move)


def _one_each(blocks: RankBlocks, size: int) -> Shares:
    """Rank *r* owns block *r*."""
    return Shares(blocks, [[rank] for rank in range(size)])
