# SPDX-License-Identifier: BSD-2-Clause
"""What NICs do not know to begin with a float arrives exactly: parts of floats, connections marked late."""

import hashlib
import json
from pathlib import Path

import numpy as np
from cluster_hosts import BOUND, MakeCluster, no_checksum_errors, result, seen, start, wait_for_line
from host_programs import gradients

from inceptionn.hdl.control.registers import REGISTERS

PORT, SEED = 6000, 8


def test_segments_of_one_two_and_three_bytes_are_delivered_exactly(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """Then long ones that begin off the grid, a multiple of 4 long; then, on the grid again, floats."""
    cluster = make_cluster(2)
    payload = REGISTERS["PAYLOAD"]
    for nic in cluster.nics:  # a limit of one byte, so that nothing is raw for being short
        nic.write("PAYLOAD", payload["MIN"].put(1) | payload["MAX"].put(9216))
    tiny = [1, 2, 3, 1, 1, 3, 2, 2, 1, 3, 3, 3]
    odd = [1, 1448, 1200, 1, 1448, 64]
    floats = [1, 1448, 1448]
    sizes = [*tiny, *odd, *floats]
    assert (sum(tiny) % 4, sum(tiny + odd) % 4, sum(tiny + odd + floats) % 4) == (1, 3, 0)
    sink = start(cluster, 1, "receive", tmp_path, PORT)
    assert wait_for_line(sink) == "ready"
    sent = result(start(cluster, 0, "send_pieces", "host1", PORT, SEED, json.dumps(sizes)))
    assert result(sink)["end"] == "closed"
    reports = cluster.host_reports()
    data = gradients(SEED, sum(sizes) // 4 + 1).tobytes()[: sum(sizes)]
    assert hashlib.sha256(data).hexdigest() == sent["sha256"]
    came = (tmp_path / f"received-{PORT}").read_bytes()
    exact = sum(sizes) - sum(floats[1:])
    assert came[:exact] == data[:exact]
    last = np.frombuffer(data[exact:], np.float32)
    assert came[exact:] == seen(last).tobytes() != data[exact:]
    registers = reports[0].registers
    assert registers["TX_ALIGNMENT"] >= len(tiny), "shorter than a float"
    assert registers["TX_PHASE"] >= 4, "off the grid"
    assert registers["TX_COMPRESSED"] >= 2
    assert no_checksum_errors(reports)


def test_a_connection_marked_after_connect_passes_raw(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """Until the register says that segments may be trusted."""
    cluster = make_cluster(2, "golden")
    for trusted in (False, True):
        sink = start(cluster, 1, "receive", tmp_path, PORT, "0")
        assert wait_for_line(sink) == "ready"
        result(start(cluster, 0, "send", "host1", PORT, SEED, 20_000, "late"))
        assert result(sink)["end"] == "closed"
        registers = cluster.host_reports()[0].registers
        came = np.frombuffer((tmp_path / f"received-{PORT}").read_bytes(), np.float32)
        sent = gradients(SEED, 20_000)
        assert (registers["TX_COMPRESSED"] > 0, np.array_equal(came, sent)) == (trusted, not trusted)
        assert np.abs(came - sent).max() <= BOUND
        assert registers["TX_UNKNOWN_FLOW"] > 10
        cluster.nics[0].write(
            "CONTROL", REGISTERS["CONTROL"].reset | REGISTERS["CONTROL"]["LEARN_PHASES"].put(1)
        )
