# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn cluster``: what it runs, says and leaves behind. Most of it with NICs that need no model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from namespaces import existing
from programs import ended

from inceptionn.cli import main
from inceptionn.netns import registry, require, tap
from inceptionn.sim.cluster.commands import Event
from inceptionn.sim.cluster.nics import GoldenNic

SUM = """
import os, sys, numpy as np
from inceptionn.collectives import allreduce_comp
from inceptionn.transport import connect
rank, size = int(os.environ["INCEPTIONN_RANK"]), int(os.environ["INCEPTIONN_SIZE"])
with connect(rank, size, os.environ["INCEPTIONN_RENDEZVOUS"], host=os.environ["INCEPTIONN_ADDRESS"]) as group:
    x = np.full(5000, 0.1 * (rank + 1), np.float32)
    allreduce_comp(group, x, x)
    print("NIC" if group.nic else "software", x[0], flush=True)
"""


@pytest.fixture(autouse=True)
def _networks() -> None:
    require()
    tap.available()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ended(sys.executable, "-m", "inceptionn.cli", "cluster", *arguments, timeout=120)


def test_a_program_on_every_host_and_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run("run", "-n", "3", "--nic", "golden", "--json", str(report), "--", sys.executable, "-c", SUM)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert [line.split("| ")[0] for line in lines] == ["host0", "host1", "host2"]
    assert {line.split("| ")[1].split()[0] for line in lines} == {"NIC"}
    assert abs(float(lines[0].split()[-1]) - 0.6) < 3 * 2**-10
    assert "kernel: wrong checksums" in done.stderr
    found = json.loads(report.read_text())
    assert (found["status"], len(found["hosts"])) == (0, 3)
    for host in found["hosts"]:
        assert host["registers"]["TX_COMPRESSED"] > 0
        assert host["classes"]["TX_LANES_BITS16"] + host["classes"]["TX_LANES_BITS8"] > 1000
        assert host["payload_ratio"] > 1.5
        assert host["checksum_errors"] == {"tcp": 0, "udp": 0, "ip": 0}


def test_a_host_without_an_engine_makes_the_group_use_software() -> None:
    """The host library asks; an engine on one side only is one that is not there."""
    done = run("run", "-n", "3", "--nic", "golden,none,golden", "-q", "--", sys.executable, "-c", SUM)
    assert done.returncode == 0, done.stderr
    assert {line.split("| ")[1].split()[0] for line in done.stdout.splitlines()} == {"software"}


def test_status_is_the_programs() -> None:
    script = "import os, sys; sys.exit(7 * int(os.environ['RANK']))"
    assert run("run", "--nic", "none", "-q", "--", sys.executable, "-c", script).returncode == 7
    done = run("run", "-n", "1", "--nic", "none", "-q", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 128 + 9
    assert run("run", "-n", "1", "--nic", "none", "-q", "--", "no-such-program").returncode == 127
    done = run("run", "-n", "2", "--nic", "none", "--timeout", "1", "-q", "--", "sleep", "60")
    assert (done.returncode, done.stderr.strip()) == (124, "inceptionn: sleep has not ended within 1 s")


def test_mpirun() -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install 'inceptionn[mpi]'")
    script = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.allreduce(c.rank), c.size, flush=True)"
    mpirun = ["mpirun", "-np", "3", sys.executable, "-c", script]
    done = run("run", "-n", "2", "--nic", "golden", "-q", "--", *mpirun)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("3 3") == 3


def test_a_register_is_written_at_a_time(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    script = f"import time; time.sleep(1)\n{SUM}"
    done = run("run", "--nic", "golden", "--at", "0:host1:CONTROL=0x2", "-q", "--json", str(report),
               "--", sys.executable, "-c", script)  # fmt: skip
    assert done.returncode == 0, done.stderr
    hosts = json.loads(report.read_text())["hosts"]
    assert [host["raw"].get("DISABLED", 0) > 10 for host in hosts] == [False, True]
    event = Event("2.5:host1:control=0x1", 2)
    assert (event.seconds, event.host, event.register, event.value) == (2.5, 1, "CONTROL", 1)


def test_a_nic_that_fails_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object) -> None:
        raise RuntimeError("no beat moved for 5000 cycles")

    monkeypatch.setattr(GoldenNic, "_exchange", fails)
    script = "import socket, time; socket.socket(type=2).sendto(b'x', ('10.77.0.9', 9)); time.sleep(60)"
    command = ["cluster", "run", "--nic", "golden", "--no-live", "--", sys.executable, "-c", script]
    assert main(command) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said in [f"inceptionn: NIC of host{n} (golden): no beat moved for 5000 cycles" for n in range(2)]


def test_without_tap_devices_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tap, "_DEVICE", "/dev/net/none")
    assert main(["cluster", "run", "--nic", "none", "--", "true"]) == 1
    said = capsys.readouterr().err
    assert "this needs TAP devices, but /dev/net/none cannot be opened" in said
    assert len(said.splitlines()) == 1


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["cluster", "run", "--nic", "none", "--", "true"]) == 1
    assert capsys.readouterr().err == "inceptionn: network namespaces need root (run it with sudo)\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(number: signal.Signals) -> None:
    """Of a killed run, until the next one starts."""
    command = [sys.executable, "-m", "inceptionn.cli", "cluster", "run", "-n", "2", "--nic", "none", "-q"]
    command += ["--", "sh", "-c", "echo up; exec sleep 600"]
    ended = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert ended.stdout is not None
    assert "up" in ended.stdout.readline()
    assert "up" in ended.stdout.readline()
    records = [json.loads(path.read_text()) for path in registry.folder().glob("*.json")]
    names = {name for record in records if record["pid"] == ended.pid for name in record["namespaces"]}
    mine = existing(names)
    assert len(mine) == 2
    sleepers = [pid for name, *_ in mine for pid in registry.pids(name)]
    assert sleepers
    ended.send_signal(number)
    status = ended.wait(30)
    ended.stdout.close()
    assert status == {signal.SIGINT: 130, signal.SIGTERM: 128 + 15, signal.SIGKILL: -9}[number]
    if number == signal.SIGKILL:
        cleaned = run("clean")
        assert cleaned.returncode == 0
        assert "removed" in cleaned.stdout or not mine & existing(names)
    deadline = time.monotonic() + 10
    while mine & existing(names) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not mine & existing(names)
    assert not any(Path(f"/proc/{pid}/ns").exists() and _sleeps(pid) for pid in sleepers)


def _sleeps(pid: int) -> bool:
    try:
        return "sleep" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
