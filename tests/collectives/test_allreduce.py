# SPDX-License-Identifier: BSD-2-Clause
"""The all-reduce: values, error bounds and bits, over every algorithm, path and number of ranks."""

import socket
import struct
from typing import Any

import numpy as np
import pytest
from all_reduce import sums
from outcomes import Group

from inceptionn import Codec
from inceptionn.collectives import IN_PLACE, MEAN, SUM, BFloat16, Op, allreduce_comp
from inceptionn.collectives.algorithms import aggregators, hierarchical
from inceptionn.collectives.algorithms.parts import Parts
from inceptionn.sim import golden
from inceptionn.transport import Transport
from inceptionn.wire import variant

BOUND = 2.0**-10
ALGORITHMS = {
    "ring": {},
    "hierarchical": {"algorithm": "hierarchical"},
    "hierarchical, aggregator": {"algorithm": "hierarchical", "upper": "aggregator"},
    "worker-aggregator": {"algorithm": "worker_aggregator"},
}


def gradients(ranks: int, count: int, scale: float = 1e-2) -> np.ndarray:
    return (
        np.random.default_rng(ranks * 7 + count).laplace(scale=scale, size=(ranks, count)).astype(np.float32)
    )


def reduced(
    group: Group, x: np.ndarray, op: Op = SUM, nic: Codec | None = None, scale: Any = None, **settings: Any
) -> np.ndarray:
    """Return the result; check that all ranks have the same bits and the send buffers are unchanged.

    Not scaled, so that the bound is that of the codec.
    """
    before = x.copy()
    results = sums(group, x, op, nic, scale=scale, **settings)
    for result in results:
        assert np.array_equal(result.view(np.uint32), results[0].view(np.uint32))
    assert np.array_equal(x.view(np.uint32), before.view(np.uint32))
    first: np.ndarray = results[0]
    return first


