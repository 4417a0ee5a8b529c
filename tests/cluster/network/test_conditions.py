# SPDX-License-Identifier: BSD-2-Clause
"""Loss, reordering, duplication, delay, ECN, VLAN, both MTUs; other traffic on the link is unharmed."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from cluster_hosts import BOUND, MakeCluster, no_checksum_errors, result, start, total, wait_for_line
from host_programs import gradients

from inceptionn.sim.cluster import Impairments

RANKS, BULK = 4, 200_000


def rarely(*conditions: object) -> object:
    return pytest.param(*conditions, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("mtu", "vlan", "ecn"), [rarely(1500, None, True), (9000, 42, True), rarely(1500, 7, False)]
)
def test_everything_at_a_time(
    make_cluster: MakeCluster, tmp_path: Path, mtu: int, vlan: int | None, ecn: bool
) -> None:
    count = 1 << (17 if mtu == 1500 else 18)  # enough frames for each fault to happen
    hard = Impairments(loss="1%", reorder="2%", duplicate="2%", delay="200us", mark="4%")
    cluster = make_cluster(RANKS, mtu=mtu, vlan=vlan, ecn=ecn, impairments=hard, congestion="reno")
    sink = start(cluster, 1, "receive", tmp_path, 6000, 0)
    shell = start(cluster, 3, "echo", 6001)
    assert [wait_for_line(sink), wait_for_line(shell)] == ["ready", "ready"]
    others = [
        start(cluster, 0, "send", "host1", 6000, 99, BULK, 0),
        start(cluster, 2, "type_keys", "host3", 6001, 40),
    ]
    ranks = [start(cluster, rank, "allreduce", count, "nic", tmp_path) for rank in range(RANKS)]

    assert [result(rank)["nic"] for rank in ranks] == [True] * RANKS
    sums = [np.load(tmp_path / f"{rank}.npy") for rank in range(RANKS)]
    assert len({each.tobytes() for each in sums}) == 1
    exact = np.sum([gradients(rank, count).astype(np.float64) for rank in range(RANKS)], axis=0)
    assert BOUND / 2 < np.abs(sums[0] - exact).max() < RANKS * BOUND

    sent, typed = (result(process) for process in others)
    assert result(sink)["end"] == "closed"
    bulk = (tmp_path / "received-6000").read_bytes()
    assert hashlib.sha256(bulk).hexdigest() == sent["sha256"]
    assert bulk == gradients(99, BULK).tobytes()
    assert typed["wrong"] == 0
    assert result(shell)["count"] == 40

    cluster.drain()
    reports = cluster.host_reports()
    assert no_checksum_errors(reports)
    happened = {name: sum(host.switch.get(name, 0) for host in reports) for name in hard_names(ecn)}
    assert all(happened.values()), happened
    assert (sum(host.kernel["congestion"] for host in reports) > 0) == ecn
    assert sum(host.kernel["retransmitted"] for host in reports) > 0
    assert total(reports, "TX_COMPRESSED") > RANKS * 1.5 * 4 * count / mtu
    assert total(reports, "RX_RESTORED") > 0.95 * total(reports, "TX_COMPRESSED")
    assert total(reports, "RX_MALFORMED") == 0


def hard_names(ecn: bool) -> list[str]:
    return ["lost", "reordered", "duplicated", *(["marked"] if ecn else [])]
