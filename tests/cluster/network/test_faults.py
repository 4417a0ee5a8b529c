# SPDX-License-Identifier: BSD-2-Clause
"""Faults of the network and of NICs: an application gets what was sent, or its codec's image, or nothing."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cluster_hosts import (
    MakeCluster,
    assert_no_wrong_value,
    no_checksum_errors,
    result,
    seen,
    start,
    total,
    wait_for_line,
)
from host_programs import gradients

from inceptionn.sim.cluster import Cluster, Impairments

COUNT, PORT, SEED = 300_000, 6000, 5
CODECS = ["paper", pytest.param("planes", marks=pytest.mark.slow)]
Connection = tuple[subprocess.Popen[str], subprocess.Popen[str]]


def connect(cluster: Cluster, folder: Path, pieces: int = 1, count: int = COUNT) -> Connection:
    """Host 0 sends floats to host 1; the first piece is on its way."""
    sink = start(cluster, 1, "receive", folder, PORT)
    assert wait_for_line(sink) == "ready"
    source = start(cluster, 0, "send", "host1", PORT, SEED, count, 1, pieces)
    return source, sink


def received(folder: Path) -> np.ndarray:
    """Return the whole values that have arrived so far."""
    path = folder / f"received-{PORT}"
    data = path.read_bytes() if path.exists() else b""
    return np.frombuffer(data[: len(data) // 4 * 4], np.float32)


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.05)


def all_arrives(connection: Connection, folder: Path, codec: str = "paper", count: int = COUNT) -> None:
    source, sink = connection
    result(source)
    assert result(sink)["end"] == "closed"
    values = received(folder)
    assert values.size == count
    assert_no_wrong_value(values, gradients(SEED, count), codec)


def stalled(cluster: Cluster, folder: Path, before: int, codec: str = "paper") -> None:
    """Compressed packets reach a kernel that cannot use them: it drops them, and nothing more arrives."""
    wait_until(lambda: cluster.host_reports()[1].checksum_errors["tcp"] >= 3)
    assert received(folder).size == before
    assert_no_wrong_value(received(folder), gradients(SEED, COUNT), codec)


def half_way(connection: Connection, folder: Path) -> None:
    """Wait until the first of two pieces has arrived."""
    wait_until(lambda: received(folder).size == COUNT // 2)


def go_on(connection: Connection) -> None:
    """Let the program send the second piece."""
    stdin = connection[0].stdin
    assert stdin is not None
    stdin.write("\n")
    stdin.flush()


def test_a_switch_that_rewrites_tos_stalls_the_connection_until_it_stops(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(2, impairments=Impairments(tos=0), congestion="reno")
    connection = connect(cluster, tmp_path)
    stalled(cluster, tmp_path, 0)
    report = cluster.host_reports()[1]
    assert report.registers["RX_RESTORED"] == 0
    assert report.registers["RX_UNTAGGED"] > 3, "the counter that says why"
    assert report.switch["tos_rewritten"] > 3
    cluster.impair(Impairments())
    all_arrives(connection, tmp_path)
    assert cluster.host_reports()[1].registers["RX_RESTORED"] > 100


@pytest.mark.parametrize("codec", CODECS)
def test_a_receiving_engine_is_switched_off_in_mid_connection(
    make_cluster: MakeCluster, tmp_path: Path, codec: str
) -> None:
    cluster = make_cluster(2, codecs=codec, congestion="reno")
    connection = connect(cluster, tmp_path, pieces=2)
    half_way(connection, tmp_path)
    cluster.nics[1].write("CONTROL", 1)  # transmit on, receive off
    go_on(connection)
    stalled(cluster, tmp_path, COUNT // 2, codec)
    assert cluster.nics[1].read("RX_DISABLED") > 0, "the counter that says why"
    cluster.nics[1].write("CONTROL", 3)
    all_arrives(connection, tmp_path, codec)


def test_a_sending_engine_is_switched_off_in_mid_connection(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """Nothing stalls: what follows arrives as it was sent."""
    cluster = make_cluster(2)
    connection = connect(cluster, tmp_path, pieces=2)
    half_way(connection, tmp_path)
    cluster.nics[0].write("CONTROL", 2)
    go_on(connection)
    all_arrives(connection, tmp_path)
    values, sent = received(tmp_path), gradients(SEED, COUNT)
    half = COUNT // 2
    assert np.array_equal(values[:1000].view("u4"), seen(sent[:1000]).view("u4"))
    assert np.array_equal(values[half:].view("u4"), sent[half:].view("u4"))
    reports = cluster.host_reports()
    assert reports[0].registers["TX_DISABLED"] > 0
    assert no_checksum_errors(reports)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("fault", ["flip", "truncate"])
def test_damage_that_no_mac_sees(make_cluster: MakeCluster, tmp_path: Path, fault: str, codec: str) -> None:
    """Without a frame check sequence the engines get what was damaged; the kernel judges what comes out."""
    damage = Impairments(flip="3%") if fault == "flip" else Impairments(truncate="3%")
    cluster = make_cluster(2, codecs=codec, impairments=damage, congestion="reno", seed=3)
    # In a block of planes only a code's bits tell of a flip, about one byte in eleven: it takes more frames.
    count = 4 * COUNT if codec == "planes" else COUNT
    all_arrives(connect(cluster, tmp_path, count=count), tmp_path, codec, count)
    cluster.drain()
    reports = cluster.host_reports()
    damaged = reports[1].switch["flipped" if fault == "flip" else "truncated"]
    assert damaged > 10
    said = reports[1].registers
    malformed = said["RX_MALFORMED"]
    assert reports[1].mac.get("bad", 0) == malformed, "what is marked bad goes no further than the MAC"
    assert malformed > 0
    refused = sum(reports[1].checksum_errors.values())
    if fault == "flip":
        assert refused > 0
    assert reports[0].kernel["retransmitted"] >= (malformed + refused) // 2


def test_damage_that_the_mac_sees(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """With a frame check sequence a damaged frame comes marked bad, leaves so, and ends at the MAC."""
    damage = Impairments(flip="2%", truncate="1%", fcs=True)
    cluster = make_cluster(2, impairments=damage, congestion="reno")
    all_arrives(connect(cluster, tmp_path), tmp_path)
    cluster.drain()
    reports = cluster.host_reports()
    for host in reports:
        damaged = host.switch.get("flipped", 0) + host.switch.get("truncated", 0)
        assert host.registers["RX_BAD"] == host.mac.get("bad", 0)
        assert 0 <= damaged - host.registers["RX_BAD"] <= damaged // 20  # one frame may be damaged twice
    assert total(reports, "RX_BAD") > 10
    assert total(reports, "RX_MALFORMED") == 0
    assert no_checksum_errors(reports)
