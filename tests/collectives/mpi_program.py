# SPDX-License-Identifier: BSD-2-Clause
"""The programs of `test_mpi` under mpirun: functions, each with its argument after a colon.

Rank 0 prints which have passed, and "done" at the end.
"""

import os
import signal
import sys
import time
import warnings

import numpy as np
import pytest
from mpi4py import MPI

from inceptionn import Codec
from inceptionn.codec import converted
from inceptionn.collectives import MEAN, SUM, CompressedCommunicator, MismatchError, allreduce_comp
from inceptionn.transport import (
    DEFAULT_TIMEOUT,
    MpiTransport,
    PeerLost,
    TransportError,
    TransportTimeout,
    connect_mpi,
    mpi,
)

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
x = np.random.default_rng(rank).laplace(scale=1e-2, size=300_001).astype(np.float32)
total = np.empty_like(x)
comm.Allreduce(x, total, MPI.SUM)


def same_everywhere(y: np.ndarray) -> None:
    assert len(set(comm.allgather(y.tobytes()))) == 1


def collectives() -> None:
    """Check every path and algorithm with a communicator in place of a transport."""
    for count in (0, 1, 2, 5, 300_001):
        for algorithm in ("ring", "hierarchical", "worker_aggregator"):
            for path, bound in (("off", 1e-6), ("software", (size + 1) * 2**-10)):
                y = np.empty(count, np.float32)
                allreduce_comp(comm, x[:count], y, path=path, algorithm=algorithm)
                same_everywhere(y)
                assert np.all(np.abs(y - total[:count]) <= bound)
    part = comm.Split(color=rank % 2)
    y = np.empty_like(x)
    allreduce_comp(part, x, y, MEAN)
    part.Free()  # and with it its transport


def communicator() -> None:
    """CompressedCommunicator in the place of COMM_WORLD."""
    c = CompressedCommunicator(comm, codec=Codec(2**-8))
    bound = (size + 1) * 2**-8
    assert (c.rank, c.size, c.Get_rank(), c.Get_size()) == (rank, size, rank, size)
    for send in (x, [x, MPI.FLOAT], [x, x.size, MPI.FLOAT], (x, "f")):
        y = np.empty_like(x)
        c.Allreduce(send, [y, MPI.FLOAT] if isinstance(send, list) else y, op=MPI.SUM)
        same_everywhere(y)
        assert 0 < np.abs(y - total).max() <= bound
    fortran = np.asfortranarray(x[:300_000].reshape(300, 1000))  # element by element, where MPI copies memory
    y = np.empty((300, 1000), np.float32)
    c.Allreduce(fortran, y)
    assert np.abs(y.reshape(-1) - total[:300_000]).max() <= bound
    y = x.copy()
    c.Allreduce(MPI.IN_PLACE, y)
    assert 0 < np.abs(y - total).max() <= bound
    c.Allreduce(x, y, MEAN)
    assert 0 < np.abs(y - total / size).max() <= 2 * 2**-8
    # What is not ours goes to MPI.
    n = np.array([rank], np.int64)
    m = np.empty_like(n)
    c.Allreduce(n, m, MPI.SUM)
    assert m[0] == size * (size - 1) // 2
    c.Allreduce(x, y, MPI.MAX)
    z = np.empty_like(x)
    comm.Allreduce(x, z, MPI.MAX)
    assert np.array_equal(y, z)
    c.Allreduce([x, 10, MPI.FLOAT], [y, 10, MPI.FLOAT])  # a part of the array: goes to MPI, exact
    assert np.allclose(y[:10], total[:10], atol=1e-7)
    assert c.allreduce(rank) == m[0]
    assert c.bcast("hello") == "hello"
    c.Barrier()
    doubles = np.full(10, 0.1)
    result = np.empty(10)
    c.Allreduce(doubles, result)
    assert np.abs(result - 0.1 * size).max() <= bound
    patterns = CompressedCommunicator(comm, codec=Codec(2**-8), dtype="bfloat16")
    halves = converted(x, "bfloat16")
    sums = np.empty_like(halves)
    patterns.Allreduce([halves, MPI.UINT16_T], [sums, halves.size, MPI.UINT16_T], MPI.SUM)
    same_everywhere(sums)
    near = converted(sums, patterns=True) - total
    assert 0 < np.abs(near).max() <= bound + 2 * size * 2**-8 * np.abs(x).max()
    assert np.array_equal(patterns.allreduce(halves), sums)  # not as integers
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return
    own, again = halves.view(bfloat16), sums.view(bfloat16)
    sums[:] = 0
    c = CompressedCommunicator(comm, codec=Codec(2**-8))
    c.Allreduce([own, MPI.UINT16_T], [again, MPI.UINT16_T])  # MPI has no bfloat16
    assert np.array_equal(patterns.allreduce(halves), sums)
    given = c.bcast(own if rank == 1 else None, root=1)
    assert (given.dtype, given.shape) == (own.dtype, own.shape)
    same_everywhere(given.view(np.uint16))


