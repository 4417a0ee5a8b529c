# SPDX-License-Identifier: BSD-2-Clause
"""Reduce-scatter and all-gather: values, error bounds and bits, over every way to cut and to send."""

from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages, returned

from inceptionn import Codec
from inceptionn.collectives import (
    IN_PLACE,
    MEAN,
    SUM,
    MismatchError,
    allgather_comp,
    allreduce_comp,
    reduce_scatter_comp,
)
from inceptionn.transport import Transport

BOUND = 2.0**-10
PATHS = ("off", "software", "nic")
quiet = pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")


def values(ranks: int, count: int, scale: float = 1e-2) -> np.ndarray:
    return np.random.default_rng(count).laplace(scale=scale, size=(ranks, count)).astype(np.float32)


def scattered(
    group: Group, x: np.ndarray, counts: list[int], nic: Codec | None = None, **settings: Any
) -> np.ndarray:
    """Return the blocks of all ranks, joined; check that the send buffers are unchanged."""
    before = x.copy()

    def run(t: Transport) -> np.ndarray:
        y = np.full(counts[t.rank], np.nan, np.float32)
        reduce_scatter_comp(t, x[t.rank], y, counts=counts, **{"scale": None, **settings})
        return y

    joined = np.concatenate(returned(group(len(x), run, nic=nic)))
    assert np.array_equal(x, before, equal_nan=True)
    return joined


def gathered(group: Group, blocks: list[np.ndarray], nic: Codec | None = None, **settings: Any) -> np.ndarray:
    """Return the result; check that all ranks have the same bits and the send buffers are unchanged."""
    counts = [block.size for block in blocks]

    def run(t: Transport) -> np.ndarray:
        own = blocks[t.rank].copy()
        y = np.full(sum(counts), np.nan, np.float32)
        allgather_comp(t, own, y, counts=counts, **{"scale": None, **settings})
        assert np.array_equal(own, blocks[t.rank], equal_nan=True)
        return y

    results = returned(group(len(blocks), run, nic=nic))
    for result in results:
        assert np.array_equal(result.view(np.uint32), results[0].view(np.uint32))
    first: np.ndarray = results[0]
    return first


def counts_of(ranks: int) -> list[list[int]]:
    """Even, with empty blocks, and of random lengths."""
    random = np.random.default_rng(ranks)
    return [
        [0] * ranks, [1] * ranks, [100] * ranks, [2500, *[0] * (ranks - 1)],
        [int(count) for count in random.integers(0, 3000, ranks)],
    ]  # fmt: skip


@quiet
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("ranks", "settings"),
    [
        *[(ranks, {}) for ranks in range(1, 7)],
        *[(ranks, {"algorithm": "hierarchical"}) for ranks in (1, 4, 6)],
        *[
            (ranks, {"algorithm": "hierarchical", "group_size": size})
            for ranks, size in ((3, 2), (5, 2), (5, 3), (7, 3), (7, 5), (8, 3), (4, 4), (4, 1))
        ],
    ],
)
def test_every_cut(threads: Group, ranks: int, settings: dict[str, Any], path: str) -> None:
    for counts in counts_of(ranks):
        x = values(ranks, sum(counts))
        exact = x.astype(np.float64).sum(axis=0)
        lost = 0 if path == "off" else BOUND
        for op, factor in ((SUM, 1), (MEAN, 1 / ranks)):
            y = scattered(threads, x, counts, Codec(), op=op, path=path, sub_block=512, **settings)
            error = np.abs(y - exact * factor).max(initial=0)
            assert error <= (ranks - 1) * lost * factor + 1e-6
        blocks = np.split(x[0], np.cumsum(counts)[:-1])
        y = gathered(threads, blocks, Codec(), path=path, sub_block=512, **settings)
        assert np.abs(y - x[0]).max(initial=0) <= (lost if ranks > 1 else 0)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
def test_real_sockets(tcp: Group, algorithm: str, path: str) -> None:
    nic = Codec() if path == "nic" else None
    counts = [300_000, 0, 450_001, 7]
    x = values(4, sum(counts))
    settings = {"path": path, "algorithm": algorithm, "codec": Codec()}
    y = scattered(tcp, x, counts, nic, **settings)
    assert np.abs(y - x.sum(axis=0)).max() <= (0 if path == "off" else 3 * BOUND) + 1e-6
    y = gathered(tcp, np.split(x[0], np.cumsum(counts)[:-1]), nic, **settings)
    assert np.abs(y - x[0]).max() <= (0 if path == "off" else BOUND)