def exact(x: np.ndarray, op: Op) -> np.ndarray:
    total = x.astype(np.float64).sum(axis=0)
    return total / len(x) if op is MEAN else total


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")  # one value may be all there is
@pytest.mark.parametrize("op", [SUM, MEAN])
@pytest.mark.parametrize("path", ["off", "software", "nic"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_every_algorithm_and_path(threads: Group, ranks: int, algorithm: str, path: str, op: Op) -> None:
    for count in (0, 1, 3, 15, 17, 64, 1000, 40_001):
        x = gradients(ranks, count)
        y = reduced(threads, x, op, Codec(), path=path, sub_block=4096, **ALGORITHMS[algorithm])
        if count:
            error = np.abs(y - exact(x, op)).max()
            compressions = {"off": 0, "software": ranks + 1, "nic": ranks + 1}[path] if ranks > 1 else 0
            factor = 1 if op is SUM else 1 / ranks
            assert error <= compressions * factor * BOUND + 1e-6 * ranks


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")  # one value may be all there is
@pytest.mark.parametrize("path", ["off", "software", "nic"])
@pytest.mark.parametrize("upper", ["ring", "aggregator"])
@pytest.mark.parametrize(("ranks", "group_size"), [(5, 2), (5, 3), (7, 3), (7, 5), (3, 2), (8, 3), (4, 4)])
def test_groups_that_do_not_divide_the_ranks(
    threads: Group, ranks: int, group_size: int, upper: str, path: str
) -> None:
    """The last group is smaller: its ranks take several blocks each."""
    settings = {"algorithm": "hierarchical", "group_size": group_size, "upper": upper, "sub_block": 512}
    for count in (0, 1, 17, 100, 10_001):
        x = gradients(ranks, count)
        for op in (SUM, MEAN):
            y = reduced(threads, x, op, Codec(), path=path, **settings)
            error = np.abs(y - exact(x, op)).max(initial=0)
            assert error <= (0 if path == "off" else (ranks if op is SUM else 1) * BOUND) + 1e-6 * ranks


@pytest.mark.parametrize("upper", ["ring", "aggregator"])
def test_the_upper_algorithm_is_the_one_asked_for(
    threads: Group, monkeypatch: pytest.MonkeyPatch, upper: str
) -> None:
    calls = []

    def aggregate(*arguments: Any, **settings: Any) -> None:
        calls.append(upper)
        aggregators.aggregate(*arguments, **settings)

    monkeypatch.setattr(hierarchical, "aggregate", aggregate)
    reduced(threads, gradients(4, 100), algorithm="hierarchical", group_size=2, upper=upper)
    assert set(calls) == {upper} - {"ring"}


@pytest.mark.parametrize("path", ["off", "software", "nic"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_real_sockets(tcp: Group, ranks: int, path: str) -> None:
    x = gradients(ranks, 700_001)
    nic = Codec() if path == "nic" else None
    for settings in ALGORITHMS.values():
        y = reduced(tcp, x, MEAN, nic, path=path, **settings)
        assert np.abs(y - exact(x, MEAN)).max() <= (0 if path == "off" else BOUND) + 1e-6


@pytest.mark.parametrize("mode", ["bounded", "literal", "planes"])
@pytest.mark.parametrize("op", [SUM, MEAN])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_ring_is_algorithm_1_on_the_golden_model(threads: Group, ranks: int, op: Op, mode: Any) -> None:
    """Bit for bit: block b starts at rank b, and every rank on its way adds its own to what it decodes."""
    count = 10_007
    x = gradients(ranks, count)
    y = reduced(threads, x, op, path="software", codec=Codec(2**-8, *variant(mode)), sub_block=1000)

    def lossy(lanes: np.ndarray) -> np.ndarray:
        if mode == "planes":
            return golden.planes.lossy(lanes, error_bound=2**-8)
        return golden.lossy(lanes, error_bound=2**-8, mode=mode)

    parts = Parts(count, ranks)
    for block in range(ranks):
        where = parts.block(block)
        total = x[block][where]
        for hop in range(1, ranks):
            total = x[(block + hop) % ranks][where] + lossy(total)
        total = lossy(total)
        if op is MEAN:  # divided last, so nothing rounds the quotient
            total = total * np.float32(1 / ranks)
        assert np.array_equal(y[where].view(np.uint32), total.view(np.uint32))


@pytest.mark.parametrize("seed", range(8))
def test_packets_that_go_raw_do_not_part_the_ranks(threads: Group, seed: int) -> None:
    """Each seed sends other packets raw; the ranks agree in each, which `reduced` looks at."""
    x = gradients(4, 30_000)

    def seeded(*arguments: Any, **settings: Any) -> list[Any]:
        return threads(*arguments, **settings, seed=seed)

    for settings in ALGORITHMS.values():
        y = reduced(seeded, x, SUM, Codec(), path="auto", **settings)
        assert np.abs(y - exact(x, SUM)).max() <= 5 * BOUND + 1e-6


@pytest.mark.parametrize(("legs", "compressions"), [("none", 0), ("up", 3), ("down", 1), ("both", 4)])
def test_worker_aggregator_compresses_the_legs_it_is_told(
    threads: Group, legs: Any, compressions: int
) -> None:
    x = gradients(4, 20_000)
    codec = Codec()
    y = reduced(threads, x, path="software", algorithm="worker_aggregator", legs=legs, codec=codec)
    error = np.abs(y - exact(x, SUM)).max()
    assert error <= compressions * BOUND + 1e-6
    assert (error > 1e-5) == (legs != "none")
    expected = x[0] + sum((codec.lossy(g) if legs in ("up", "both") else g) for g in x[1:2])
    for g in x[2:]:
        expected += codec.lossy(g) if legs in ("up", "both") else g
    assert np.array_equal(y, codec.lossy(expected) if legs in ("down", "both") else expected)


def test_numbers_that_are_not_finite_or_large_pass(threads: Group) -> None:
    x = np.zeros((3, 64), np.float32)
    x[1, :6] = [np.inf, -np.inf, np.nan, 3e38, 1.0, -12345.678]
    for path in ("off", "software"):
        y = reduced(threads, x, path=path)
        assert np.array_equal(y[:6], x[1, :6], equal_nan=True)
        assert not y[6:].any()


def test_sub_blocks_do_not_change_the_result(threads: Group) -> None:
    x = gradients(3, 12_000)
    results = [reduced(threads, x, sub_block=size) for size in (1, 2048, 5000, 1 << 20)]
    assert all(np.array_equal(result, results[0]) for result in results)


def test_shapes_and_memory_that_is_not_contiguous(group: Group) -> None:
    x = gradients(2, 60 * 40)

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        whole = np.zeros((60, 80), np.float32)
        allreduce_comp(t, x[t.rank].reshape(60, 40), whole[:, ::2], path="off")
        assert not whole[:, 1::2].any()
        flat = np.empty(2400, np.float32)
        allreduce_comp(t, np.asfortranarray(x[t.rank].reshape(60, 40)), flat, path="off")
        read_only = x[t.rank].copy()
        read_only.flags.writeable = False
        again = np.empty((40, 60), np.float32)
        allreduce_comp(t, read_only, again, path="off")
        return whole[:, ::2].copy(), flat, again

    want = x[0] + x[1]
    for results in group(2, run):
        assert all(np.array_equal(result.reshape(-1), want) for result in results)


def test_in_place_and_overlapping(threads: Group) -> None:
    x = gradients(3, 5000)

    def run(t: Transport) -> list[np.ndarray]:
        results = []
        for mark in (IN_PLACE, None):
            y = x[t.rank].copy()
            allreduce_comp(t, mark, y, path="off")
            results.append(y)
        same = x[t.rank].copy()
        allreduce_comp(t, same, same, path="off")
        memory = np.zeros(5100, np.float32)
        memory[:5000] = x[t.rank]
        allreduce_comp(t, memory[:5000], memory[100:], path="off")
        return [*results, same, memory[100:]]

    want = reduced(threads, x, path="off")
    for results in threads(3, run):
        assert all(np.array_equal(result, want) for result in results)


def test_bfloat16_on_the_wire(threads: Group) -> None:
    x = gradients(4, 10_000, 100.0)
    y = reduced(threads, x, codec=BFloat16())
    assert np.all(np.abs(y - exact(x, SUM)) <= np.abs(x).sum(axis=0) * 4 * 2.0**-8)


@pytest.mark.parametrize("exponent", [-60, -20, 0, 20, 60])
@pytest.mark.parametrize("path", ["software", "nic"])
def test_automatic_scale_keeps_a_relative_bound(threads: Group, exponent: int, path: str) -> None:
    x = gradients(4, 4000) * np.float32(2.0**exponent)
    x[2] /= 64  # the ranks agree on the largest
    y = reduced(threads, x, SUM, Codec(), path=path, scale="auto")
    largest = np.abs(x).max()
    assert np.abs(y - exact(x, SUM)).max() <= 5 * BOUND * 8 * largest
    unscaled = reduced(threads, gradients(4, 4000), SUM, Codec(), path=path, scale=3)
    assert np.abs(unscaled - exact(gradients(4, 4000), SUM)).max() <= 5 * BOUND / 8


def test_automatic_scale_of_nothing_but_zeros(threads: Group) -> None:
    assert not reduced(threads, np.zeros((3, 100), np.float32), scale="auto").any()
    mixed = np.zeros((3, 100), np.float32)
    mixed[1] = 1e-20
    assert reduced(threads, mixed, scale="auto") == pytest.approx(1e-20, rel=0.01)


def test_compression_makes_less_traffic(tcp: Group) -> None:
    x = gradients(2, 500_000)

    def run(t: Any) -> list[int]:
        came = []
        for path in ("off", "software"):
            allreduce_comp(t, x[t.rank], np.empty_like(x[t.rank]), path=path, scale=None)
            t.barrier()
            info = t.sockets()[1 - t.rank].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            # tcpi_bytes_received; the acknowledgement of what was sent may still be on its way.
            came.append(struct.unpack_from("<Q", info, 128)[0])
        return [came[0], came[1] - came[0]]

    for raw, compressed in tcp(2, run):
        assert raw >= x[0].nbytes
        assert compressed < raw / 3
