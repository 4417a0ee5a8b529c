# SPDX-License-Identifier: BSD-2-Clause
"""What collectives say of their cost: every byte, on every algorithm and transport."""

import itertools
import json
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from outcomes import Group, returned

from inceptionn import Codec
from inceptionn.collectives import (
    MEAN,
    CompressedCommunicator,
    ErrorFeedback,
    allreduce_comp,
    bcast_comp,
    call,
    statistics,
)
from inceptionn.collectives.ledger import MOST_PARTS, OTHERS, Ledger, Statistics, counted
from inceptionn.collectives.values.wire_form import Spent
from inceptionn.transport import Transport, loopback

PLANES = Codec(2**-10, "planes")


def values(rank: int, count: int = 20_000) -> Any:
    return np.random.default_rng(rank).normal(scale=0.01, size=count).astype(np.float32)


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "worker_aggregator", "paper_baseline"])
def test_every_byte_is_counted(group: Group, algorithm: str) -> None:
    def work(t: Transport) -> None:
        start = t.bytes_sent
        for path in ("software", "off"):
            before, sent, begun = statistics(t), t.bytes_sent, perf_counter()
            allreduce_comp(t, None, values(t.rank), MEAN, codec=PLANES, path=path, algorithm=algorithm)
            found = statistics(t).since(before)
            assert found.bytes_sent == t.bytes_sent - sent > 0
            assert found.calls == 1
            assert found.codec < perf_counter() - begun
            if path == "off":
                assert found.bytes_before == found.bytes_sent
            elif algorithm != "paper_baseline":  # whose aggregator sends values as they are
                assert found.bytes_sent < found.bytes_before
        whole = statistics(t)
        assert whole.bytes_sent == t.bytes_sent - start
        assert whole.path == "software, off"
        assert json.loads(whole.to_json()) == whole.as_dict()

    assert group(4, work) == [None] * 4


def test_the_path_since_is_that_of_the_later_calls() -> None:
    before = Statistics("x", calls=1, path="software")
    after = Statistics("x", calls=2, torch_calls=1, path="software, torch")
    assert after.since(before).path == "torch"


def test_a_line_for_a_log() -> None:
    found = Statistics("x", calls=3, torch_calls=1, bytes_sent=2e6, bytes_before=8e6, seconds=0.5, codec=0.25)
    assert found.line() == (
        "3 calls, 2.00 MB sent in place of 8.00 (ratio 4.00) by no path; ms of a call: 250.00, "
        "codec 125.00, waiting 0.00, sending 0.00, agreeing 0.00"
    )


def test_a_message_counts_once_for_each_peer() -> None:
    spent = Spent(sending=1.0)
    spent.sent(np.zeros(4, np.float32), 3, perf_counter() - 2)
    assert (spent.messages, spent.raw_bytes) == (3, 48)
    assert spent.sending >= 3


def test_a_line_of_one_call() -> None:
    assert "ms of a call: 500.00, codec 250.00, " in Statistics("x", calls=1, seconds=0.5, codec=0.25).line()


def test_dropped_is_the_energy_of_the_error(threads: Group) -> None:
    def work(t: Transport) -> Statistics:
        own = values(t.rank, 4096) * np.float32(8.0**-t.rank)
        feedback = ErrorFeedback(PLANES)
        for _ in range(18):
            allreduce_comp(t, own, np.empty_like(own), codec=PLANES, feedback=(feedback, "x"))
            lost = feedback.residual("x")
        found = statistics(t)
        assert found.samples == 2
        assert found.scale is not None
        assert found.codec + found.waiting + found.sending <= found.seconds
        once = energy(own - PLANES.lossy(own, scale=found.scale)) / energy(own)
        later = energy(lost) / energy(own)
        assert found.dropped == pytest.approx((once + later) / 2, rel=0.5)
        return found

    small, large = returned(threads(2, work))[::-1]
    assert small.dropped > 10 * large.dropped > 0  # rank 1's values are an eighth