def every_collective() -> None:
    """Blocking, non-blocking and lower case: close to MPI's own result, and not equal to it."""
    bound = 2.0**-8
    c = CompressedCommunicator(comm, codec=Codec(bound), algorithm="hierarchical", scale=None)
    count = 30_000
    own = x[: count * size]
    exact = np.empty_like(own)
    comm.Allreduce(own, exact)
    mine = exact[rank * count : (rank + 1) * count]
    counts = [count * 2 * (each == 0) for each in range(size)]
    own_count = counts[rank]

    def near(found: np.ndarray, wanted: np.ndarray, compressions: int) -> None:
        assert found.shape == wanted.shape
        assert wanted.size == 0 or 0 < np.abs(found - wanted).max() <= compressions * bound

    for begin in ("", "I"):

        def call(name: str, *arguments: object, begin: str = begin, **named: object) -> None:
            done = getattr(c, begin + (name.lower() if begin else name))(*arguments, **named)
            if begin:
                done.Wait()

        y = np.empty_like(own)
        call("Allreduce", own, y, MPI.SUM)
        same_everywhere(y)
        near(y, exact, size + 1)
        for root in range(size):
            y = np.empty_like(own) if rank == root else None
            call("Reduce", own, y, MEAN, root)
            if y is not None:
                near(y, exact / size, 2)
            y = own.copy() if rank == root else np.empty_like(own)
            call("Bcast", [y, MPI.FLOAT], root=root)
            same_everywhere(y)
            near(y, comm.bcast(own, root), 1)
        y = np.empty(count, np.float32)
        call("Reduce_scatter_block", own, [y, MPI.FLOAT])
        near(y, mine, size)
        y = np.empty(own_count, np.float32)
        call("Reduce_scatter", own[: 2 * count], y, counts)
        near(y, exact[:own_count], size)
        y = own.copy()
        call("Reduce_scatter_block", MPI.IN_PLACE, y)
        near(y[:count], mine, size)
        y = np.empty((size, count), np.float32)
        call("Allgather", x[:count], y)
        same_everywhere(y)
        near(y[rank], x[:count], 1)
    found = c.allreduce(own)
    same_everywhere(found)
    near(found, exact, size + 1)
    found = c.reduce(own, root=size - 1)
    assert (found is None) == (rank != size - 1)
    if found is not None:
        near(found, exact, size)
    listed = c.allgather(x[: 10_000 + rank].reshape(1, -1))
    assert [each.shape for each in listed] == [(1, 10_000 + each) for each in range(size)]
    near(listed[rank], x[: 10_000 + rank].reshape(1, -1), 1)
    given = x[:20_000].reshape(2, -1)
    found = c.bcast(given if rank == 1 else None, root=1)
    same_everywhere(found)
    near(found, comm.bcast(given, 1), 1)
    # Objects of which some are no arrays of floats, or not alike, go to MPI.
    assert c.allreduce(rank if rank else 1.5) == 1.5 + sum(range(size))
    assert c.allgather(x[:2] if rank else "text")[0] == "text"
    assert c.allreduce(own.astype(int)).dtype == int
    assert c.bcast(["list"] if rank == 0 else None) == ["list"]


def in_flight() -> None:
    """Non-blocking collectives while the main thread talks to MPI, and one that fails."""
    c = CompressedCommunicator(comm, path="off")
    results = [np.empty_like(x) for _ in range(6)]
    requests = [c.Iallreduce(x, result) for result in results]
    for _ in range(20):
        assert comm.allreduce(1) == size
    for request, result in zip(requests, results, strict=True):
        request.Wait()
        assert request.Test()
        assert np.allclose(result, total, atol=1e-5)
    wrong = c.Iallreduce(x[: 10 + (rank == 1)], np.empty(10 + (rank == 1), np.float32))
    with pytest.raises(MismatchError, match="count differs: rank 0 has 10, rank 1 has 11"):
        wrong.Wait()
    late = CompressedCommunicator(comm.Dup(), timeout=1.0)
    comm.Barrier()
    if rank == size - 1:
        time.sleep(2.5)
    else:
        with pytest.raises((TransportTimeout, PeerLost), match=f"nothing from rank {size - 1} for 1 s"):
            late.Iallreduce(x, total.copy()).Wait()


