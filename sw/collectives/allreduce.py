# SPDX-License-Identifier: BSD-2-Clause
"""`allreduce_comp`: the paper's ``MPI_collective_communication_comp`` (Sec. VI-C) for the all-reduce."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..transport import DEFAULT_TIMEOUT, MpiTransport, Transport
from ..transport.mpi import mpi_of
from .agreement import agree, choose_path, common_scale, effective, largest_exponent, moving_data
from .buffers import Buffers
from .hierarchical import hierarchical
from .lost_energy import watch
from .parts import SUB_BLOCK, Parts
from .ring import all_reduce_steps, ring
from .settings import Algorithm, Legs, Op, Path, Scale, Settings, Upper
from .wire_form import Raw, StreamCodec, WireForm, wire_form
from .worker_aggregator import worker_aggregator

SUM, MEAN = Op.SUM, Op.MEAN

_keyval: int | None = None


def transport_of(comm: Any, timeout: float | None = None) -> Transport:
    """The transport to use for a transport or an mpi4py communicator.

    A communicator gets an `MpiTransport` at its first call, which all its ranks must make, within ``timeout``
    seconds; it keeps it as an MPI attribute and frees it with itself. ``TypeError`` for anything else.
    """
    global _keyval
    if isinstance(comm, Transport):
        return comm
    mpi = mpi_of(comm)
    if _keyval is None:
        _keyval = mpi.Comm.Create_keyval(delete_fn=lambda comm, keyval, transport: transport.close())
    transport: Transport | None = comm.Get_attr(_keyval)
    if transport is None:
        transport = MpiTransport(comm, DEFAULT_TIMEOUT if timeout is None else timeout)
        transport.timeout = DEFAULT_TIMEOUT
        comm.Set_attr(_keyval, transport)
    return transport


def allreduce_comp(
    comm: Any,
    sendbuf: Any,
    recvbuf: Any,
    op: Op = SUM,
    *,
    codec: StreamCodec | None = None,
    path: Path = "auto",
    algorithm: Algorithm = "ring",
    scale: Scale = "auto",
    legs: Legs = "both",
    group_size: int | None = None,
    upper: Upper = "ring",
    dtype: Literal["bfloat16"] | None = None,
    sub_block: int = SUB_BLOCK,
    timeout: float | None = None,
) -> None:
    """Sums the send buffers of all ranks into the receive buffer of each; all end with the same bits.

    All ranks call it with arrays of the same count and type and the same settings.

    Parameters
    ----------
    comm
        A `Transport`, or an mpi4py communicator.
    sendbuf, recvbuf
        Arrays of any shape; `IN_PLACE` (or None, or ``MPI.IN_PLACE``) as ``sendbuf`` takes the values from
        ``recvbuf``. float32 without conversion; see `buffers` for other types and what they cost.
    op
        `SUM` or `MEAN`.
    codec
        An `inceptionn.Codec`, or another object with its methods (`BFloat16`). Default: what the NICs are
        set to where they are used, else ``Codec()``.
    path
        "nic": floats on marked connections, compressed by the NICs. "software": compressed here. "off":
        raw. "auto": "nic" if every rank has it, set to this codec; else "software".
    algorithm
        "ring" (Algorithm 1), "hierarchical" (Fig. 1b, 1c), "worker_aggregator" (rank 0 aggregates).
    scale
        Values are multiplied by ``2**scale`` before and divided again afterwards, which is exact (except for
        subnormal numbers) and moves the error bound. "auto": so that the sum of the largest values stays just
        below 1, by an `inceptionn.Codec`; other codecs take values as they are. None: as they are; what is
        below the bound then becomes zero.
    legs
        For an aggregator: which of the ways to and from it is compressed.
    group_size, upper
        For "hierarchical": consecutive ranks per group, where the last group may be smaller (default: the
        largest divisor of their number up to its square root), and what joins the groups.
    dtype
        "bfloat16": uint16 arrays hold bfloat16 patterns.
    sub_block
        Lanes per message, about.
    timeout
        Seconds without progress after which a wait for another rank ends in `TransportTimeout`; each rank its
        own. Default: the transport's, which is `inceptionn.transport.DEFAULT_TIMEOUT` unless it was told.

    Every compression is within the codec's bound, times ``2**-scale``. A sum in a ring passes one per rank,
    so where scaled values stay below 1 its error is at most ``size`` times that, that of the mean twice that.
    ``RuntimeWarning``, once per communicator, if half of the energy of a rank's values or more is below it.

    `MismatchError` at every rank if they do not agree, or if one of them cannot take part (there, its own
    ``TypeError`` or ``ValueError``): nothing has been sent then. `TransportError` if a rank is lost, falls
    silent or sends what is malformed; the transport is of no more use then. The receive buffer is unspecified
    after an error.
    """
    transport = transport_of(comm, timeout)
    settings = Settings(op, codec, path, algorithm, scale, legs, group_size, upper, dtype, sub_block)
    with transport.patience(timeout):
        _all_reduce(transport, sendbuf, recvbuf, settings)


def _all_reduce(transport: Transport, sendbuf: Any, recvbuf: Any, settings: Settings) -> None:
    size, scale = transport.size, settings.scale
    error: Exception | None = None
    terms = settings.terms()
    largest = None
    scaled: Scale = None
    try:
        settings.check(size)
        wire_path, used = choose_path(transport, settings.path, settings.codec)
        buffers = Buffers(sendbuf, recvbuf, settings.dtype)
        terms |= {"count": buffers.count, "dtype": buffers.type}
        source, lanes = buffers.load()
        scaled = effective(scale, wire_path, used)
        if scaled is not None:
            largest = largest_exponent(source)
    except (TypeError, ValueError) as problem:
        error = problem
    all_largest = agree(transport, terms, largest, error)
    exponent = common_scale(scaled, all_largest, size)
    if exponent:
        np.multiply(source, np.float32(2.0**exponent), out=lanes)
        source = lanes
    if wire_path != "off" and size > 1:
        # "auto" is for the largest values of all ranks: those of another one may be too small to matter.
        most = max((e for e in all_largest if e is not None), default=None)
        if scaled != "auto" or largest == most:
            watch(transport)("the all-reduce", used, source)
    with moving_data(transport):
        _run(settings, wire_form(transport, wire_path, used), source, lanes)
    if exponent:
        np.multiply(lanes, np.float32(2.0**-exponent), out=lanes)
    buffers.store(lanes)


def _run(settings: Settings, form: WireForm, source: NDArray[np.float32], lanes: NDArray[np.float32]) -> None:
    """The algorithm that the settings ask for."""
    transport, sub_block = form.transport, settings.sub_block
    size = transport.size
    factor = np.float32(1.0 / size)

    def mean(lanes: NDArray[np.float32]) -> None:
        if settings.op is MEAN:
            np.multiply(lanes, factor, out=lanes)

    def mean_and_settle(lanes: NDArray[np.float32]) -> None:
        mean(lanes)
        form.settle(lanes)

    up = form if settings.legs in ("both", "up") else Raw(transport)
    down = form if settings.legs in ("both", "down") else Raw(transport)
    if size == 1:
        if lanes is not source:
            np.copyto(lanes, source)
    elif settings.algorithm == "ring":
        parts = Parts(lanes.size, size, sub_block)
        ring(form, range(size), source, lanes, parts, all_reduce_steps(size), mean_and_settle)
    elif settings.algorithm == "hierarchical":
        group = settings.group(size)
        hierarchical(form, up, down, group, settings.upper, source, lanes, sub_block, mean_and_settle)
    else:
        parts = Parts(lanes.size, 1, sub_block)
        worker_aggregator(up, down, range(size), source, lanes, parts, mean)
