# SPDX-License-Identifier: BSD-2-Clause
"""`allreduce_comp`: the paper's ``MPI_collective_communication_comp`` (Sec. VI-C) for the all-reduce."""

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from ..transport import Transport
from .algorithms.aggregators import Place, aggregate, one_aggregator, paper_tree, tree_levels
from .algorithms.hierarchical import hierarchical_all_reduce
from .algorithms.one_step import fits, one_step
from .algorithms.parts import Parts
from .algorithms.ring import all_reduce_steps, ring
from .call import Call, Collective, Feedback, run
from .requests import Plan, blocking, nonblocking, plan
from .settings import Op, Settings, SumKeywords
from .values.buffers import HALVES, Buffers
from .values.wire_form import Raw

SUM, MEAN = Op.SUM, Op.MEAN


@blocking
def allreduce_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    op: Op = SUM,
    *,
    feedback: Feedback = None,
    timeout: float | None = None,
    **settings: Unpack[SumKeywords],
) -> Plan:
    """Sum the send buffers of all ranks into each receive buffer; all ranks get bit-identical results.

    All ranks call it with arrays of the same count and type and the same settings.

    Parameters
    ----------
    comm
        A `Transport`, or an mpi4py communicator.
    sendbuf, recvbuf
        Arrays of any shape. `IN_PLACE` (or None, or ``MPI.IN_PLACE``) as ``sendbuf`` takes the values from
        ``recvbuf``. float32 needs no conversion; see `buffers` for other types and their cost.
    op
        `SUM` or `MEAN`.
    codec
        An `inceptionn.Codec`, its name (``"planes"``, with the default bound), or another `StreamCodec`, such
        as `BFloat16` or a class of your own. Default: the NICs' codec, else planes.
    path
        "nic" sends floats on marked connections, where the NICs compress them. "software" compresses here,
        "off" sends raw. "auto" is "nic" if every rank has a NIC set to this codec, else "software".
    algorithm
        "ring" (Algorithm 1), "hierarchical" (Fig. 1b, 1c), "worker_aggregator" (rank 0 aggregates and
        contributes values), or "paper_baseline" (Fig. 1a). The last is a tree of aggregators, the first
        ranks. They contribute no values: no send buffer of theirs is read, a mean is that of the workers.
    scale
        Values are multiplied by ``2**scale`` before and divided afterwards. This is exact (except for
        subnormal numbers) and scales the error bound. With "auto" and an `inceptionn.Codec`, the sum of the
        largest values is brought just below 1; other codecs get unscaled values. "tensor" does so in each of
        ``sections``, the lengths of the array's tensors. "rms" brings the power of two nearest to 2.8 times
        the root mean square of all ranks' values to 1: for bounds of 2^-5 or coarser, and with ``feedback``.
        None makes values below the bound zero.
    legs
        The compressed legs of an aggregator: "up", "down", "both" (the default) or "none". The default is
        "up" for "paper_baseline": the paper sends weights down raw.
    group_size, upper
        For "hierarchical", the number of consecutive ranks per group, and the algorithm between groups. The
        last group may be smaller. The default size is the largest divisor of the number of ranks up to its
        square root. For "paper_baseline", ``group_size`` is the number of children per aggregator (default:
        one aggregator for all workers).
    dtype
        "bfloat16": uint16 arrays hold bfloat16 patterns. Of 16-bit arrays, scale "tensor" and aggregators
        make float32 copies, "hierarchical" a float32 array of the sum, ``feedback`` one of what is sent.
    sub_block
        Approximate number of lanes per message.
    feedback
        An `ErrorFeedback` and the array's name in it. Its residual is added to this rank's values; what
        ``codec`` removes is the next one. Its own codec and ranks are not used.
    timeout
        Seconds without progress after which a wait raises `TransportTimeout`. Default: the transport's.

    The error of every compression is within ``b = error_bound * 2**-scale``. A sum in a ring passes one
    compression per rank. So if scaled values stay below 1, the error is at most ``size * b`` for the sum.
    With ``planes`` it is exact once each rank's own values are quantised, and the same in every order and
    algorithm (`Codec.summing`; not with an aggregator's raw leg up). A mean is that sum, divided at every
    rank after the last compression: its error is at most ``b``. A ``RuntimeWarning`` is issued once per
    communicator if half or more of the energy of a rank's values becomes zero, or all but a few outliers.

    Raises `MismatchError` at every rank if they do not agree, or if one of them cannot take part (that rank
    raises its ``TypeError`` or ``ValueError``). Nothing has been sent in this case. Raises `TransportError`
    if a rank is lost, falls silent or sends malformed data; the transport cannot be used afterwards.
    After an error the receive buffer is unspecified.
    """
    return plan(comm, timeout, all_reduce, sendbuf, recvbuf, Settings(op, **settings), feedback)


iallreduce_comp = nonblocking(allreduce_comp)


def all_reduce(
    transport: Transport, sendbuf: Any, recvbuf: Any, settings: Settings, feedback: Feedback = None,
    terms: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Do `allreduce_comp`, as the call of a `plan`. ``terms``: further ones on which ranks must agree."""
    place = _place(transport, settings)
    contributes = place is None or place.contributes
    collective = Collective("all-reduce", contributes=contributes, terms=dict(terms or {}))
    run(
        transport, collective, settings, lambda: Buffers(sendbuf, recvbuf, settings.dtype),
        lambda call, buffers: _move(call, place, buffers.type), feedback,
    )  # fmt: skip


def _place(transport: Transport, settings: Settings) -> Place | None:
    """Return this rank's place in a tree; None for other algorithms and for arguments refused later."""
    if settings.algorithm == "worker_aggregator":
        return one_aggregator(range(transport.size), transport.rank)
    if settings.algorithm != "paper_baseline":
        return None
    try:
        return paper_tree(transport.size, settings.group_size, transport.rank)
    except (TypeError, ValueError):
        return None


def _move(call: Call, place: Place | None, kind: str) -> None:
    """Move the values, whose arrays at all ranks are of this ``kind``."""
    settings, form, source, lanes = call.settings, call.form, call.source, call.lanes
    size, legs, terms = call.transport.size, settings.compressed_legs, None
    up = form if legs in ("both", "up") else Raw(call.transport, form.spent)
    down = form if legs in ("both", "down") else Raw(call.transport, form.spent)
    # Lanes of 16 bits hold no partial sums; which ranks have them depends on their arrays' layout, too.
    in_one_step = settings.algorithm == "ring" and call.exact and kind not in HALVES

    if size == 1:
        if lanes is not source:
            np.copyto(lanes, source)
    elif place is not None:
        if settings.algorithm == "paper_baseline":
            terms = tree_levels(size, settings.group_size)[-1]
        finish = None if down is form else call.settle_sum
        aggregate(up, down, place, source, lanes, Parts(lanes.size, 1, settings.sub_block), finish)
    elif in_one_step and fits(form, lanes.size, call.bound):
        one_step(form, source, lanes, settings.sub_block)
    elif settings.algorithm == "ring":
        parts = Parts(lanes.size, size, settings.sub_block)
        ring(form, range(size), source, lanes, parts, all_reduce_steps(size))
    else:
        hierarchical_all_reduce(
            form, up, down, settings.group(size), settings.upper, source, lanes, settings.sub_block
        )
    call.unscale(lanes, terms=terms)
