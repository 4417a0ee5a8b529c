# SPDX-License-Identifier: BSD-2-Clause
"""How groups over TCP form, and how they refuse to."""

import ctypes
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages, outcomes
from refusals import refused

from inceptionn import Codec
from inceptionn.system.address import parse_address
from inceptionn.tos.mark import is_tagged, tos_of
from inceptionn.transport import PeerLost, TcpTransport, TransportError, TransportTimeout, base, connect
from inceptionn.transport.probe import pattern
from inceptionn.transport.tcp import formation, rendezvous
from inceptionn.transport.tcp import transport as transport_module
from inceptionn.transport.tcp.control import PROTOCOL
from inceptionn.transport.tcp.line import Line
from inceptionn.transport.tcp.rendezvous import listen
from inceptionn.transport.tcp.secret import nonce, proof


def connected(port: int, ranks: list[int], size: int, **settings: Any) -> list[Any]:
    """Connect a group in which rank r gets ``settings[name][r]`` of each setting; return the outcomes."""
    where = f"127.0.0.1:{port}"

    def call(rank: int) -> Callable[[], Any]:
        own = {name: values[rank] for name, values in settings.items()}
        return lambda: connect(rank, own.pop("sizes", size), where, **({"timeout": 5.0, "nic": False} | own))

    results = outcomes([call(rank) for rank in ranks])
    for result in results:
        if isinstance(result, TcpTransport):
            result.close()
    return results


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sizes": [3, 3, 4]}, "size differs: rank 0 has 3, rank 2 has 4"),
        ({"nic": [None, None, False]}, "nic differs: rank 0 has 'ask', rank 2 has 'no'"),
        (
            {"nic": [Codec(), Codec(2**-8), Codec()]},
            "nic differs: rank 0 has 'bounded 0.0009765625 (E0 117, T 122, B 122)', "
            "rank 1 has 'bounded 0.00390625 (E0 119, T 123, B 123)'",
        ),
        ({"tos": [0x28, 0x28, 0x48]}, "tos differs: rank 0 has 40, rank 2 has 72"),
    ],
)
def test_disagreement_is_an_error_at_all_ranks(port: int, settings: dict[str, Any], text: str) -> None:
    for said in messages(connected(port, [0, 1, 2], 3, **settings), TransportError):
        assert text in said


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        (None, "job differs: rank 0 has another one than rank 1, 'b'"),
        ("of all", "job differs: rank 0 has 'a', rank 1 has 'b'"),
    ],
)
def test_another_job_is_told_only_to_who_has_the_secret(port: int, secret: str | None, text: str) -> None:
    found = connected(port, [0, 1, 2], 3, job=["a", "b", "a"], secret=[secret] * 3, timeout=[2.0] * 3)
    assert all(isinstance(error, TransportError) for error in found)
    assert str(found[1]) == text
    for error in found[::2]:
        assert "job differs: rank 0 has 'a', rank 1 has 'b'" in str(error)


