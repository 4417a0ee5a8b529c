# SPDX-License-Identifier: BSD-2-Clause
"""Namespaces and shaped networks as they are in the kernel: made, used, and gone whatever happens."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest
from namespaces import Namespace, existing
from programs import runs
from refusals import refused

from inceptionn.netns import (
    Namespaces,
    Network,
    NetworkError,
    NetworkUnavailable,
    iproute,
    mpirun,
    registry,
)

OWNER = """
import sys, time
from inceptionn.netns import Namespaces
with Namespaces(2) as network:
    sleeper = network.hosts[1].popen(["sleep", "600"])
    while not any("sleep" in open(f"/proc/{pid}/comm").read() for pid in network.hosts[1].pids()):
        time.sleep(0.01)
    print(*(host.name for host in network.hosts), network.folder, flush=True)
    while True:
        time.sleep(0.1)
"""
"""Its sleeps are short: Python does not run its handler for a signal that comes just before one begins."""


@pytest.fixture
def owner() -> subprocess.Popen[str]:
    """Another program that has a set of two namespaces, with a process in one."""
    iproute.require()
    return subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)


def names_of(owner: subprocess.Popen[str]) -> list[str]:
    assert owner.stdout is not None
    return owner.stdout.readline().split()


def test_hosts_are_hosts() -> None:
    with Network(2, mtu=9000) as network:
        first, second = network.hosts
        assert network.size == 2
        assert first.name.startswith("inc-")
        assert len(existing([first.name, second.name, network.switch])) == 3
        done = first.run(["cat", "/proc/sys/kernel/hostname"], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == first.name
        assert socket.gethostname() != first.name
        code = f"import socket; print(socket.gethostbyname({second.name!r}))"
        done = first.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == second.address == "10.77.0.2"
        first.set(tcp_timestamps=0)
        done = first.run(["cat", "/proc/sys/net/ipv4/tcp_timestamps"], capture_output=True, text=True)
        assert done.stdout.strip() == "0"
        with pytest.raises(NetworkError, match=f"{first.name}: tcp_congestion_control cannot be 'none such'"):
            first.set(tcp_congestion_control="none such")
        assert "mtu 9000" in iproute.ip("link", "show", "eth0", namespace=first.name)
        known = iproute.ip("neigh", "show", namespace=first.name)
        assert re.search(rf"^{second.address} dev eth0 lladdr \S+ PERMANENT", known, re.MULTILINE)
        server = second.popen(
            [sys.executable, "-c", "import socket as s; l = s.create_server(('', 5000)); print(flush=True); "
             "l.accept()[0].sendall(b'hello')"],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert server.stdout is not None
        server.stdout.readline()
        code = f"import socket as s; print(s.create_connection(({second.name!r}, 5000), 10).recv(9))"
        done = first.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "b'hello'"
        server.stdout.close()
        server.wait(10)
        names = network.names(int(first.name.split("-")[1]))
        made = existing(names)
        assert len(made) == 3
    assert not made & existing(names)


def shaped(network: Network, host: int) -> list[str]:
    """Return the rates of a host's own end and of the switch's end, as tc tells them."""
    ends = [(network.hosts[host].name, "eth0"), (network.switch, f"port{host}")]
    found = []
    for namespace, device in ends:
        command = [iproute.tool("tc"), "-n", namespace, "qdisc", "show", "dev", device]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        match = re.search(r"tbf .*rate (\S+)", text)
        found.append(match[1] if match else text.split()[1])
    return found


def test_rates_are_set_at_both_ends() -> None:
    with Network(3, "100m") as network:
        assert [shaped(network, host) for host in range(3)] == [["100Mbit"] * 2] * 3
        network.shape("2.5g")
        assert [shaped(network, host) for host in range(3)] == [["2500Mbit"] * 2] * 3
        network.shape(None)
        assert shaped(network, 0) == ["pfifo"] * 2


def test_a_rate_holds() -> None:
    """4 MB at 100 Mbit/s take 0.32 s of the link less its bucket; they cannot be quicker."""
    receive = (
        "import socket as s, time; l = s.create_server(('', 5000)); print(flush=True); c = l.accept()[0]\n"
        "start = time.monotonic(); n = 0\n"
        "while b := c.recv(1 << 20): n += len(b)\n"
        "print(n, time.monotonic() - start)"
    )
    send = "import socket, sys; socket.create_connection((sys.argv[1], 5000)).sendall(bytes(4_000_000))"
    with Network(2, "100m") as network:
        server = network.hosts[1].popen([sys.executable, "-c", receive], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        server.stdout.readline()
        network.hosts[0].run([sys.executable, "-c", send, network.hosts[1].address], check=True)
        count, elapsed = server.communicate(timeout=30)[0].split()
    assert int(count) == 4_000_000
    assert float(elapsed) > (4_000_000 - 2 * network.burst) * 8 / 1e8


ECHO = """
import socket
server = socket.socket(type=socket.SOCK_DGRAM)
server.bind(("", 5000))
print(flush=True)
while True:
    server.sendto(*server.recvfrom(9000))
