# SPDX-License-Identifier: BSD-2-Clause
"""A group forms whatever other processes send to its ports meanwhile."""

import json
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from outcomes import Group, messages, outcomes
from refusals import refused

from inceptionn.netns import Network
from inceptionn.transport import PeerLost, TcpTransport, TransportError, connect
from inceptionn.transport.tcp import acceptor as acceptor_module
from inceptionn.transport.tcp import formation
from inceptionn.transport.tcp import mesh as mesh_module
from inceptionn.transport.tcp.acceptor import Acceptor
from inceptionn.transport.tcp.control import PROTOCOL, Control
from inceptionn.transport.tcp.line import HELLO_BYTES, Line, decoded, digest, ranks, text, whole
from inceptionn.transport.tcp.rendezvous import listen
from inceptionn.transport.tcp.secret import nonce

HELLO = {
    "rank": 1, "size": 2, "protocol": PROTOCOL, "job": "", "nic": "no", "tos": 40, "host": "127.0.0.1",
    "ports": [1], "nonce": "0" * 64, "secret": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (whole, [0, 1, (1 << 63) - 1], [-1, 1 << 63, True, 1.0, "1", None]),
        (text, ["", "a" * 4096], ["a" * 4097, b"a", 5, ["a"]]),
        (digest, ["0" * 64, "aF" * 32], ["0" * 63, "0" * 65, "x" * 64, ["0"] * 64, None]),
        (ranks, [[], [0, 5], [0] * (1 << 16)], [[0] * ((1 << 16) + 1), [-1], [True], (0,), {"0": 0}, 5]),
    ],
)
def test_checks_of_fields(check: Callable[[Any], bool], good: list[Any], bad: list[Any]) -> None:
    assert all(check(value) for value in good)
    assert not any(check(value) for value in bad)


def test_a_rank_may_say_what_a_stranger_may_not() -> None:
    """The hellos of 65 ranks, for example."""
    said = b'{"ranks":[' + b",".join([b"{}"] * 65) + b"]}"
    assert len(decoded(said)["ranks"]) == 65
    refused(ValueError, "nested too deeply", decoded, said, stranger=True)


def group(
    port: int,
    size: int = 3,
    listener: socket.socket | None = None,
    before: threading.Thread | None = None,
    **settings: Any,
) -> list[Any]:
    """Return what ranks in threads got: the sum of their numbers, or an error.

    The last rank waits for the end of ``before``, so the group cannot be complete earlier.
    """
    if listener is None:
        listener = listen(("127.0.0.1", port))
    own = {"nic": False, "timeout": 10} | settings

    def run(rank: int) -> int:
        first = {"listener": listener} if rank == 0 else {}
        with connect(rank, size, f"127.0.0.1:{port}", **own, **first) as t:
            return sum(t.exchange(t.rank))

    return outcomes([partial(run, rank) for rank in range(size)], before)


def line(**fields: Any) -> bytes:
    return json.dumps({**HELLO, **fields}).encode() + b"\n"


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in HELLO.items() if key != name}).encode() + b"\n"


@contextmanager
def knocking(port: int, noise: bytes) -> Iterator[None]:
    """Hold connections that say something and wait at the port before any rank."""
    with ExitStack() as stack, suppress(ConnectionResetError, BrokenPipeError):
        for _ in range(4):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            sock.sendall(noise)
        yield


