# SPDX-License-Identifier: BSD-2-Clause
"""A network is trained on four hosts, over MPI and the NICs, as well as without them, on fewer bytes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cluster_hosts import PATIENCE, PROGRAMS, MakeCluster, no_checksum_errors, total
from missing import missing

from inceptionn.netns import mpi_popen
from inceptionn.netns.namespaces import Namespaces

RANKS, STEPS = 4, 50


def training(cluster: Namespaces, folder: Path) -> subprocess.Popen[str]:
    """Start the job: raw first, then, when the file "go" is there, through the NICs."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'inceptionn[dev]'")
    from inceptionn.evaluate.training import digits

    data = digits()
    np.savez(folder / "digits.npz", x=data.train.inputs, y=data.train.labels, test_x=data.test.inputs,
             test_y=data.test.labels)  # fmt: skip
    addresses = ",".join(host.address for host in cluster.hosts)
    variables = {"INCEPTIONN_ADDRESSES": addresses, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    argv = [sys.executable, str(PROGRAMS), "train", str(folder / "digits.npz"), str(STEPS), str(folder)]
    idle = {"mpi_yield_when_idle": "1"}
    return mpi_popen(cluster, argv, environment=variables, mca=idle, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_same_accuracy_on_fewer_bytes(make_cluster: MakeCluster, tmp_path: Path) -> None:
    if (reason := _no_mpi()) is not None:
        missing(reason)
    cluster = make_cluster(RANKS)
    job = training(cluster, tmp_path)
    deadline = time.monotonic() + PATIENCE
    while len(list(tmp_path.glob("raw-done-*"))) < RANKS:
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    raw = cluster.host_reports()
    (tmp_path / "go").touch()
    output, _ = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0
    answers = json.loads(output.splitlines()[-1])
    cluster.settle()
    reports = cluster.host_reports()

    assert answers["engines"] is True
    assert (answers["off_copies"], answers["nic_copies"]) == (1, 1), "ranks hold different networks"
    assert answers["off"] > 0.9
    assert abs(answers["off"] - answers["nic"]) <= 0.005
    assert no_checksum_errors(reports)

    # Both trainings hand the same number of bytes to the NICs; the second one's leave as much smaller as the
    # engines say that payloads shrink.
    payload = STEPS * 4 * answers["values"] * 2 * (RANKS - 1)
    sent_raw, sent_nic = total(raw, "TX_BYTES_IN"), total(reports, "TX_BYTES_IN") - total(raw, "TX_BYTES_IN")
    assert payload < sent_raw < 1.3 * payload
    assert abs(sent_nic / sent_raw - 1) < 0.1
    compressed = sum(host.tagged_bytes for host in reports)
    assert compressed > 0.95 * payload
    wire_raw = total(raw, "TX_BYTES_OUT")
    wire_nic = total(reports, "TX_BYTES_OUT") - wire_raw
    ratio = compressed / (compressed - (sent_nic - wire_nic))
    assert ratio > 3
    saved = compressed * (1 - 1 / ratio)
    assert wire_nic < 0.5 * wire_raw
    assert abs(wire_raw - wire_nic - saved) < 0.1 * wire_raw


def _no_mpi() -> str | None:
    try:
        import mpi4py  # noqa: F401
    except ImportError:
        return "mpi4py is not installed: pip install 'inceptionn[mpi]'"
    return None