"""
ASK = """
import json, socket, sys, time
client = socket.socket(type=socket.SOCK_DGRAM)
client.connect((sys.argv[1], 5000))
client.settimeout(2)
start = time.monotonic()
for n in range(200):
    client.send(bytes([n]))
came = []
try:
    while len(came) < 200:
        came.append(client.recv(9000)[0])
        if len(came) == 1:
            first = time.monotonic() - start
except TimeoutError:
    pass
print(json.dumps([len(came), first, came == sorted(came)]))
"""


@pytest.mark.parametrize(("conditions", "delay"), [({"delay": "5ms"}, 0.02), ({"loss": "10%"}, 0)])
def test_delay_and_loss(conditions: dict[str, str], delay: float) -> None:
    """A round trip passes four links; nothing is left of them."""
    with Network(2, "1g", **conditions) as network:
        made = existing([host.name for host in network.hosts])
        client, server = network.hosts
        echo = server.popen([sys.executable, "-c", ECHO], stdout=PIPE)
        assert echo.stdout is not None
        echo.stdout.readline()
        argv = [sys.executable, "-c", ASK, server.address]
        count, first, in_order = json.loads(client.run(argv, stdout=PIPE, text=True, check=True).stdout)
        echo.stdout.close()
    assert in_order
    assert first > delay
    lost = 200 - count
    assert 40 < lost < 100 if "loss" in conditions else lost == 0  # 1 - 0.9**4 of them: 69
    assert not made & existing([host.name for host in network.hosts])


def test_everything_goes_after_an_exception() -> None:
    network = Namespaces(2)

    def fail() -> None:
        with network:
            started.append(network.hosts[0].popen(["sleep", "600"]))
            made.update(existing([host.name for host in network.hosts]))
            raise KeyError

    started: list[subprocess.Popen[bytes]] = []
    made: set[Namespace] = set()
    with pytest.raises(KeyError):
        fail()
    assert started[0].returncode is not None
    assert len(made) == 2
    assert not made & existing([host.name for host in network.hosts])
    network.close()  # a second time is nothing


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_everything_goes_after_a_signal(owner: subprocess.Popen[str], number: int) -> None:
    *names, files = names_of(owner)
    made = existing(names)
    assert len(made) == 2
    owner.send_signal(number)
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.wait(20)
    assert not made & existing(names)
    assert not Path(files).exists()


def test_a_killed_owner_is_cleaned_up_after_and_a_living_one_left_alone(owner: subprocess.Popen[str]) -> None:
    *names, files = names_of(owner)
    try:
        made = existing(names)
        with Namespaces(1) as other:
            assert other.hosts[0].name not in names
            assert existing(names) == made
        with registry._lock():  # nobody else cleans up meanwhile
            owner.kill()
            assert owner.stdout is not None
            with owner.stdout:
                owner.wait(20)
            assert existing(names) == made
            assert len(made) == 2
            sleepers = registry.pids(names[1])
            assert sleepers
            assert Path(files, "hosts").exists()
            assert set(names) <= set(registry.sweep_locked())
            assert not existing(names)
        assert not Path(files).exists()
        assert not any(map(runs, sleepers))
    finally:
        owner.kill()


@pytest.fixture
def fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the registry's folder where /run cannot be written."""
    iproute.require()
    monkeypatch.setattr(os, "access", lambda path, mode: path != "/run")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "inceptionn-netns"


def test_the_fallback_is_roots_own(fallback: Path) -> None:
    assert registry.sweep() == []
    assert (fallback / "lock").exists()


@pytest.mark.parametrize("before", [None, 0o644])
def test_only_root_can_hold_the_lock(before: int | None, fallback: Path) -> None:
    fallback.mkdir()
    lock = fallback / "lock"
    if before is not None:
        lock.touch(before)
    registry.sweep()
    assert lock.stat().st_mode & 0o777 == 0o600