@pytest.fixture
def at_the_data_ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``at_the_data_ports(noise, count)``: before a rank looks at a data port, strangers have been there.

    Every other one is gone again.
    """
    mesh = formation.mesh
    with ExitStack() as held:

        def visit(noise: bytes, count: int = 4) -> None:
            def met(transport: TcpTransport, hellos: list[Any], accepting: socket.socket, *rest: Any) -> Any:
                for number in range(count):
                    stranger = socket.create_connection(accepting.getsockname())
                    with suppress(OSError):
                        stranger.sendall(noise)
                    if number % 2:
                        stranger.close()
                    else:
                        held.enter_context(stranger)
                return mesh(transport, hellos, accepting, *rest)

            monkeypatch.setattr(formation, "mesh", met)

        yield visit


@pytest.mark.parametrize(
    "noise",
    [
        b"[" * 60_000 + b"\n", b'{"rank":' * 7_000 + b"\n", b"[" * 60_000, b"{" * 500_000, b"\n\n\n", b"1\n",
        b'{"rank": 1}\n', b"null\n", b'{"rank": 1}\n{"rank": 1}\n', line() + line(), b'{"proof": "0"}\n',
        *(without(name) for name in HELLO), line(rank=-1), line(rank=True), line(rank=1e999), line(job=["a"]),
        line(job="another"), line(job="another", protocol=99), line(ports=[]), line(ports=[0]),
        line(ports=["x"]), line(ports={"0": 1}), line(nonce="x" * 64), line(host=None), line(host="h" * 5000),
        line(nic={"a": [[[]]]}), line(secret=True), line(secret="no"), b"GET / HTTP/1.1\r\n\r\n", b"",
        b"\xff\xfe\x00\n", line(rank="x"),
    ],
    ids=lambda noise: noise[:40].decode("latin-1").strip() or "blank",
)  # fmt: skip
def test_strangers_that_speak(port: int, noise: bytes, at_the_data_ports: Callable[..., None]) -> None:
    at_the_data_ports(noise)
    listener = listen(("127.0.0.1", port))
    with knocking(port, noise):
        assert group(port, 2, listener) == [1, 1]


@pytest.mark.parametrize("nic", [False, None])
def test_a_scan_of_the_data_ports(
    port: int, nic: bool | None, at_the_data_ports: Callable[..., None]
) -> None:
    at_the_data_ports(b"", 40)
    assert group(port, nic=nic) == [3] * 3


def test_a_stranger_that_speaks_slowly(port: int) -> None:
    stop = threading.Event()

    def drip() -> None:
        with socket.create_connection(("127.0.0.1", port)) as sock, suppress(OSError):
            while not stop.wait(0.01):
                sock.sendall(b"[")

    listener = listen(("127.0.0.1", port))
    slow = [threading.Thread(target=drip, daemon=True) for _ in range(4)]
    for thread in slow:
        thread.start()
    try:
        assert group(port, 3, listener) == [3] * 3
    finally:
        stop.set()


RANK_0 = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from inceptionn.transport import TransportError, connect
from inceptionn.transport.tcp.rendezvous import listen
listener = listen(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
sys.stdin.readline()
with connect(0, 2, f"127.0.0.1:{sys.argv[1]}", nic=False, timeout=20, listener=listener) as t:
    print(t.exchange(0))
"""


