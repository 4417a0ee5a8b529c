# SPDX-License-Identifier: BSD-2-Clause
"""Parallax's arithmetic: the choice after Table 3, equation 1 and the search, row sets, partitions."""

import itertools

import numpy as np
import pytest

from inceptionn.layers.parallax import CostModel, PartitionSearch, SparsityMeter, choose, fit, transfer_model
from inceptionn.layers.parallax.exchange.row_sets import Partitions, decode_rows, encode_rows, most_row_bytes


def test_choice_follows_the_bytes() -> None:
    rare = choose(1e6, 4, 0.1, row_bytes=128)
    assert rare.architecture == "parameter_server"
    assert rare.all_reduce_bytes == 3e6
    # 4 alpha w (N-1)/N, and a bitmap's share of the row numbers both ways.
    assert rare.parameter_server_bytes == pytest.approx(3e5 + 1e6 / 128 / 8 * 1.5)
    assert choose(1e6, 4, 1.0, row_bytes=128).architecture == "all_reduce"
    # A codec shrinks both legs of the all-reduce, and only one of the server's.
    assert choose(1e6, 4, 0.5, row_bytes=128, ratio=4).architecture == "all_reduce"
    assert choose(1e6, 4, 0.5, row_bytes=128).architecture == "parameter_server"
    # Each leg has its own ratio: dense gradients are mostly zeros.
    own = choose(1e6, 4, 0.2, row_bytes=128, ratio=4, all_reduce_ratio=12)
    assert own.architecture == "all_reduce"
    assert own.all_reduce_bytes == 3e6 / 12
    assert own.parameter_server_bytes == choose(1e6, 4, 0.2, row_bytes=128, ratio=4).parameter_server_bytes
    assert choose(1e6, 4, 0.2, row_bytes=128, ratio=4).architecture == "parameter_server"
    assert choose(1e6, 1, 0.1, row_bytes=128) == transfer_model.Choice("parameter_server", 0, 0)
    assert choose(1e6, 1, 1.0, row_bytes=128).architecture == "all_reduce"
    assert choose(1e6, 4, 0.6, row_bytes=128, advantage=2.0).architecture == "all_reduce"


def test_alpha_is_the_mean_share() -> None:
    meter = SparsityMeter(200)
    assert meter.alpha == 1.0
    for used in (10, 20, 30):
        meter.add(used)
    assert meter.alpha == pytest.approx(0.1)
    assert transfer_model.model_alpha({"a": 1.0, "b": 0.1}, {"a": 10, "b": 90}) == pytest.approx(0.19)


def test_fit_recovers_equation_1() -> None:
    model = CostModel(0.5, 2.0, 0.03)
    found = fit({p: model.time(p) for p in (2, 4, 8, 16)})
    assert (found.theta0, found.theta1, found.theta2) == pytest.approx((0.5, 2.0, 0.03))
    assert found.best(1, 100) == 8  # sqrt(2 / 0.03) = 8.16
    assert found.best(16, 100) == 16
    assert found.best(1, 4) == 4


def test_fit_never_has_a_negative_cost() -> None:
    for times in itertools.product((1.0, 1.1, 1.3), repeat=3):
        found = fit(dict(zip((2, 4, 8), times, strict=True)))
        assert found.theta1 >= 0
        assert found.theta2 >= 0
    assert fit({3: 0.25}) == CostModel(0.25, 0.0, 0.0)


def drive(search: PartitionSearch, model: CostModel) -> int:
    while not search.done:
        search.add(model.time(search.partitions))
    return search.partitions


def test_search_doubles_then_halves() -> None:
    search = PartitionSearch(4, 1000)
    assert drive(search, CostModel(1, 10, 0.1)) == 10
    assert list(search.samples) == [4, 8, 16, 2]
    with pytest.raises(RuntimeError, match="over"):
        search.add(1.0)


@pytest.mark.parametrize("machines", [1, 3, 8, 64])
@pytest.mark.parametrize("most", [1, 5, 64, 1000])
def test_search_finds_the_best_of_the_model(machines: int, most: int) -> None:
    for theta1, theta2 in itertools.product((0, 0.1, 3, 500), (0, 0.002, 1)):
        model = CostModel(0.3, theta1, theta2)
        found = drive(PartitionSearch(machines, most), model)
        best = min(model.time(p) for p in range(1, most + 1))
        assert model.time(found) <= 1.0001 * best


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_row_sets_come_back(count: int) -> None:
    random = np.random.default_rng(count)
    for size in {0, 1, count // 40, count // 2, count}:
        rows = np.sort(random.choice(count, size, replace=False))
        data = encode_rows(rows, count)
        assert data.nbytes <= most_row_bytes(count)
        assert data.nbytes == 1 + min(4 * size, -(-count // 8))
        assert np.array_equal(decode_rows(data, count), rows)


@pytest.mark.parametrize(("rows", "count", "servers"), [(1, 1, 3), (10, 3, 2), (10, 10, 4), (101, 7, 7)])
def test_partitions_cover_all_rows_once(rows: int, count: int, servers: int) -> None:
    parts = Partitions(rows, count, servers)
    seen = []
    for partition, (where, local) in enumerate(parts.split(np.arange(rows))):
        assert where.size == local.size == parts.size(partition)
        assert np.array_equal(local, np.arange(parts.size(partition)))
        seen += where.tolist()
    assert sorted(seen) == list(range(rows))
    held = [p for server in range(servers) for p in parts.of_server(server)]
    assert sorted(held) == list(range(count))
    assert all(parts.server(p) == server for server in range(servers) for p in parts.of_server(server))