def test_an_owner_killed_before_its_claim_leaves_no_folder(fallback: Path) -> None:
    """The lock is held, so the owner waits with its claim when it is killed."""
    registry.sweep()
    program = (
        "import os, tempfile; from inceptionn.netns import registry, Namespaces\n"
        f"tempfile.tempdir = {str(fallback.parent)!r}\n"
        f"registry.folder = lambda: __import__('pathlib').Path({str(fallback)!r})\n"
        "lock = registry._lock\n"
        "registry._lock = lambda: (print('claims', flush=True), lock())[1]\n"
        "Namespaces(1).__enter__()\n"
    )
    with registry._lock():
        owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert owner.stdout is not None
        with owner.stdout as lines:
            assert lines.readline() == "claims\n"
            owner.kill()
            owner.wait(20)
    assert not list(fallback.parent.glob(f"{registry.FILES}*"))


@pytest.mark.parametrize("whose", ["nobody's", "all users'", "a link"])
def test_a_fallback_that_others_write_to_is_refused(whose: str, fallback: Path) -> None:
    victim = fallback.with_name("victim")
    victim.mkdir()
    if whose == "a link":
        fallback.symlink_to(victim)
    else:
        fallback.mkdir()
        os.chown(fallback, 65534 if whose == "nobody's" else 0, 0)
        fallback.chmod(0o755 if whose == "nobody's" else 0o777)
    refused(NetworkError, "is not a folder that only root can write to: remove it", registry.sweep)
    assert not list(victim.iterdir())


def test_no_link_is_followed(fallback: Path) -> None:
    fallback.mkdir()
    victim, record = fallback.with_name("victim"), fallback / "7.json"
    victim.write_text("kept")
    record.symlink_to(victim)
    registry.sweep()
    assert (victim.read_text(), record.is_symlink()) == ("kept", False)
    (fallback / "lock").unlink()
    (fallback / "lock").symlink_to(victim)
    refused(OSError, "symbolic links", registry.sweep)
    assert victim.read_text() == "kept"


def test_an_owner_whose_number_came_again_is_dead() -> None:
    """The record of a process that has our id and another start time."""
    iproute.require()
    record = {**registry._owner(os.getpid()), "namespaces": [], "files": ""}
    mine = registry.folder() / "100001.json"
    other = registry.folder() / "100002.json"
    mine.write_text(json.dumps(record))
    other.write_text(json.dumps({**record, "started": record["started"] - 1}))
    try:
        registry.sweep()
        assert mine.exists()
        assert not other.exists()
    finally:
        mine.unlink()


def test_two_sets_have_different_names() -> None:
    with Namespaces(1) as one, Namespaces(1) as other:
        assert one.hosts[0].name != other.hosts[0].name


def test_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with (
        pytest.raises(NetworkUnavailable, match=r"network namespaces need .*root \(run it with sudo\)"),
        Network(2),
    ):
        pass


def test_without_iproute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(NetworkUnavailable, match=r"the program 'tc' \(package iproute2\)"), Network(2):
        pass


def test_commands_that_fail_are_named() -> None:
    with Namespaces(1) as network:
        name = network.hosts[0].name
        with pytest.raises(NetworkError, match=f"ip -n {name} link set nothing up: "):
            iproute.batch("ip", name, ["link set lo up", "link set nothing up"])
        with pytest.raises(NetworkError, match="ip .*link show nothing: .*does not exist"):
            iproute.ip("link", "show", "nothing", namespace=name)


def test_used_before_it_is_up() -> None:
    refused(NetworkError, "the network is not up: use it in a with statement", Network(2).shape, "1g")


def test_mpi_runs_across_hosts() -> None:
    program = (
        "from mpi4py import MPI; import socket; c = MPI.COMM_WORLD\n"
        "print(c.rank, c.allreduce(c.rank), socket.gethostname())"
    )
    start = time.monotonic()
    with Network(3, "1g") as network:
        done = mpirun(
            network, [sys.executable, "-c", program], stdout=PIPE, stderr=PIPE, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        expected = {f"{host.index} 3 {host.name}" for host in network.hosts}
    assert set(done.stdout.split("\n")) - {""} == expected
    assert time.monotonic() - start < 60


def test_mpi_wants_ranks() -> None:
    with Namespaces(1) as network, pytest.raises(ValueError, match="ranks must be at least 1, not 0"):
        mpirun(network, ["true"], ranks=0)