def test_version_of_the_protocol(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def newer() -> Any:
        sock = socket.create_connection(("127.0.0.1", port))
        line = Line(sock, 5)
        line.send({"rank": 1, "size": 2, "protocol": 99, "job": "", "nic": "no", "tos": 40})
        said = line.receive()
        sock.close()
        return said

    listener = listen(("127.0.0.1", port), 2)
    first, second = outcomes(
        [lambda: connect(0, 2, f"127.0.0.1:{port}", nic=False, listener=listener), newer]
    )
    text = f"protocol differs: rank 0 has {PROTOCOL}, rank 1 has 99"
    assert messages([first], TransportError) == {text}
    assert second == [{"refused": text}]


def test_a_rank_that_is_there_twice(port: int) -> None:
    results = connected(port, [0, 1, 1], 3)
    for text in messages(results, TransportError):
        assert "rank 1 joined twice" in text


def test_port_in_use(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(
            TransportError, match=rf"cannot listen at 127.0.0.1:{port}: Address already in use"
        ):
            connect(0, 2, f"127.0.0.1:{port}", timeout=1)


def test_a_port_whose_last_connection_has_just_ended(port: int) -> None:
    with listen(("127.0.0.1", port)) as listener, socket.create_connection(("127.0.0.1", port)) as theirs:
        listener.accept()[0].close()
        assert theirs.recv(1) == b""
    listen(("127.0.0.1", port)).close()


def test_no_descriptor_is_left(tcp: Group) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert tcp(3, lambda t: t.exchange(t.rank), nic=Codec()) == [[0, 1, 2]] * 3
    assert len(os.listdir("/proc/self/fd")) <= before


def test_the_longest_name_of_a_job() -> None:
    with connect(0, 1, job="j" * 512) as t:
        assert t.exchange(1) == [1]
    refused(ValueError, "job must have at most 512 characters, not 513", connect, 0, 1, job="j" * 513)


def test_nobody_at_the_rendezvous(port: int) -> None:
    begin = time.monotonic()
    with pytest.raises(TransportTimeout, match=rf"rank 0 does not answer at 127.0.0.1:{port}"):
        connect(1, 2, f"127.0.0.1:{port}", timeout=0.6)
    assert 0.4 < time.monotonic() - begin < 3


def test_two_addresses_of_one_host_are_said(port: int) -> None:
    """A name may mean another address at another rank."""
    there = socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][4][0]
    other = "::1" if there == "127.0.0.1" else "127.0.0.1"
    zero, one, named = outcomes([
        lambda: connect(0, 2, f"localhost:{port}", timeout=0.5),
        lambda: connect(1, 2, f"[{other}]:{port}", timeout=0.5),
        lambda: connect(1, 2, "localhost:1", timeout=0.5),
    ])  # fmt: skip
    place = f"localhost, which is {there}, port {port},"
    assert str(zero) == f"rank 1 did not reach the rendezvous at {place} within 0.5 s"
    assert str(one).startswith(f"rank 0 does not answer at {other}:{port}: ")
    tried = dict.fromkeys(info[4][0] for info in socket.getaddrinfo("localhost", 1, type=socket.SOCK_STREAM))
    assert str(named).startswith(f"rank 0 does not answer at localhost:1 (tried {', '.join(tried)}): ")


def test_something_else_at_the_rendezvous(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(TransportTimeout, match="rank 0 did not form the group"):
            connect(1, 2, f"127.0.0.1:{port}", timeout=0.5)


def test_unknown_host() -> None:
    with pytest.raises(TransportError, match=r"no such host: no\.such\.host\.invalid"):
        connect(1, 2, "no.such.host.invalid:1", timeout=1)
    with pytest.raises(TransportError, match=r"^no such host: a\.\.b$"):  # a UnicodeError of Python's
        connect(1, 2, "a..b:1", timeout=1)
    refused(TransportError, r"^no such host: \\x1b\[31m$", connect, 1, 2, "\x1b[31m:1", timeout=1)


@pytest.mark.parametrize("late", range(3))
def test_ranks_may_come_in_any_order(port: int, monkeypatch: pytest.MonkeyPatch, late: int) -> None:
    """The grace in which rank 0 still listens is for groups that cannot form."""
    monkeypatch.setattr(rendezvous, "GRACE", 0.0)

    def come(rank: int) -> Any:
        time.sleep(0.3 * (rank == late))
        return connect(rank, 3, f"127.0.0.1:{port}", nic=False, timeout=5)

    results = outcomes([partial(come, rank) for rank in range(3)])
    assert [t.rank for t in results] == [0, 1, 2]
    for transport in results:
        transport.close()


def test_ipv6(port: int) -> None:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")

    def run(rank: int) -> bytes:
        with connect(rank, 2, f"[::1]:{port}", timeout=5, nic=Codec()) as t:
            assert all(is_tagged(sock) for sock in t.sockets(tagged=True).values())
            got = bytearray(4)
            t.sendrecv(1 - rank, bytes([rank] * 4), 1 - rank, got, tagged=True)
            t.barrier()
            return bytes(got)

    assert outcomes([lambda: run(0), lambda: run(1)]) == [b"\1\1\1\1", b"\0\0\0\0"]


def test_only_connections_for_floats_are_marked(tcp: Group) -> None:
    def run(t: TcpTransport) -> tuple[list[int], list[int], list[int]]:
        marks = [[tos_of(s) for s in t.sockets(tagged=tagged).values()] for tagged in (False, True)]
        sizes = [s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) for s in t.sockets(tagged=True).values()]
        assert all(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for s in t.sockets().values())
        return marks[0], marks[1], [size % 4 for size in sizes]

    assert tcp(3, run, nic=Codec()) == [([0, 0], [0x28, 0x28], [0, 0])] * 3


def test_data_that_no_kernel_confirms_waits_as_long_as_the_time_limit(tcp: Group) -> None:
    def run(t: TcpTransport) -> set[int]:
        socks = [*t.sockets().values(), *t.sockets(tagged=True).values()]
        return {sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for sock in socks}

    assert tcp(2, run, nic=Codec(), timeout=7.5) == [{7500}] * 2


def test_without_nics_nothing_stays_marked(tcp: Group) -> None:
    """The question is asked, the answer is no, the connections for floats are gone, messages go on."""

    def run(t: TcpTransport) -> Any:
        assert not t.nic
        assert not t.floats
        assert t.sockets(tagged=True) == {}
        return t.exchange(t.rank)

    assert tcp(3, run, nic=None) == [[0, 1, 2]] * 3


@pytest.mark.parametrize("answer", [5, ["planes"], {"a": 1}, "a" * 5000], ids=lambda value: str(value)[:20])
def test_a_malformed_answer_about_nics_names_its_rank(
    tcp: Group, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    real = TcpTransport.exchange
    monkeypatch.setattr(TcpTransport, "exchange", lambda t, value: real(t, answer if t.rank == 1 else value))
    for text in messages(tcp(3, lambda t: None, nic=None), TransportError):
        assert "rank 1 sent a malformed answer to the search for NICs: " in text


def test_the_pattern_is_swapped_whole(tcp: Group) -> None:
    def run(t: TcpTransport) -> bool:
        received, requests = formation._swap(t, pattern())
        t.barrier()
        return all(r.test() for r in requests) and np.array_equal(received, [pattern()] * 2)

    assert tcp(3, run, nic=Codec()) == [True] * 3


@pytest.mark.parametrize(
    ("seen", "found"), [((10, 10), Codec(2**-10)), ((10, 8), None), ((10, None), None), ((None, None), None)]
)
def test_nics_have_one_codec(
    tcp: Group, monkeypatch: pytest.MonkeyPatch, seen: tuple[int | None, ...], found: Codec | None
) -> None:
    def swapped(t: TcpTransport, sent: Any) -> Any:
        k = seen[t.rank]
        return [sent if k is None else Codec(2.0**-k).lossy(sent)], []

    monkeypatch.setattr(formation, "_swap", swapped)
    assert tcp(2, lambda t: t.nic_codec, nic=None) == [found] * 2


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ({(0, 1)}, True),
        ({(0, 1), (1, 2), (2, 0)}, True),
        ({(0, 1), (0, 2)}, False),  # nobody has seen rank 0's NIC compress
        ({(1, 0), (2, 0)}, False),  # nor rank 0 any other
    ],
)
@pytest.mark.parametrize("half", [False, True])
def test_a_connection_without_an_entry_is_no_missing_nic(
    tcp: Group, monkeypatch: pytest.MonkeyPatch, raw: set[tuple[int, int]], found: bool, half: bool
) -> None:
    """Of the pairs ``raw`` (from, to), values pass as they are, those of bf16 alone with ``half``."""
    codec = Codec(codec="planes")

    def swapped(t: TcpTransport, sent: Any) -> Any:
        fp32 = sent.dtype == np.float32
        lossy = codec.lossy(sent) if fp32 else codec.lossy(sent, dtype="bfloat16")
        pairs = [(peer, t.rank) for peer in range(t.size) if peer != t.rank]
        return [sent if pair in raw and half is not fp32 else lossy for pair in pairs], []

    monkeypatch.setattr(formation, "_swap", swapped)
    expected = (codec, found) if half else (codec, True) if found else (None, False)
    assert tcp(3, lambda t: (t.nic_codec, t.nic_bf16), nic=None) == [expected] * 3


