# SPDX-License-Identifier: BSD-2-Clause
"""The paper's baseline (Fig. 1a): aggregators apart, in a tree, and gradients compressed on their way up."""

from typing import Any

import numpy as np
import pytest
from all_reduce import sums
from outcomes import Group, messages

from inceptionn import Codec
from inceptionn.collectives import MEAN, SUM, allreduce_comp
from inceptionn.collectives.algorithms.aggregators import paper_tree, tree_levels
from inceptionn.transport import Transport

BOUND = 2.0**-10


@pytest.mark.parametrize(
    ("ranks", "group_size", "levels"),
    [
        (2, None, [1, 1]), (5, None, [1, 4]),  # the paper's five nodes
        (5, 4, [1, 4]), (7, 2, [1, 2, 4]), (15, 2, [1, 2, 4, 8]), (13, 3, [1, 3, 9]),
        (4, 2, [1, 3]), (5, 2, [1, 4]), (6, 2, [1, 2, 3]), (12, 3, [1, 3, 8]), (2, 9, [1, 1]),
    ],
)  # fmt: skip
def test_levels(ranks: int, group_size: int | None, levels: list[int]) -> None:
    assert tree_levels(ranks, group_size) == levels


@pytest.mark.parametrize("group_size", [None, 2, 3, 4, 7])
def test_every_tree_is_one(group_size: int | None) -> None:
    """One top; every other rank is its parent's child; groups differ by one at most; the last ranks work."""
    for ranks in range(2, 40):
        places = [paper_tree(ranks, group_size, rank) for rank in range(ranks)]
        assert [rank for rank in range(ranks) if places[rank].parent is None] == [0]
        children = [child for place in places for child in place.children]
        assert children == list(range(1, ranks))
        for rank, place in enumerate(places):
            assert all(places[child].parent == rank for child in place.children)
            assert place.contributes == (not place.children)
        workers = tree_levels(ranks, group_size)[-1]
        assert [place.contributes for place in places] == [False] * (ranks - workers) + [True] * workers


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")
@pytest.mark.parametrize("path", ["off", "software", "nic"])
@pytest.mark.parametrize(("ranks", "group_size"), [(2, None), (5, None), (4, 2), (7, 2), (9, 3)])
def test_sum_of_the_workers(threads: Group, ranks: int, group_size: int | None, path: str) -> None:
    levels = tree_levels(ranks, group_size)
    workers, depth = levels[-1], len(levels) - 1
    for count in (0, 1, 100, 20_001):
        x = np.random.default_rng(count).laplace(scale=1e-2, size=(ranks, count)).astype(np.float32)
        exact = x[-workers:].astype(np.float64).sum(axis=0)
        held = x.copy()
        held[:-workers] = 1e30  # what aggregators send is not read, not even for the scale
        settings = {"algorithm": "paper_baseline", "group_size": group_size, "path": path, "sub_block": 512}
        for op, factor in ((SUM, 1.0), (MEAN, 1 / workers)):
            results = sums(threads, held, op, Codec(), **settings)
            for y in results:
                assert np.array_equal(y.view(np.uint32), results[0].view(np.uint32))
            lost = 0 if path == "off" else 4 * np.abs(x).max(initial=0) * workers * BOUND
            error = np.abs(results[0] - exact * factor).max(initial=0)
            assert error <= depth * workers * lost * factor + 1e-6


@pytest.mark.parametrize("legs", [None, "up", "both", "none"])
def test_gradients_up_and_weights_down_raw(tcp: Group, legs: Any) -> None:
    """By default the way up is compressed and the way down is not, as in the paper."""
    x = np.random.default_rng(0).laplace(scale=1e-3, size=(4, 50_000)).astype(np.float32)

    def run(t: Transport) -> tuple[np.ndarray, int]:
        y = np.empty_like(x[0])
        allreduce_comp(t, x[t.rank], y, algorithm="paper_baseline", legs=legs, path="software", scale=None)
        return y, t.bytes_sent

    codec = Codec(codec="planes")  # the default
    lossy = [codec.lossy(each) if legs != "none" else each for each in x[1:]]
    total = lossy[0] + lossy[1] + lossy[2]
    if legs == "both":
        total = codec.lossy(total)
    results = tcp(4, run)
    for y, _ in results:
        assert np.array_equal(y, total)
    down = results[0][1]
    assert (down == 3 * x[0].nbytes) == (legs != "both")
    up = {sent for _, sent in results[1:]}
    assert (max(up) < x[0].nbytes / 3) == (legs != "none")


@pytest.mark.parametrize(
    ("ranks", "group_size", "text"),
    [
        (1, None, "an aggregator and its workers are at least 2 ranks, not 1"),
        (3, 1, "group_size of a tree of aggregators must be at least 2, not 1"),
        (3, 4, "group_size must be 1..3 of the 3 ranks, not 4"),
    ],
)
def test_wrong_sizes(threads: Group, ranks: int, group_size: int | None, text: str) -> None:
    def run(t: Transport) -> None:
        x = np.ones(4, np.float32)
        allreduce_comp(t, x, x.copy(), algorithm="paper_baseline", group_size=group_size)

    assert messages(threads(ranks, run), ValueError) == {text}