@pytest.mark.parametrize("path", ["off", "software"])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_both_halves_are_the_ring_all_reduce(threads: Group, ranks: int, path: str) -> None:
    """Bit for bit, where the blocks are as the all-reduce cuts them."""
    count = 16 * 30
    x = values(ranks, ranks * count)

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        total, part, whole = np.empty_like(x[0]), np.empty(count, np.float32), np.empty_like(x[0])
        allreduce_comp(t, x[t.rank], total, path=path, scale=None)
        # The all-reduce leaves block r + 1 at rank r.
        turned = np.roll(x[t.rank], -count)
        reduce_scatter_comp(t, turned, part, path=path, scale=None)
        allgather_comp(t, part, whole, path=path, scale=None)
        return total, np.roll(whole, count)

    for total, whole in returned(threads(ranks, run)):
        assert np.array_equal(total.view(np.uint32), whole.view(np.uint32))


def test_a_scale_of_each_rank(threads: Group) -> None:
    """An all-gather's bound is relative to the largest value of each rank."""
    blocks = [values(1, 1000)[0] * np.float32(2.0**exponent) for exponent in (-60, 0, 40)]
    y = np.split(gathered(threads, blocks, scale="auto"), 3)
    for block, found in zip(blocks, y, strict=True):
        largest = np.abs(block).max()
        assert 0 < np.abs(found - block).max() <= 2 * largest * BOUND


@pytest.mark.parametrize("type_name", ["float32", "float16", "float64"])
def test_types_in_place_and_default_counts(threads: Group, type_name: str) -> None:
    x = values(3, 300, 1.0).astype(type_name)

    def run(t: Transport) -> list[np.ndarray]:
        part = np.empty((10, 10), type_name)
        reduce_scatter_comp(t, x[t.rank].reshape(3, 100), part, MEAN)
        whole = np.empty((3, 10, 10), type_name)
        allgather_comp(t, part, whole)
        again = x[t.rank].copy()
        reduce_scatter_comp(t, IN_PLACE, again, MEAN)
        placed = np.zeros(300, type_name)
        placed[t.rank * 100 : (t.rank + 1) * 100] = again[:100]
        allgather_comp(t, IN_PLACE, placed)
        strided = np.zeros((300, 2), type_name)
        allgather_comp(t, part, strided[:, 0])
        assert not strided[:, 1].any()
        return [whole.reshape(-1), placed, strided[:, 0].copy()]

    exact = x.astype(np.float64).mean(axis=0)
    limit = 4 * np.abs(exact).max() * 3 * BOUND + (4e-3 if type_name == "float16" else 0)
    for found in returned(threads(3, run)):
        assert all(np.array_equal(found[0], other) for other in found[1:])
        assert np.abs(found[0] - exact).max() <= limit


def test_bfloat16_patterns(threads: Group) -> None:
    x = (values(2, 200, 1.0).view(np.uint32) >> 16).astype(np.uint16)

    def run(t: Transport) -> np.ndarray:
        part, whole = np.empty(100, np.uint16), np.empty(200, np.uint16)
        reduce_scatter_comp(t, x[t.rank], part, path="off", dtype="bfloat16")
        allgather_comp(t, part, whole, path="off", dtype="bfloat16")
        return whole

    exact = (x.astype(np.uint32) << 16).view(np.float32).sum(axis=0)
    for found in returned(threads(2, run)):
        back = (found.astype(np.uint32) << 16).view(np.float32)
        assert np.all(np.abs(back - exact) <= np.abs(exact) * 2.0**-8)


@pytest.mark.parametrize("kind", "? i1 u2 i4 i8 u8 >f4 >f8 c8 c16 S4 U2 O M8[s]".split())
@pytest.mark.parametrize("collective", [reduce_scatter_comp, allgather_comp])
def test_types_that_are_refused(threads: Group, collective: Any, kind: str) -> None:
    def run(t: Transport) -> None:
        send, receive = np.zeros(8, kind), np.zeros(8, kind)
        short = collective is allgather_comp
        collective(t, send[:4] if short else send, receive if short else receive[:4])

    for text in messages(threads(2, run), TypeError):
        assert f"must be float32, float16, bfloat16 or float64, not {np.dtype(kind)}" in text
        assert ("pass dtype='bfloat16'" in text) == (kind == "u2")


X = np.ones(12, np.float32)


