# SPDX-License-Identifier: BSD-2-Clause
"""`CompressedCommunicator` over a transport; over MPI it is in `test_mpi`."""

import re
import threading
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from outcomes import Group, if_rank_1_says, messages
from refusals import refused

from inceptionn import Codec
from inceptionn.collectives import IN_PLACE, MEAN, CompressedCommunicator, MismatchError
from inceptionn.transport import Transport, loopback


def test_over_a_transport(group: Group) -> None:
    def run(t: Transport) -> tuple[int, int, np.ndarray, np.ndarray]:
        comm = CompressedCommunicator(t, codec=Codec(2**-6))
        x = np.full(1000, 0.1 * (t.rank + 1), np.float32)
        mean = np.empty_like(x)
        comm.Allreduce(x, mean, MEAN)
        comm.Allreduce(IN_PLACE, x)
        comm.barrier()  # the transport's own
        return comm.rank, comm.Get_size(), mean, x

    for rank, (own, size, mean, total) in enumerate(group(3, run)):
        assert (own, size) == (rank, 3)
        assert np.all(np.abs(mean - 0.2) <= 2 * 2**-6)
        assert np.all(np.abs(total - 0.6) <= 3 * 2**-6)
        assert np.any(mean != np.float32(0.2))


def test_every_collective_over_a_transport(group: Group) -> None:
    def run(t: Transport) -> bool:
        comm = CompressedCommunicator(t, algorithm="worker_aggregator", legs="up", path="off")
        x = np.arange(6, dtype=np.float32) * (t.rank + 1)
        total, two, six = 6 * np.arange(6), np.empty(2, np.float32), np.empty(6, np.float32)
        comm.Reduce(x, six, root=2)
        assert t.rank != 2 or np.array_equal(six, total)
        comm.Reduce_scatter_block(x, two)
        assert np.array_equal(two, total[2 * t.rank :][:2])
        comm.Reduce_scatter(x, two)
        comm.Ireduce_scatter(x, two, [2, 2, 2]).wait()
        assert np.array_equal(two, total[2 * t.rank :][:2])
        comm.Allgather(two, six)
        assert np.array_equal(six, total)
        comm.Ibcast(six[: t.size], root=1).wait()
        assert np.array_equal(comm.allreduce(x), total)
        assert np.array_equal(comm.bcast(x, root=1), 2 * np.arange(6))
        assert [part.size for part in comm.allgather(x[: t.rank])] == [0, 1, 2]
        with pytest.raises(TypeError, match="allreduce on a transport takes arrays of float32, float16"):
            comm.allreduce(t.rank)
        refused(TypeError, "recvbuf must be float32, .* not int64", comm.Bcast, np.arange(3))
        return True

    assert group(3, run) == [True] * 3


def test_a_matrix_is_an_array(threads: Group) -> None:
    def run(t: Transport) -> list[float]:
        x = np.array([[1, 2], [3, 4]], np.float32).view(np.matrix)
        y = np.empty_like(x)
        comm = CompressedCommunicator(t, path="off")
        comm.Allreduce(x, y)
        comm.Allreduce(IN_PLACE, x)
        assert np.array_equal(x, y)
        comm.Bcast(x)
        return np.asarray(x).reshape(-1).tolist()

    assert threads(2, run) == [[2, 4, 6, 8]] * 2


def test_operations_that_a_transport_does_not_have(threads: Group) -> None:
    def run(t: Transport) -> None:
        CompressedCommunicator(t).Allreduce(np.ones(1, np.float32), np.ones(1, np.float32), "max")

    assert messages(threads(1, run), ValueError) == {"op must be SUM or MEAN on a transport, not 'max'"}


def test_a_transport_of_another_size() -> None:
    (one,) = loopback(1)
    two = loopback(2)[0]
    refused(ValueError, "the transport has 1 ranks, not 2", CompressedCommunicator, two, transport=one)


MALFORMED: list[Any] = [
    5, True, "float32", [], ["float32"], [["a"], [3]], ["float32", 5], ["float32", [10**30]],
    ["float32", ["x"]], ["float32", [-1]], ["float32", [True]], ["float32", [2.0]],
    ["float32", [1 << 24, 1 << 24]], ["float32", [0, 1 << 48]], ["float32", [1] * 33], ["int32", [3]],
    ["object", [3]], ["float32", [3], 1], {"float32": [3]},
]  # fmt: skip


def test_a_broadcast_that_one_rank_cannot_take_ends_at_all(
    threads: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The type of `ml_dtypes` where that is missing."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    one = threading.local()

    def missing(name: str) -> Any:
        if getattr(one, "lacks", False):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return import_module(name)

    monkeypatch.setattr("inceptionn.collectives.communicator.import_module", missing)

    def run(t: Transport) -> None:
        one.lacks = t.rank == 1
        CompressedCommunicator(t).bcast(np.ones(3, bfloat16), root=0)

    results = threads(3, run, timeout=5)
    assert isinstance(results[1], ModuleNotFoundError)
    for rank in (0, 2):
        assert "No module named 'ml_dtypes'" in str(results[rank]), results[rank]


@pytest.mark.parametrize("kind", ["u2", ">f4", "V2"])
def test_an_array_that_is_not_taken_is_refused_with_the_remedy(threads: Group, kind: str) -> None:
    text = {"u2": "pass dtype='bfloat16'", ">f4": "pass x.astype('f4')", "V2": "pass x.view('u2')"}[kind]

    def run(t: Transport) -> None:
        refused(TypeError, re.escape(text), CompressedCommunicator(t).allreduce, np.zeros(3, kind))

    assert threads(2, run) == [None, None]


def test_patterns_and_arrays_of_bfloat16_are_of_one_type(threads: Group) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16

    def run(t: Transport) -> Any:
        x = np.ones(3, bfloat16)
        mine = x if t.rank else x.view(np.uint16)
        return CompressedCommunicator(t, dtype="bfloat16").allreduce(mine).view(np.uint16)

    two = np.full(3, 2, bfloat16).view(np.uint16)
    assert all(np.array_equal(each, two) for each in threads(2, run))


@pytest.mark.parametrize(
    ("call", "answer"),
    [*(("allreduce", each) for each in MALFORMED), ("reduce", 5), ("allgather", 5), ("bcast", 5)],
)
def test_a_malformed_description_names_its_rank(threads: Group, call: str, answer: Any) -> None:
    x = np.ones(3, np.float32)

    def run(t: Transport) -> None:
        getattr(CompressedCommunicator(t), call)(x, **({"root": 1} if call == "bcast" else {}))

    for text in messages(if_rank_1_says(threads, run, answer), MismatchError):
        assert text.startswith("rank 1 sent a malformed agreement: ")
