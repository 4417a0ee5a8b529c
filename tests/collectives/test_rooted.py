# SPDX-License-Identifier: BSD-2-Clause
"""Reduce and broadcast: values, bounds and bits for every root."""

import threading
from typing import Any

import numpy as np
import pytest
from outcomes import Group, returned

from inceptionn import Codec
from inceptionn.collectives import IN_PLACE, MEAN, SUM, MismatchError, bcast_comp, reduce_comp
from inceptionn.transport import Transport

BOUND = 2.0**-10


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")
@pytest.mark.parametrize("path", ["off", "software", "nic"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_root(threads: Group, ranks: int, path: str) -> None:
    lost = 0 if path == "off" or ranks == 1 else BOUND
    for count in (0, 1, 17, 5000):
        x = np.random.default_rng(count).laplace(scale=1e-2, size=(ranks, count)).astype(np.float32)
        for root in {0, ranks // 2, ranks - 1}:

            def run(t: Transport, x: np.ndarray = x, root: int = root) -> list[np.ndarray]:
                found = []
                for op in (SUM, MEAN):
                    y = np.full(x.shape[1], np.nan, np.float32) if t.rank == root else None
                    reduce_comp(t, x[t.rank], y, op, root, path=path, scale=None, sub_block=256)
                    found.append(y)
                z = x[root].copy() if t.rank == root else np.full(x.shape[1], np.nan, np.float32)
                bcast_comp(t, z, root, path=path, scale=None, sub_block=256)
                return [*found, z]

            before = x.copy()
            results = returned(threads(ranks, run, nic=Codec()))
            total, mean, _ = results[root]
            exact = x.astype(np.float64).sum(axis=0)
            assert np.abs(total - exact).max(initial=0) <= ranks * lost + 1e-6
            assert np.abs(mean - exact / ranks).max(initial=0) <= 2 * lost + 1e-6
            for _, _, z in results:
                assert np.array_equal(z.view(np.uint32), results[0][2].view(np.uint32))
                assert np.abs(z - x[root]).max(initial=0) <= lost
            assert np.array_equal(x, before)


def test_a_rank_that_returns_has_sent_its_part(tcp: Group) -> None:
    """Nobody waits for its next call."""
    x = np.ones(8_000_000, np.float32)
    received = threading.Event()

    def run(t: Transport) -> bool:
        reduce_comp(t, x, np.empty_like(x) if t.rank == 0 else None, path="off")
        if t.rank == 0:
            received.set()
        return received.wait(20)

    assert returned(tcp(2, run)) == [True, True]


def test_real_sockets_types_and_scale(tcp: Group) -> None:
    x = np.random.default_rng(1).laplace(size=(3, 300_000)) * 2.0**-40

    def run(t: Transport) -> np.ndarray:
        y = x[t.rank].copy()
        reduce_comp(t, IN_PLACE if t.rank == 1 else y, y if t.rank == 1 else None, root=1)
        bcast_comp(t, y, root=1)
        return y

    results = returned(tcp(3, run))
    assert all(np.array_equal(result, results[0]) for result in results)
    assert np.abs(results[0] - x.sum(axis=0)).max() <= 8 * np.abs(x).max() * 4 * BOUND


def test_a_broadcast_leaves_every_port_at_one_copy(threads: Group) -> None:
    def run(t: Transport) -> int:
        before = t.bytes_sent
        bcast_comp(t, np.ones(5000, np.float32), 1, path="off", sub_block=512)
        return t.bytes_sent - before

    assert returned(threads(4, run)) == [20_000 * (rank != 0) for rank in range(4)]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t, x: bcast_comp(t, x.astype("i4")), "recvbuf must be float32, float16, bfloat16 or float64"),
        (lambda t, x: bcast_comp(t, x[: t.rank + 1]), "count differs: rank 0 has 1, rank 1 has 2"),
        (lambda t, x: reduce_comp(t, IN_PLACE, x), "sendbuf must be an array at the ranks that are not"),
    ],
)
def test_wrong_arguments(group: Group, call: Any, text: str) -> None:
    def run(t: Transport) -> str:
        x = np.ones(10, np.float32)
        with pytest.raises((ValueError, TypeError, MismatchError)) as raised:
            call(t, x)
        bcast_comp(t, x)
        return str(raised.value)

    assert all(text in result for result in returned(group(3, run)))