def parts() -> None:
    """Communicators made from a compressed communicator also compress, with the same settings."""
    c = CompressedCommunicator(comm, codec=Codec(2**-8), algorithm="hierarchical", group_size=size)
    group = comm.group.Incl([0, 1])
    made = [
        c.Dup(), c.Clone(), c.Split(rank % 2, -rank), c.Split(0 if rank else MPI.UNDEFINED),
        c.Split_type(MPI.COMM_TYPE_SHARED), c.Create(group), c.Create_cart([size]), c.Dup().Split(0),
    ]  # fmt: skip
    if rank in (0, 1):
        made.append(c.Create_group(group))
    nulls = [part for part in made if part == MPI.COMM_NULL]
    assert len(nulls) == (1 if rank == 0 else 0) + (0 if rank in (0, 1) else 1)
    for part in made:
        if part in nulls:
            continue
        assert isinstance(part, CompressedCommunicator)
        assert part.settings["codec"] is c.settings["codec"]
        assert part.transport is not c.transport
        want, y = np.empty_like(x), np.empty_like(x)
        part.comm.Allreduce(x, want)
        part.Allreduce(x, y)
        assert part.size == 1 or 0 < np.abs(y - want).max() <= part.size * 2**-8
        assert len(set(part.allgather(y.tobytes()))) == 1
        part.Free()
        with pytest.raises(TransportError, match="closed"):
            part.transport.barrier()
    c.Allreduce(x, y)


