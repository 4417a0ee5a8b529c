# SPDX-License-Identifier: BSD-2-Clause
"""Shared parts of the cluster's tests: programs on hosts, values, and checks of received values."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inceptionn.sim.cluster import Cluster
from inceptionn.sim.cluster.program import environment
from inceptionn.sim.golden import lossy, planes
from inceptionn.wire import BF16_LANES

PROGRAMS = Path(__file__).with_name("host_programs.py")
BOUND = 2.0**-10
PATIENCE = 120
"""Seconds after which a program on a host is taken to hang."""

Floats = NDArray[Any]
"""float32, or the words of bf16 as uint16."""
MakeCluster = Callable[..., Cluster]


def start(cluster: Cluster, host: int, name: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program of host_programs.py on a host."""
    argv = [sys.executable, str(PROGRAMS), name, *map(str, arguments)]
    variables = {**os.environ, **environment(cluster.hosts, host), "OMP_NUM_THREADS": "1"}
    return cluster.hosts[host].popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
    )


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a program, which must succeed; return what its last line says, as JSON."""
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail(f"a program on a host hangs: {process.args!r}")
    assert process.returncode == 0, process.args
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def wait_for_line(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that a program says, and return it."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def seen(values: Floats, codec: str = "paper") -> Floats:
    """Return what both NICs, by the golden model, make of values."""
    if values.dtype == np.uint16:
        return np.asarray(planes.lossy(values, BOUND, BF16_LANES))
    make = lossy if codec == "paper" else planes.lossy
    return np.asarray(make(values, error_bound=BOUND), np.float32)


def assert_no_wrong_value(received: Floats, sent: Floats, codec: str = "paper") -> None:
    """Every received value is the one that was sent, bit for bit, or what the codec makes of it."""
    ours, exact, lost = (
        values.view(f"u{sent.itemsize}")
        for values in (received, sent[: received.size], seen(sent[: received.size], codec))
    )
    wrong = (ours != exact) & (ours != lost)
    assert not wrong.any(), (
        f"{wrong.sum()} of {received.size} values are wrong, the first at {wrong.argmax()}"
    )


def assert_stalled(cluster: Cluster, reason: str) -> None:
    """Check that host 1's kernel soon refuses what its NIC did not restore; counter ``reason`` says why."""
    for _ in range(600):
        report = cluster.host_reports()[1]
        if report.checksum_errors["tcp"] >= 3:
            break
        cluster.drain(0.05, 0.05)
    assert report.checksum_errors["tcp"] >= 3
    assert report.registers[reason] >= 3
    assert report.registers["RX_RESTORED"] == report.registers["RX_MALFORMED"] == 0


def total(reports: Any, name: str) -> int:
    """Return a register's sum over all hosts."""
    return sum(host.registers.get(name, 0) for host in reports)


def no_checksum_errors(reports: Any) -> bool:
    """Whether no kernel has dropped a packet for its checksum."""
    checks: list[Mapping[str, int]] = [host.checksum_errors for host in reports]
    return not any(sum(errors.values()) for errors in checks)