@pytest.mark.parametrize(
    ("collective", "wrong", "kind", "text"),
    [
        (reduce_scatter_comp, {"recvbuf": X[:5].copy()}, ValueError,
         "sendbuf has 12 values, the blocks of the 3 ranks have 15"),
        (reduce_scatter_comp, {"counts": [4, 4, 5]}, ValueError,
         "sendbuf has 12 values, the blocks of the 3 ranks have 13"),
        (reduce_scatter_comp, {"counts": [6, 2, 4]}, ValueError,
         "recvbuf has 4 values, the block of rank 1 has 2"),
        (reduce_scatter_comp, {"counts": [12, 0]}, ValueError,
         "counts must be 3 whole numbers, one per rank, not [12, 0]"),
        (reduce_scatter_comp, {"counts": [13, -1, 0]}, ValueError, "not [13, -1, 0]"),
        (reduce_scatter_comp, {"counts": [4.0, 4, 4]}, TypeError,
         "counts must be whole numbers, one per rank, not [4.0, 4, 4]"),
        (reduce_scatter_comp, {"sendbuf": IN_PLACE, "recvbuf": X[:10].copy()}, ValueError,
         "recvbuf has 10 values, which 3 ranks cannot share evenly"),
        (reduce_scatter_comp, {"sendbuf": IN_PLACE, "recvbuf": np.ones((12, 2), "f4")[:, 0]}, ValueError,
         "recvbuf must be C-contiguous for a reduce-scatter in place"),
        (reduce_scatter_comp, {"algorithm": "worker_aggregator"}, ValueError,
         "algorithm must be one of ring, hierarchical, not 'worker_aggregator'"),
        (reduce_scatter_comp, {"group_size": 4}, ValueError, "group_size must be 1..3 of the 3 ranks, not 4"),
        (allgather_comp, {"sendbuf": X[:5]}, ValueError,
         "recvbuf has 12 values, the blocks of the 3 ranks have 15"),
        (allgather_comp, {"sendbuf": X[:4].astype("f8")}, TypeError,
         "sendbuf is float64, recvbuf is float32"),
    ],
)  # fmt: skip
def test_a_rank_that_cannot_take_part_stops_all(
    group: Group, collective: Any, wrong: dict[str, Any], kind: type[Exception], text: str
) -> None:
    def run(t: Transport) -> str:
        short = collective is reduce_scatter_comp
        mine = {"sendbuf": X if short else X[:4], "recvbuf": (X[:4] if short else X).copy()}
        with pytest.raises(kind if t.rank == 1 else MismatchError) as raised:
            collective(t, **(mine | wrong if t.rank == 1 else mine))
        collective(t, **mine)  # nothing was sent: the group goes on
        return str(raised.value)

    results = returned(group(3, run))
    assert text in results[1]
    assert results[0] == results[2] == f"rank 1 cannot take part: {kind.__name__}: {results[1]}"


def test_ranks_that_call_different_collectives(threads: Group) -> None:
    def run(t: Transport) -> None:
        if t.rank:
            allgather_comp(t, X[:6], X.copy())
        else:
            reduce_scatter_comp(t, X, X[:6].copy())

    for text in messages(threads(2, run), MismatchError):
        assert text == "collective differs: rank 0 has 'reduce-scatter', rank 1 has 'all-gather'"


def test_counts_that_differ(threads: Group) -> None:
    def run(t: Transport) -> None:
        counts = [6, 6] if t.rank else [5, 7]
        reduce_scatter_comp(t, X, np.empty(counts[t.rank], np.float32), counts=counts)

    for result in threads(2, run):
        assert str(result) == "counts differs: rank 0 has [5, 7], rank 1 has [6, 6]"


def test_infinite_and_large_values_pass(threads: Group) -> None:
    special = np.array([np.inf, -np.inf, np.nan, 3e38, 1.0, -12345.678, 0.0, 0.0], np.float32)
    for path in ("off", "software"):
        y = gathered(threads, [special, np.zeros(3, np.float32)], path=path)
        assert np.array_equal(y[:8], special, equal_nan=True)
        x = np.stack([special, np.zeros_like(special)])
        assert np.array_equal(scattered(threads, x, [8, 0], path=path), special, equal_nan=True)


def test_half_of_the_traffic_each(threads: Group) -> None:
    """A rank sends (ranks - 1) / ranks of the values, in either."""

    def run(t: Transport) -> tuple[int, int]:
        x, part = np.ones(4000, np.float32), np.empty(1000, np.float32)
        before = t.bytes_sent
        reduce_scatter_comp(t, x, part, path="off")
        between = t.bytes_sent
        allgather_comp(t, part, x, path="off")
        return between - before, t.bytes_sent - between

    assert returned(threads(4, run)) == [(3 * 4000, 3 * 4000)] * 4
