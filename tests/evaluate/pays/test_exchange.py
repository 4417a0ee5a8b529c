# SPDX-License-Identifier: BSD-2-Clause
"""The model's limits: bytes by arithmetic, the paper's formulas, and what a NIC cannot shrink."""

import math

import numpy as np
import pytest

from inceptionn import Codec
from inceptionn.commands.speed import synthetic
from inceptionn.evaluate.pays.costs import Coder, Form, Host, Link
from inceptionn.evaluate.pays.exchange import (
    Exchange,
    hierarchical,
    parameter_server,
    ring,
    worker_aggregator,
)
from inceptionn.evaluate.pays.ratios import TABLE_III, bits_ratio, constant, of_values, published

FREE = Host(add=math.inf, stack=math.inf, message=0.0)
SIZE = 400e6
BARE = Link(1e9, latency=0.0, mtu=9216, framing=0)
RAW = Form()
FAST = Coder(1e12, 1e12, 1e12, 1e12)


def goodput(link: Link) -> float:
    """Bytes of values per second on a link."""
    return link.bandwidth / 8 * link.segment / (link.segment + 52 + link.framing)


@pytest.mark.parametrize("ranks", [2, 4, 16, 100, 1024])
def test_a_ring_moves_what_arithmetic_says(ranks: int) -> None:
    found = ring(SIZE, ranks, BARE, FREE, RAW)
    assert found.wire_bytes * 8 / 1e9 == pytest.approx(2 * (ranks - 1) / ranks * SIZE / goodput(BARE))
    assert found.seconds == pytest.approx(2 * (ranks - 1) / ranks * SIZE / goodput(BARE), rel=0.02)
    assert found.limit == "link"


def test_an_aggregator_moves_what_arithmetic_says() -> None:
    """Sec. VIII-D, its dominating term: p n beta each way with an aggregator of its own."""
    here = worker_aggregator(SIZE, 4, BARE, FREE, RAW, RAW)
    paper = worker_aggregator(SIZE, 4, BARE, FREE, RAW, RAW, separate=True, overlap=False)
    assert here.seconds == pytest.approx(3 * SIZE / goodput(BARE), rel=0.02)
    assert paper.seconds == pytest.approx(8 * SIZE / goodput(BARE), rel=0.001)
    ratio = ring(SIZE, 4, BARE, FREE, RAW).seconds / paper.seconds
    assert ratio == pytest.approx(1.5 / 8, rel=0.02)  # the ring alone: 81 % less


def test_a_hierarchy_moves_the_bytes_of_a_ring_in_fewer_steps() -> None:
    link = Link(1e10, latency=50e-6)
    flat = ring(SIZE, 1024, link, FREE, RAW)
    groups = hierarchical(SIZE, 1024, link, FREE, RAW, 32)
    assert groups.wire_bytes == pytest.approx(flat.wire_bytes, rel=1e-6)
    assert groups.latency == pytest.approx(4 * 31 * 50e-6)
    assert flat.latency == pytest.approx(2 * 1023 * 50e-6)
    slow = hierarchical(SIZE, 1024, link, FREE, RAW, 32, Link(1e9, latency=50e-6))
    assert slow.seconds > groups.seconds


def test_servers_on_all_hosts_move_as_much_as_a_ring() -> None:
    found = parameter_server(SIZE, 8, BARE, FREE, RAW, RAW)
    assert found.seconds == pytest.approx(ring(SIZE, 8, BARE, FREE, RAW).seconds, rel=0.02)


def test_small_messages_cost_latency_per_step() -> None:
    link = Link(1e11, latency=1e-3)
    found = ring(4096, 16, link, FREE, RAW)
    assert found.seconds == pytest.approx(30e-3, rel=0.01)
    assert found.limit == "latency"


def test_a_nic_cannot_shrink_headers() -> None:
    """Sec. VIII-C: the number of packets stays, so the time shrinks by less than the ratio."""
    link = Link(1e10, mtu=1500)
    gain = link.seconds(SIZE) / link.seconds(SIZE, 14.9, per_packet=True)
    assert gain == pytest.approx((1448 + 90) / (8 + 1448 / 14.9 + 90))
    assert gain < 8
    assert link.seconds(SIZE, 1.0, per_packet=True) == link.seconds(SIZE)  # raw fallback


def test_engines_bound_the_gain() -> None:
    link = Link(40e9, latency=0.0)
    form = Form("nic", constant(14.0))
    assert ring(SIZE, 4, link, FREE, form).limit == "device"
    assert ring(SIZE, 4, link, FREE, RAW).seconds / ring(SIZE, 4, link, FREE, form).seconds < 1.7


def test_a_slow_codec_is_the_limit() -> None:
    slow = Form("software", constant(8.0), Coder(2e8, 2e8, 2e8, 2e8))
    found = ring(SIZE, 4, Link(1e10), FREE, slow)
    assert found.limit == "processor"
    assert found.seconds > ring(SIZE, 4, Link(1e10), FREE, RAW).seconds


def test_hosts_that_share_processors_take_turns() -> None:
    busy = Host(add=4e9, stack=1e9, message=0.0)
    shared = Host(add=4e9, stack=1e9, message=0.0, shared=2)
    alone, together = (ring(SIZE, 8, Link(1e13, 0.0), host, RAW).processor for host in (busy, shared))
    assert together == pytest.approx(4 * alone, rel=0.02)


def test_parts_and_repetitions_add_up() -> None:
    one = ring(SIZE, 4, BARE, FREE, RAW)
    assert one.times(3).seconds == pytest.approx(3 * one.seconds)
    assert Exchange.of(one, one).times(2).seconds == pytest.approx(4 * one.seconds)
    assert ring(SIZE, 1, BARE, FREE, RAW).seconds == 0


def test_seconds_are_numbers_that_json_holds() -> None:
    found = ring(SIZE, 4, Link(1e9, burst=1 << 17), Host(shared=2), RAW)
    assert {type(value) for name, value in vars(found).items() if name != "parts"} == {float}


def test_sums_compress_less_and_means_more() -> None:
    x, codec = synthetic(1 << 16, 1), Codec(2**-10)
    ratio = of_values(x, codec)
    assert ratio(1) == pytest.approx(x.nbytes / len(codec.compress(x)))
    assert ratio(1 / 4) > ratio(1) > ratio(2) > ratio(4)
    total = sum((synthetic(1 << 16, seed) for seed in range(1, 5)), np.zeros_like(x))
    assert ratio(4) == pytest.approx(total.nbytes / len(codec.compress(total)), rel=0.1)


def test_table_iii_gives_ratios() -> None:
    assert bits_ratio(TABLE_III["alexnet"][10]) == pytest.approx(5.59, abs=0.01)
    assert published("alexnet", 10)(1) == pytest.approx(7.36, abs=0.01)
    assert published("hdc", 10)(1) == pytest.approx(11.59, abs=0.01)
    assert bits_ratio((100, 0, 0, 0)) == 16
    with pytest.raises(ValueError, match="not 'alexnet' at k = 9"):
        published("alexnet", 9)