def test_listeners_are_marked_before_they_listen(tcp: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that comes at once is answered by a SYN with the mark, which NICs ask for."""
    marks: list[int] = []
    listen = socket.socket.listen

    class Watched(socket.socket):
        def listen(self, *arguments: Any) -> None:
            marks.append(tos_of(self))
            listen(self, *arguments)

    monkeypatch.setattr(rendezvous.socket, "socket", Watched)
    tcp(2, lambda t: None, nic=Codec())
    assert sorted(marks) == [0, 0, 0, 0x28, 0x28]


@pytest.mark.parametrize(
    ("codec", "changed", "found"),
    [
        (Codec(codec="planes"), {0, 1}, True),
        (Codec(codec="planes"), {1}, False),
        (Codec(codec="planes"), set(), False),
        (Codec(), {0, 1}, False),
    ],
)
def test_bf16_lanes_need_planes_and_all_nics(
    tcp: Group, monkeypatch: pytest.MonkeyPatch, codec: Codec, changed: set[int], found: bool
) -> None:
    def swapped(t: TcpTransport, sent: Any) -> Any:
        return [codec.lossy(sent, dtype="bfloat16") if t.rank in changed else sent], []

    monkeypatch.setattr(formation, "_codec_of_nics", lambda t: codec)
    monkeypatch.setattr(formation, "_swap", swapped)
    assert tcp(2, lambda t: t.nic_bf16, nic=None) == [found] * 2


def test_nics_that_must_be_there(tcp: Group) -> None:
    for text in messages(tcp(2, lambda t: None, nic=True), TransportError):
        assert "not every rank has a NIC with the engines" in text


def test_an_engine_on_one_side_only_is_found_out(
    port: int, tcp: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its packets have no valid checksum for the other side, so none that carries floats ever arrives."""
    mesh = formation.mesh
    # A classic BPF program for a socket: drop segments of more than 100 bytes with their header.
    program = struct.pack(
        "=HBBIHBBIHBBIHBBI", 0x80, 0, 0, 0, 0x25, 0, 1, 100, 6, 0, 0, 0, 6, 0, 0, 0xFFFFFFFF
    )
    memory = ctypes.create_string_buffer(program)
    filter_ = struct.pack("HxxxxxxP", 4, ctypes.addressof(memory))

    def deaf(
        transport: TcpTransport, hellos: list[Any], accepting: socket.socket, tagged: int, *rest: Any
    ) -> Any:
        socks = mesh(transport, hellos, accepting, tagged, *rest)
        if tagged and transport.rank == 1:
            for sock in socks.values():
                sock.setsockopt(socket.SOL_SOCKET, 26, filter_)  # SO_ATTACH_FILTER
        return socks

    monkeypatch.setattr(formation, "mesh", deaf)
    monkeypatch.setattr(formation, "SILENCE", 0.5)

    def run(t: TcpTransport) -> Any:
        return t.nic, t.floats, t.exchange(t.rank)

    assert tcp(2, run, nic=None) == [(False, False, [0, 1])] * 2


def joined(port: int, rank: int, size: int) -> Line:
    """Return the line of a rank that has proved that it belongs to the group."""
    line = Line(socket.create_connection(("127.0.0.1", port)), 5)
    hello = {"rank": rank, "size": size, "protocol": PROTOCOL, "job": "", "nic": "no", "tos": 40}
    hello |= {"host": "127.0.0.1", "ports": [1], "nonce": nonce(), "secret": False}
    line.send(hello)
    challenge = line.receive()[0]["challenge"]
    line.send({"proof": proof(b"", "rank", hello, challenge)})
    line.receive()
    return line


def test_a_rank_that_the_group_has_not(port: int) -> None:
    listener = listen(("127.0.0.1", port), 2)
    where = f"127.0.0.1:{port}"
    error, line = outcomes([
        lambda: connect(0, 2, where, nic=False, timeout=5, listener=listener),
        lambda: joined(port, 2, 2),
    ])  # fmt: skip
    line.sock.close()
    assert messages([error], TransportError) == {"rank 2 is not one of 1..1"}


def test_data_that_has_come_completes_its_request(tcp: Group) -> None:
    def run(t: TcpTransport) -> bool:
        if t.rank == 1:
            t.send(0, b"four", tagged=True)
        t.barrier()
        if t.rank == 0:
            request = t.irecv_into(1, bytearray(4), tagged=True)
            t._await([request], 0.9)
            return request.done
        return True

    assert tcp(2, run, nic=Codec()) == [True, True]


def test_data_that_arrives_is_progress(tcp: Group) -> None:
    def run(t: TcpTransport) -> bool:
        if t.rank == 1:
            t.send(0, b"x")
            return t.recv_into(0, bytearray(1)) == 1
        t.irecv_into(1, bytearray(1))
        moved = t._step(10)
        t.send(1, b"x")
        return moved

    assert tcp(2, run) == [True, True]


def test_a_value_that_arrives_is_progress(tcp: Group) -> None:
    def run(t: TcpTransport) -> bool:
        if t.rank == 0:
            t._control.contribute(b"5")
            return t._step(10)
        return t.exchange(6) == [5, 6]

    assert tcp(2, run) == [True, True]


def test_rank_0_is_told_of_each_wait_that_lasts_half_of_the_limit(
    tcp: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that it is over. A rank sleeps for a second at most, until the next reading of its clock."""
    now, told, slept = [0.0], [], []

    def step(timeout: float) -> bool:
        slept.append(timeout)
        now[0] += timeout
        return now[0] in (8, 16)

    def run(t: TcpTransport) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(base, "time", SimpleNamespace(monotonic=lambda: now[0]))
            patched.setattr(t, "_step", step)
            patched.setattr(t, "waits_for", lambda peers: told.append((now[0], tuple(peers))))
            t._run(lambda: len(slept) == 16, 8.0, "a message", lambda: {1})

    tcp(1, run)
    assert slept == [1] * 16
    assert told == [(4, (1,)), (8, ()), (12, (1,)), (16, ())]


def test_a_send_that_fails_at_once_is_an_error(tcp: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_EXPLANATION", 0.0)
    over = threading.Event()

    def run(t: TcpTransport) -> None:
        if t.rank:
            assert over.wait(20)
            return
        t.sockets()[1].shutdown(socket.SHUT_WR)
        try:
            t.isend(1, b"x")
        finally:
            over.set()

    assert messages(tcp(2, run)[:1], PeerLost) == {"rank 1 is lost: Broken pipe (EPIPE)"}


def test_a_rank_lost_while_the_group_forms(port: int) -> None:
    def leaves() -> Any:
        joined(port, 1, 3).sock.close()

    listener = listen(("127.0.0.1", port), 3)
    results = outcomes([
        lambda: connect(0, 3, f"127.0.0.1:{port}", nic=False, timeout=5, listener=listener),
        leaves,
        lambda: connect(2, 3, f"127.0.0.1:{port}", nic=False, timeout=5),
    ])  # fmt: skip
    assert isinstance(results[0], PeerLost)
    assert isinstance(results[2], PeerLost)
    assert "rank 1" in str(results[0])


@pytest.mark.parametrize("text", ["", "host", ":1", "host:", "host:x", "host:65536", "host:-1", ("host", 1)])
def test_addresses_that_are_none(text: Any) -> None:
    refused(ValueError, "an address is HOST:PORT, not", parse_address, text)


def test_a_name_that_cannot_be_looked_up() -> None:
    refused(TransportError, r"cannot listen at a\.\.b:80: .*label empty", listen, ("a..b", 80))


def test_addresses() -> None:
    assert parse_address("host:1") == ("host", 1)
    assert parse_address("[fe80::1]:65535") == ("fe80::1", 65535)


@pytest.mark.parametrize(("rank", "size"), [(-1, 2), (2, 2), (0, 0)])
def test_ranks_that_are_none(rank: int, size: int) -> None:
    refused(ValueError, "rank must be one of", connect, rank, size)
