# SPDX-License-Identifier: BSD-2-Clause
"""NICs with bf16 lanes: connections of both types at the same time, faults, networks of unlike NICs."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from cluster_hosts import (
    Floats,
    MakeCluster,
    assert_no_wrong_value,
    assert_stalled,
    no_checksum_errors,
    result,
    seen,
    start,
    total,
    wait_for_line,
)
from host_programs import gradients

from inceptionn.sim.cluster import Cluster, Impairments
from inceptionn.wire import DEFAULT_BF16_TOS, DEFAULT_TOS

COUNT = 60_000
Connection = tuple[str, int, Path, subprocess.Popen[str], subprocess.Popen[str]]


def connect(cluster: Cluster, folder: Path, marked: str, port: int, source: int = 0) -> Connection:
    """Begin to send values of a type from a host to the other; the port is their seed."""
    sink = start(cluster, 1 - source, "receive", folder, port, marked)
    assert wait_for_line(sink) == "ready"
    sender = start(cluster, source, "send", f"host{1 - source}", port, port, COUNT, marked)
    return marked, port, folder / f"received-{port}", sender, sink


def received(connection: Connection) -> tuple[Floats, Floats]:
    """Return the whole values that have come so far, and all that were sent."""
    marked, port, path, *_ = connection
    sent = gradients(port, COUNT, marked)
    data = path.read_bytes()
    return np.frombuffer(data[: len(data) // sent.itemsize * sent.itemsize], sent.dtype), sent


def finish(connection: Connection) -> tuple[Floats, Floats]:
    """Wait for the end of both programs; the same as `received`."""
    for program in connection[3:]:
        result(program)
    came, sent = received(connection)
    assert came.size == COUNT
    return came, sent


@pytest.mark.parametrize(
    ("nic", "mtu"),
    [("golden", 1500), *(pytest.param("rtl", mtu, marks=pytest.mark.slow) for mtu in (1500, 9000))],
)
def test_both_types_at_the_same_time(make_cluster: MakeCluster, tmp_path: Path, nic: str, mtu: int) -> None:
    """Programs that know no NIC: each type and untagged bytes, in both directions."""
    cluster = make_cluster(2, nic, codecs="planes-bf16", mtu=mtu)
    ways = [("1", 0), ("bf16", 0), ("0", 0), ("bf16", 1), ("1", 1)]
    connections = [
        connect(cluster, tmp_path, marked, 6000 + n, host) for n, (marked, host) in enumerate(ways)
    ]
    for connection in connections:
        came, sent = finish(connection)
        if connection[0] == "0":
            assert came.tobytes() == sent.tobytes()
        else:
            assert_no_wrong_value(came, sent, "planes")
            assert np.mean(came == seen(sent, "planes")) > 0.99, "few packets are too short to compress"
    cluster.drain()
    reports = cluster.host_reports()
    assert no_checksum_errors(reports)
    for host in reports:
        other = reports[host is reports[0]]
        sent_frames = [host.registers[f"TX_COMPRESSED{kind}"] for kind in ("", "_BF16")]
        assert sent_frames == [other.registers[f"RX_RESTORED{kind}"] for kind in ("", "_BF16")]
        assert 5 < sent_frames[1] < sent_frames[0]
        assert host.codec.bf16
        fp32, bf16 = host.registers["TX_LANES"], host.registers["TX_LANES_BF16"]
        assert min(fp32, bf16) > 0.95 * COUNT
        assert max(fp32, bf16) < 2 * COUNT, "few segments are sent twice"
        assert host.tagged_bytes == 4 * fp32 + 2 * bf16
        assert host.payload_ratio is not None
        assert 3 < host.payload_ratio < 12


def test_faults_give_no_wrong_value_of_either_type(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """Loss, reordering, copies, damage that no frame check sequence sees."""
    faults = Impairments(loss="1%", reorder="1%", duplicate="1%", flip="1%", truncate="1%")
    cluster = make_cluster(2, "golden", codecs="planes-bf16", impairments=faults, seed=3)
    connections = [connect(cluster, tmp_path, marked, 6100 + n) for n, marked in enumerate(("1", "bf16"))]
    for connection in connections:
        assert_no_wrong_value(*finish(connection), "planes")
    reports = cluster.host_reports()
    assert total(reports, "RX_RESTORED_BF16") > 20
    assert sum(host.switch["flipped"] for host in reports) > 0


@pytest.mark.parametrize(
    ("receiver", "tos", "reason"),
    [("planes", None, "RX_UNTAGGED"), ("planes", DEFAULT_TOS, "RX_BAD_SHIM"), ("paper", None, "RX_UNTAGGED")],
    ids=["planes", "planes, ToS rewritten", "paper"],
)
def test_a_nic_without_bf16_delivers_no_wrong_value(
    make_cluster: MakeCluster, tmp_path: Path, receiver: str, tos: int | None, reason: str
) -> None:
    """Its host's checksum refuses the frames; the connection goes on when the sender's bf16 is off."""
    cluster = make_cluster(
        2, "golden", codecs=["planes-bf16", receiver], impairments=Impairments(tos=tos), congestion="reno"
    )
    connection = connect(cluster, tmp_path, "bf16", 6200)
    assert_stalled(cluster, reason)
    assert received(connection)[0].size == 0
    nic = cluster.nics[0]
    nic.write("TOS", nic.read("TOS") & 0xFFFF)
    came, sent = finish(connection)
    assert came.tobytes() == sent.tobytes()


def test_bf16_from_a_nic_without_it_arrives_exactly(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(2, "golden", codecs=["planes", "planes-bf16"])
    came, sent = finish(connect(cluster, tmp_path, "bf16", 6300))
    assert came.tobytes() == sent.tobytes()
    assert cluster.nics[1].read("RX_NO_SHIM") > 20
    came, sent = finish(connect(cluster, tmp_path, "1", 6301))
    assert np.mean(came == seen(sent, "planes")) > 0.99, "fp32 passes both NICs' engines"


@pytest.mark.parametrize("tos", [DEFAULT_TOS, DEFAULT_BF16_TOS], ids=["as fp32", "as bf16"])
def test_a_switch_may_rewrite_one_mark_to_the_other(
    make_cluster: MakeCluster, tmp_path: Path, tos: int
) -> None:
    """The shim alone names the lanes."""
    cluster = make_cluster(2, "golden", codecs="planes-bf16", impairments=Impairments(tos=tos))
    for connection in [
        connect(cluster, tmp_path, marked, 6400 + n) for n, marked in enumerate(("1", "bf16"))
    ]:
        came, sent = finish(connection)
        assert_no_wrong_value(came, sent, "planes")
        assert np.mean(came == seen(sent, "planes")) > 0.99
    assert cluster.host_reports()[1].switch["tos_rewritten"] > 20