def test_candidates_are_a_quarter_of_the_files_that_may_be_open(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the limit in force, whatever it could be raised to."""
    limits = SimpleNamespace(getrlimit=lambda _: (80, 80_000), RLIMIT_NOFILE=resource.RLIMIT_NOFILE)
    monkeypatch.setattr(acceptor_module, "resource", limits)
    with listen(("127.0.0.1", port)) as listener, Acceptor(listener) as acceptor:
        assert acceptor._most == 20


def test_a_thousand_connections_and_few_descriptors(port: int) -> None:
    """More strangers hold connections than the rank may have files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 1000 if hard == resource.RLIM_INFINITY or hard > 1500 else 300
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command = [sys.executable, "-c", RANK_0, str(port)]
        rank = stack.enter_context(subprocess.Popen(command, text=True, **pipes))
        stack.callback(rank.kill)
        assert rank.stdout is not None
        assert rank.stdout.readline() == "listens\n"
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        threading.Timer(0.5, lambda: rank.stdin and (rank.stdin.write("\n"), rank.stdin.flush())).start()
        with connect(1, 2, f"127.0.0.1:{port}", nic=False, timeout=20) as t:
            assert t.exchange(1) == [0, 1]
        assert rank.communicate(timeout=30)[0] == "[0, 1]\n"


def test_candidates_that_claim_to_be_ranks_leave_room_to_be_heard(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates that owe a proof hold all places; a rank and further strangers connect at the same time."""
    monkeypatch.setattr(acceptor_module, "MAX_CANDIDATES", 8)
    with ExitStack() as stack:
        listener = stack.enter_context(listen(("127.0.0.1", port)))
        acceptor = stack.enter_context(Acceptor(listener))
        end = time.monotonic() + 10

        def come() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port)))

        claiming = [come() for _ in range(8)]
        for sock in claiming:
            sock.sendall(b"{}\n")
        while len(acceptor._challenged) < 8:
            for candidate, _ in acceptor.receive(end):
                acceptor.mark_challenged(candidate)
        rank, *_ = [come() for _ in range(4)]
        rank.sendall(b'{"rank": 1}\n')
        said = []
        while not said and time.monotonic() < end:
            said = acceptor.receive(min(end, time.monotonic() + 1))
        assert [what for _, what in said] == [{"rank": 1}]


def test_a_candidate_that_says_too_much_is_closed(port: int) -> None:
    with listen(("127.0.0.1", port)) as listener, socket.create_connection(("127.0.0.1", port)) as stranger:
        with Acceptor(listener) as acceptor:
            stranger.sendall(b" " * (HELLO_BYTES + 1))
            stranger.settimeout(0.01)
            end, left = time.monotonic() + 10, b"?"
            while left and time.monotonic() < end:
                acceptor.receive(time.monotonic() + 0.01)
                with suppress(TimeoutError):
                    left = stranger.recv(1)
        assert not left


def test_a_candidate_is_closed_at_its_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(acceptor_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with (
        listen(("127.0.0.1", port)) as listener,
        socket.create_connection(("127.0.0.1", port), 10) as stranger,
        Acceptor(listener) as acceptor,
    ):
        acceptor.receive(clock.now + 10)
        clock.now = 109.9
        acceptor.receive(clock.now)
        assert len(acceptor._candidates) == 1
        clock.now = 110.0
        acceptor.receive(clock.now)
        assert not acceptor._candidates
        assert stranger.recv(1) == b""


@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"b":', b"}")])
def test_objects_of_a_stranger_are_flat_until_it_is_known(port: int, opened: bytes, closed: bytes) -> None:
    said = b'{"a":' + opened * 100 + b"0" + closed * 100 + b"}\n"
    with listen(("127.0.0.1", port)) as listener, socket.create_connection(("127.0.0.1", port), 10) as theirs:
        line = Line(listener.accept()[0], 10)
        with line.sock:
            theirs.sendall(said)
            refused(ValueError, "an object is nested too deeply", line.receive)
            line.lines.clear()
            line.trust()
            theirs.sendall(said)
            assert line.receive() == [json.loads(said)]


def test_two_ranks_with_one_port_for_floats(tcp: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    class Same(struct.Struct):
        def pack(self, *values: Any) -> bytes:
            return super().pack(5000)

    monkeypatch.setattr(mesh_module, "_PORT", Same("<H"))
    for said in messages(tcp(3, lambda t: None, nic=None), TransportError):
        assert "rank 2 announced the address and port of rank 1" in said


def test_candidates_are_no_more_than_may_be(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor_module, "MAX_CANDIDATES", 4)
    with ExitStack() as stack:
        listener = stack.enter_context(listen(("127.0.0.1", port)))
        acceptor = stack.enter_context(Acceptor(listener))
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        for _ in range(8):
            acceptor.receive(time.monotonic() + 0.01)
        assert len(acceptor._candidates) == 4


def test_where_none_can_be_accepted_the_oldest_candidate_goes(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(listener: socket.socket) -> None:
        raise TransportError("no more files")

    with ExitStack() as stack:
        listener = stack.enter_context(listen(("127.0.0.1", port)))
        acceptor = stack.enter_context(Acceptor(listener))
        stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        while not acceptor._candidates:
            acceptor.receive(time.monotonic() + 0.01)
        monkeypatch.setattr(acceptor_module, "accepted", full)
        refused(TransportError, "no more files", acceptor._accept_waiting)
        assert not acceptor._candidates


def test_no_descriptor_for_a_rank_is_a_clear_error(port: int) -> None:
    program = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from inceptionn.transport import connect
from inceptionn.transport.tcp.rendezvous import listen
listener = listen(("127.0.0.1", int(sys.argv[1])))
try:
    while True:
        last = os.dup(0)
except OSError:
    os.close(last)
print("listens", flush=True)
try:
    connect(0, 2, f"127.0.0.1:{sys.argv[1]}", nic=False, timeout=20, listener=listener)
except Exception as error:
    print(type(error).__name__, error)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(port)], stdout=subprocess.PIPE, text=True
    ) as rank:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "listens\n"
        with socket.socket() as stranger:
            stranger.connect_ex(("127.0.0.1", port))  # it may be reset before it has been made
            assert rank.stdout.readline() == (
                "TransportError no connection can be accepted: Too many open files; "
                "raise the limit of open files (ulimit -n)\n"
            )


def test_another_job_is_told_and_refused(port: int) -> None:
    said = []

    def stray() -> None:
        try:
            connect(1, 3, f"127.0.0.1:{port}", nic=False, timeout=10, job="another")
        except TransportError as error:
            said.append(str(error))

    listener = listen(("127.0.0.1", port))
    thread = threading.Thread(target=stray)
    thread.start()
    assert group(port, 3, listener, before=thread) == [3] * 3
    assert said == ["job differs: rank 0 has another one than rank 1, 'another'"]


@pytest.mark.parametrize(
    ("noise", "text"),
    [
        (b"[" * 60_000 + b"\n", "an object is nested too deeply"),
        (b'{"a\\"[":' + b"[" * 501 + b"]" * 501 + b"}\n", "an object is nested too deeply"),
        (b"[" * 501 + b'"' + b'\\"' * (1 << 20) + b"\\\n", "an object is nested too deeply"),
        (b"{}\n", "no known object has the fields []"),
        (b'{"round": 1, "rank": 1}\n', "no known object has the fields ['rank', 'round']"),
        (b'{"round": "x", "rank": 1, "value": 1}\n', "the field 'round' cannot be 'x'"),
        (b'{"round": 7, "rank": 1, "value": 1}\n', "a value of rank 1, round 7, was not expected"),
        (b'{"round": 1, "rank": 2, "value": 1}\n', "a value of rank 2, round 1, was not expected"),
        (b'{"round":1,"rank":1,"value":1,"rank":1}\n', "Extra data"),
        (b'{"round":1,"rank":1, "value": 1}\n', "a value is too long, or its line is not as this version"),
        (b'{"broken": 5}\n', "the field 'broken' cannot be 5"),
        (b'{"waits": [1, "a"]}\n', "the field 'waits' cannot be [1, 'a']"),
        (b"[]\n", "an object was expected, not list"),
        (b"\xff\n", "'utf-8' codec can't decode"),
    ],
)
def test_a_broken_peer_is_named(tcp: Group, noise: bytes, text: str) -> None:
    def run(t: TcpTransport) -> None:
        if t.rank == 1:
            t._control._lines[0].sock.sendall(noise)
        t.exchange(None)

    for said in messages(tcp(3, run), PeerLost):
        assert f"rank 1 sent something that is not a control object: {text}" in said


@pytest.mark.parametrize(
    "noise",
    [
        b'{"value": 1}\n', b'{"round": 1, "rank": 3, "value": 1}\n', b'{"round":1,"ranks":[],"value":1}\n',
        b'{"round":1,"ranks":[1,1],"value":1}\n', b'{"round":1,"ranks":[3],"value":1}\n',
        b'{"round":1,"ranks":[-1],"value":1}\n',
    ],
)  # fmt: skip
def test_a_rank_that_hears_nonsense_from_rank_0_names_it(tcp: Group, noise: bytes) -> None:
    def run(t: TcpTransport) -> None:
        if t.rank == 0:
            t._control._lines[1].sock.sendall(noise)
        for _ in range(2):  # the first may end before rank 1 has read that
            t.exchange(None)

    for said in messages(tcp(3, run), PeerLost):
        assert "rank 0 sent something that is not a control object" in said


def test_a_stranger_that_is_wrong_at_a_data_port_is_closed_before_the_ranks_have_come() -> None:
    rank: Any = SimpleNamespace(rank=0, size=2, _control=None)
    terms, socks = mesh_module.Terms(0, None, 5, b"", "session"), {}
    with ExitStack() as stack:
        listener = stack.enter_context(listen(("127.0.0.1", 0)))

        def come() -> bytes:
            first, second = (
                stack.enter_context(socket.create_connection(listener.getsockname(), 5)) for _ in range(2)
            )
            first.sendall(b'{"from":1}\n')
            left = first.recv(1)
            mesh_module._identify(Line(second, 5), 1, 0, terms, time.monotonic() + 5)
            return left

        assert outcomes([partial(mesh_module._accept, rank, listener, socks, terms), come]) == [None, b""]
        socks[1].close()


def test_a_stranger_with_a_wrong_token(port: int, at_the_data_ports: Callable[..., None]) -> None:
    noise = json.dumps({"from": 1, "token": nonce()}).encode() + b"\n"
    at_the_data_ports(noise)
    assert group(port, 2) == [1, 1]


def test_a_welcome_that_the_kernel_does_not_take_at_once(port: int) -> None:
    """Of hundreds of ranks it is longer than a send buffer."""
    welcome = {"welcome": ["x" * 1000] * 8000}
    with listen(("127.0.0.1", port)) as listener, socket.create_connection(("127.0.0.1", port), 10) as theirs:
        line = Line(listener.accept()[0], 0.0)
        line.send(welcome)
        assert line.pending
        control = Control(0, 2, {1: line})
        found = []
        reader = threading.Thread(target=lambda: found.append(theirs.makefile().readline()))
        reader.start()
        end = time.monotonic() + 10
        while reader.is_alive() and time.monotonic() < end:
            control.pump(0.1)
        control.close()
        reader.join(10)
        assert not control.pending
        assert json.loads(found[0]) == welcome


PROGRAM = """
import sys
from inceptionn.transport import connect
rank, rendezvous = int(sys.argv[1]), sys.argv[2]
with connect(rank, 3, rendezvous, timeout=20) as t:
    got = bytearray(5)
    t.sendrecv((rank + 1) % 3, b"hello", (rank - 1) % 3, got)
    print(t.exchange(rank), got.decode())
"""


def test_all_addresses_of_the_host_as_rendezvous_work_across_hosts(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    with Network(3) as network:
        address = f"{network.hosts[0].address}:29520"
        ranks = [
            host.popen(
                [sys.executable, str(script), str(rank), "0.0.0.0:29520" if rank == 0 else address],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for rank, host in enumerate(network.hosts)
        ]  # fmt: skip
        for rank in ranks:
            assert rank.communicate(timeout=60)[0] == "[0, 1, 2] hello\n"


def test_no_address_as_rendezvous_says_what_to_give(port: int) -> None:
    with pytest.raises(TransportError, match=r"0\.0\.0\.0 is this host: give the address of rank 0's host"):
        connect(1, 2, f"0.0.0.0:{port}", timeout=0.3)