def raw() -> None:
    """Rank 0 warns once of a call that a compressed communicator passes to MPI."""
    c = CompressedCommunicator(comm)
    n, m = np.ones(2, np.int64), np.empty(2, np.int64)
    y = np.empty_like(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            c.Allreduce(x, y)
            c.Allreduce(x, y, MEAN)
            c.Allreduce(n, m)
            c.Allreduce(MPI.IN_PLACE, m)
            c.Allreduce(n, m, MPI.MAX)
            c.Allreduce([x, 5, MPI.FLOAT], [y, 5, MPI.FLOAT])
            c.Reduce(x, y, op=MPI.MAX, root=0)
            c.Iallreduce(n, m).Wait()
            c.allreduce(1.5, MPI.PROD)
            c.allreduce(x, MPI.PROD)
            c.Scan(x, y)
            c.Gather(x[:2], np.empty((size, 2), np.float32) if rank == 0 else None)
            c.gather(x[:2])
            c.Allgather(n, np.empty((size, 2), np.int64))  # no floats
            c.bcast({"step": 1})
            c.scatter([None] * size if rank == 0 else None)
            c.Reduce_scatter(x[: 2 * size], y[:2])
            c.Bcast(y)
            c.Reduce(x, y)
            c.Iallreduce(x, y).Wait()
            c.Barrier()
            CompressedCommunicator(comm, path="off").Allreduce(n, m)  # raw is what was asked for
            with pytest.raises(TypeError, match="MEAN is for arrays of floating-point values"):
                c.Allreduce(n, m, MEAN)
    said = [
        "Allreduce of int64 with SUM", "Allreduce of int64 with MAX", "Allreduce of float32 with SUM",
        "Reduce of float32 with MAX", "Iallreduce of int64 with SUM", "allreduce of float with PROD",
        "allreduce of float32 with PROD", "Scan of float32 with SUM", "Gather of float32",
        "gather of float32", "Reduce_scatter of float32 with SUM",
    ]  # fmt: skip
    assert [str(w.message).partition(" goes to MPI as it is")[0] for w in caught] == (
        said if rank == 0 else []
    )
    assert {w.filename for w in caught} <= {__file__}


def bootstrap() -> None:
    """MPI brings the ranks together, TCP carries the data."""
    with connect_mpi(comm, timeout=20, nic=Codec()) as transport:
        c = CompressedCommunicator(comm, transport=transport)
        y = np.empty_like(x)
        c.Allreduce(x, y, MPI.SUM)
        same_everywhere(y)
        assert 0 < np.abs(y - total).max() <= (size + 1) * 2**-10
        c.Barrier()


def disagreement() -> None:
    """Check that a disagreement is an error on every rank, and that MPI goes on."""
    count = 10 + (rank == size - 1)
    with pytest.raises(MismatchError, match=f"count differs: rank 0 has 10, rank {size - 1} has 11"):
        allreduce_comp(comm, x[:count], np.empty(count, np.float32))
    y = np.empty(5, np.float32)
    allreduce_comp(comm, x[:5], y, SUM, path="off")
    assert np.allclose(y, total[:5], atol=1e-6)


def silence() -> None:
    """Check that the others time out, or hear of one that did, if a rank does not take part."""
    transport = MpiTransport(comm, timeout=1.0)
    transport.barrier()
    if rank == size - 1:
        time.sleep(2.5)
    else:
        start = time.monotonic()
        with pytest.raises(
            (TransportTimeout, PeerLost), match=f"^rank [01] waited: nothing from rank {size - 1} for 1 s"
        ):
            transport.recv_into(size - 1, bytearray(8))
        assert time.monotonic() - start < 2.4
        with pytest.raises(TransportError):
            transport.barrier()


def stall() -> None:
    """Rank 1 is silent; the others wait for each other in a chain that ends there: all name rank 1."""
    transport = MpiTransport(comm, timeout=2.0)
    transport.barrier()
    if rank == 1:
        time.sleep(4)
    else:
        with pytest.raises(
            (TransportTimeout, PeerLost), match="^rank [023] waited: nothing from rank 1 for 2 s"
        ):
            transport.recv_into((rank - 1) % size, bytearray(8))
    comm.Barrier()
    transport = MpiTransport(comm, timeout=2.0)
    if rank in (1, 2):
        time.sleep(4)
    else:
        with pytest.raises(
            (TransportTimeout, PeerLost), match="^rank [03] waited: nothing from ranks 1, 2 for 2 s"
        ):
            transport.barrier()


def patience() -> None:
    """``timeout`` of one call, and of a communicator."""
    y = np.empty_like(x)
    for wrong in (0, -1.0, float("nan"), float("inf"), "5"):
        with pytest.raises((TypeError, ValueError), match="timeout must be a number of seconds above 0, not"):
            allreduce_comp(comm, x, y, timeout=wrong)
    c = CompressedCommunicator(comm, timeout=1.0)
    c.Allreduce(x, y)
    if rank == 1:
        time.sleep(2)
    allreduce_comp(comm, x, y, timeout=60)
    assert c.transport.timeout == DEFAULT_TIMEOUT > 2 * 60  # a checkpoint that takes a minute ends no job
    if rank == 1:
        time.sleep(3)
    else:
        with pytest.raises(
            (TransportTimeout, PeerLost), match="^rank [02] waited: nothing from rank 1 for 1 s"
        ):
            c.Allreduce(x, y)


def too_long() -> None:
    """Check that a message that does not fit its buffer is an error, at the other ranks too."""
    transport = MpiTransport(comm, timeout=10.0)
    transport.barrier()
    if rank == 0:
        request = transport.isend(1, bytes(100))
    elif rank == 1:
        request = transport.irecv_into(0, bytearray(99))
    with pytest.raises(TransportError, match="longer than the buffer of 99 bytes"):
        (request.wait if rank == 1 else transport.barrier)()


def malformed() -> None:
    """Bytes of rank 1 that are no JSON or no notice: the others' errors name it."""
    values, notices = mpi._VALUES[0], mpi._NEWS
    for tag, text, said in (
        (values, "rank 1 sent what is no JSON: ", [b"", b"{", b"\xff", b"[" * 100_000]),
        (
            notices,
            "rank 1 sent no notice: ",
            [b"5", b"{}", b'{"waits": 5}', b'{"waits": [3]}', b'{"broken": 5}'],
        ),
    ):
        for sent in said:
            transport = MpiTransport(comm, timeout=10.0)
            if rank == 1:
                requests = transport._to_all(sent, tag)
                comm.Barrier()
                MPI.Request.Waitall(requests)
                continue
            with pytest.raises(TransportError, match=text):
                transport.exchange(None)
            comm.Barrier()


def failing(end: str) -> None:
    """End rank 1 between two collectives, as ``end`` says."""
    c = CompressedCommunicator(comm)
    y = np.empty_like(x)
    c.Allreduce(x, y)
    if rank == 1:
        if end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif end == "exit":
            sys.exit(3)
        raise ValueError("no such file")
    if end == "raise in MPI":
        c.Barrier()
    c.Allreduce(x, y)


for program in sys.argv[1:]:
    name, *argument = program.split(":")
    try:
        globals()[name](*argument)
    except Exception as error:
        error.add_note(f"in {name} at rank {rank} of {size}")
        raise
    comm.Barrier()
    if rank == 0:
        print(f"{name} passed", flush=True)
if rank == 0:
    print("done", flush=True)