def energy(x: Any) -> float:
    return float(np.square(x, dtype=np.float64).sum())


def test_quantising_before_the_sum_counts_as_coding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "perf_counter", itertools.count(0, 1000).__next__)
    (t,) = loopback(1)
    allreduce_comp(t, None, values(0), MEAN, codec=PLANES, feedback=(ErrorFeedback(PLANES), "x"))
    assert statistics(t).codec >= 1000


def test_a_communicator_and_a_transport_agree(threads: Group) -> None:
    def work(t: Transport) -> None:
        communicator = CompressedCommunicator(t, codec=PLANES)
        communicator.Allreduce(values(t.rank), np.empty(20_000, np.float32))
        bcast_comp(t, values(0), codec=PLANES)
        found = communicator.statistics()
        assert found == statistics(t)
        assert [part.name for part in found.parts] == [
            "all-reduce, 20000 values", "broadcast, 20000 values",
        ]  # fmt: skip
        lines = str(found).splitlines()
        assert len(lines) == 4
        assert lines[0].split()[-1] == "scale"
        assert len({len(line) for line in lines}) == 1

    returned(threads(2, work))


def test_the_size_before_a_nic_has_no_ratio(threads: Group) -> None:
    def work(t: Transport) -> None:
        allreduce_comp(t, None, values(t.rank))
        found = statistics(t)
        assert (found.path, found.ratio) == ("nic", None)
        assert found.bytes_before == found.bytes_sent > 0
        assert found.codec > 0  # what all ranks share is settled here
        assert str(found).splitlines()[-1].split()[:6] == ["all", "nic", "1", "0.080", "0.080", "-"]

    returned(threads(2, work, nic=Codec()))


def test_a_failed_call_is_not_counted(threads: Group) -> None:
    def work(t: Transport) -> None:
        with pytest.raises(ValueError, match="sub_block|rank 0"):
            allreduce_comp(t, None, values(0), path="software", sub_block=0 if t.rank == 0 else 1)
        assert statistics(t).calls == 0

    returned(threads(2, work))


def test_parts_are_bounded_and_labels_end() -> None:
    ledger, other = Ledger(), Ledger()
    for size in range(MOST_PARTS + 10):
        ledger.add("sum", "off", size, 4, None, None, 1.0, 0.5, Spent(messages=1))
    found = ledger.statistics()
    assert len(found.parts) == MOST_PARTS + 1
    assert found.parts[-1].name == OTHERS
    assert (found.calls, found.parts[-1].calls) == (MOST_PARTS + 10, 10)
    (transport,) = loopback(1)
    with counted(transport, other, "mine"):
        allreduce_comp(transport, None, values(0))
    allreduce_comp(transport, None, values(0))
    assert [part.name for part in other.statistics().parts] == ["mine"]
    assert statistics(transport).calls == 1


def test_values_that_are_not_finite_leave_no_share() -> None:
    ledger = Ledger()
    for dropped in (float("nan"), 0.25, 0.75):
        ledger.add("sum", "nic", 1, 4, 3, dropped, 1.0, 0.5, Spent(raw_bytes=4))
    found = ledger.statistics()
    assert (found.samples, found.dropped, found.ratio, found.scale) == (2, 0.5, None, 3)


def test_the_energy_dropped_is_that_of_the_exact_sum(threads: Group) -> None:
    """Values that planes alone keeps, from 2**13 on at this bound, come onto the lattice."""
    x, codec = (8192.25 + np.arange(2000)).astype(np.float32), Codec(2**-1, "planes")
    assert np.array_equal(codec.lossy(x), x)

    def run(t: Transport) -> float | None:
        allreduce_comp(t, x, np.empty_like(x), codec=codec, scale=None)
        return statistics(t).dropped

    lost = x.size * 0.25**2 / np.square(x, dtype=np.float64).sum()
    assert threads(2, run) == [pytest.approx(lost)] * 2
