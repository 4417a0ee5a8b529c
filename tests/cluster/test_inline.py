# SPDX-License-Identifier: BSD-2-Clause
"""Inline devices as NICs of the cluster: the golden model's frames, and TCP through two of them."""

from pathlib import Path

import numpy as np
import pytest
from cluster_hosts import (
    MakeCluster,
    assert_no_wrong_value,
    no_checksum_errors,
    result,
    start,
    total,
    wait_for_line,
)
from host_programs import gradients

from inceptionn.sim.capture import read_pcap
from inceptionn.sim.cluster.inline_nic import InlineNic
from inceptionn.sim.cluster.nics import GoldenNic
from inceptionn.sim.replay.replay import DEFAULT_CAPTURE

ROOT = Path(__file__).parents[2]
COUNT, PORT = 20_000, 6000


def padded(frames: list[bytes]) -> list[bytes]:
    return [frame.ljust(60, b"\0") for frame in frames]


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [8, 1])
def test_an_inline_device_does_what_the_golden_model_does(lanes: int) -> None:
    """Frames on both sides and the engines' counters; a damaged frame never reaches the engine."""
    sent = padded(read_pcap(ROOT / DEFAULT_CAPTURE)[:120])
    device, golden = InlineNic("paper", 1, lanes=lanes), GoldenNic("paper")
    try:
        wire, host = device.exchange(sent, [])
        assert (wire, host) == (padded(golden.exchange(sent, [])[0]), [])
        back = [(frame, n % 7 == 0) for n, frame in enumerate(wire)]
        good = [(frame, bad) for frame, bad in back if not bad]
        assert device.exchange([], back) == ([], golden.exchange([], good)[1])
        counts = device.read_all()
        assert counts["TX_COMPRESSED"] == golden.read("TX_COMPRESSED") > 0
        assert counts["RX_RESTORED"] == golden.read("RX_RESTORED") > 0
        assert counts["RX_FRAMES_IN"] == len(good)
        device.write("CONTROL", 0)
        assert device.exchange(sent, [])[0] == sent
    finally:
        device.close()


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [8, 1])
def test_tcp_between_two_devices(make_cluster: MakeCluster, tmp_path: Path, lanes: int) -> None:
    """A program that only marks its connection: every value is what the codec makes of it."""
    cluster = make_cluster(2, "inline", lanes=lanes)
    sink = start(cluster, 1, "receive", tmp_path, PORT)
    wait_for_line(sink)
    result(start(cluster, 0, "send", "host1", PORT, 1, COUNT))
    result(sink)
    received = np.fromfile(tmp_path / f"received-{PORT}", np.float32)
    sent = gradients(1, COUNT)
    assert received.size == sent.size
    assert_no_wrong_value(received, sent)
    cluster.drain()
    reports = cluster.host_reports()
    assert total(reports, "RX_RESTORED") > 0
    assert no_checksum_errors(reports)
