# SPDX-License-Identifier: BSD-2-Clause
"""The ToS mark on real sockets."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from refusals import refused

from inceptionn import Codec
from inceptionn.collectives import allreduce_comp
from inceptionn.tos.mark import TosError, is_tagged, tag, tagged, tos_of, untag
from inceptionn.transport import connect

HOSTS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


@pytest.fixture(params=HOSTS, ids=["IPv4", "IPv6"])
def family(request: pytest.FixtureRequest) -> int:
    try:
        with socket.socket(request.param) as sock:
            sock.bind((HOSTS[request.param], 0))
    except OSError:
        pytest.skip("no such addresses here")
    family: int = request.param
    return family


@pytest.fixture
def pair(family: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.socket(family) as listener:
        listener.bind((HOSTS[family], 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as one:
            other, _ = listener.accept()
            with closing(other):
                yield one, other


def test_before_connecting(family: int) -> None:
    with socket.socket(family) as sock:
        tag(sock)
        assert tos_of(sock) == 0x28
        assert is_tagged(sock)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        untag(sock)
        assert tos_of(sock) == 0


def test_on_the_fly_and_back(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    tag(one, 0x48)
    assert is_tagged(one, 0x48)
    assert not is_tagged(one)
    assert not is_tagged(other)
    one.sendall(b"data")
    assert other.recv(4) == b"data"
    untag(one)
    assert tos_of(one) == 0


def test_context_restores_what_was_there(pair: tuple[socket.socket, socket.socket]) -> None:
    one, _ = pair
    tag(one, 0x10)
    with tagged(one) as same:
        assert same is one
        assert is_tagged(one)
    assert is_tagged(one, 0x10)
    with pytest.raises(ZeroDivisionError), tagged(one):
        raise ZeroDivisionError
    assert is_tagged(one, 0x10)
    with tagged(one):
        one.close()  # nothing left to restore


def test_what_a_marked_listener_accepts_is_marked(family: int) -> None:
    with socket.socket(family) as listener:
        tag(listener)
        listener.bind((HOSTS[family], 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]):
            accepted, _ = listener.accept()
            with accepted:
                assert is_tagged(accepted)


@pytest.mark.parametrize("ecn", [0, 1, 2, 3])
def test_ecn_bits_stay(family: int, ecn: int) -> None:
    level, option = (
        (socket.IPPROTO_IP, socket.IP_TOS)
        if family == socket.AF_INET
        else (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
    )
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(level, option, ecn)
        tag(sock)
        assert tos_of(sock) == 0x28 | ecn
        with tagged(sock, 0x48):
            assert tos_of(sock) == 0x48 | ecn
        untag(sock)
        assert tos_of(sock) == ecn


@pytest.mark.parametrize("priority", [0, 5])
def test_the_priority_stays(family: int, priority: int) -> None:
    """Linux sets it with IP_TOS: to 2 with 0x28."""
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
        with tagged(sock):
            assert is_tagged(sock)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY) == priority
        untag(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY) == priority


def test_ipv4_peers_of_an_ipv6_socket() -> None:
    try:
        listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    except (OSError, ValueError):
        pytest.skip("no IPv6 here")
    with listener:
        tag(listener)
        with socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.family == socket.AF_INET6
                assert accepted.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0x28


@pytest.mark.parametrize("tos", [0, 1, 0x29, 0x2A, 0x100, -4, True, 40.0, "40"])
def test_values_that_are_no_mark(tos: Any) -> None:
    with (
        socket.socket() as sock,
        pytest.raises(ValueError, match=r"tos must be one of 4\.\.252 with the two ECN bits zero, not"),
    ):
        tag(sock, tos)


def test_other_families() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        for change in (tag, untag, tos_of, is_tagged):
            refused(ValueError, "only IPv4 and IPv6 sockets have a ToS byte, not AF_UNIX", change, sock)


def test_a_kernel_that_refuses_or_forgets() -> None:
    class Refusing(socket.socket):
        def setsockopt(self, level: int, option: int, *value: Any) -> None:
            if option == socket.IP_TOS and level == socket.IPPROTO_IP:
                raise PermissionError(1, "Operation not permitted")
            super().setsockopt(level, option, *value)

    class Forgetful(socket.socket):
        def setsockopt(self, level: int, option: int, *value: Any) -> None:
            if option != socket.IP_TOS or level != socket.IPPROTO_IP:
                super().setsockopt(level, option, *value)

    with Refusing() as sock, pytest.raises(TosError) as refused:
        tag(sock)
    assert str(refused.value) == "the kernel refuses ToS 0x28: Operation not permitted"
    with Forgetful() as sock, pytest.raises(TosError) as forgotten:
        tag(sock)
    assert str(forgotten.value) == "the kernel has not kept ToS 0x28 but has 0x00"


def test_a_closed_socket() -> None:
    sock = socket.socket()
    sock.close()
    refused(OSError, "Bad file descriptor", tag, sock)


@pytest.mark.parametrize("namespaces", [1500, 1501, 1450, 1449, 1406, 9000, 9003], indirect=True)
@pytest.mark.parametrize("bound", ["to the peer", "by itself"])
def test_segments_hold_whole_floats(namespaces: Any, bound: str) -> None:
    """Whatever the MTU, both directions, with and without the peer's address; seen in a capture."""
    data = bytes(range(256)) * 1200
    port = 7001
    listening = threading.Event()

    def server() -> None:
        with socket.socket() as listener:
            tag(listener)
            listener.bind(("10.77.9.1", port))
            listener.listen()
            listening.set()
            sock, _ = listener.accept()
            with sock:
                got = b""
                while len(got) < len(data):
                    got += sock.recv(65536)
                assert got == data
                sock.sendall(data)
                assert sock.recv(1) == b""

    def client() -> int:
        listening.wait(10)
        with socket.socket() as sock:
            tag(sock, peer=("10.77.9.1", port) if bound == "to the peer" else None)
            sock.connect(("10.77.9.1", port))
            sock.sendall(data)
            got = b""
            while len(got) < len(data):
                got += sock.recv(65536)
            assert got == data
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)

    sizes: list[int] = []
    segments = namespaces.record(0, lambda: sizes.append(namespaces.run([server, client])[1]))
    assert sizes[0] % 4 == 0
    carrying = [s for s in segments if s.payload]
    assert sum(len(s.payload) for s in carrying) >= 2 * len(data)
    assert {s.destination for s in carrying if s.source != port} == {port}
    assert all(len(s.payload) % 4 == 0 for s in carrying)
    # The kernel's own first answer to a connection is the listener's, marked as well. NICs ask for both SYNs.
    assert all(s.tos & 0xFC == 0x28 for s in segments)
    assert {s.source == port for s in segments if s.syn} == {False, True}


def test_no_way_to_a_peer(namespaces: Any) -> None:
    def run() -> None:
        with (
            socket.socket() as sock,
            pytest.raises(TosError, match=r"no route to 192\.0\.2\.1: Network is unr"),
        ):
            tag(sock, peer=("192.0.2.1", 1))

    namespaces.run([run])


def test_floats_and_nothing_else_on_marked_connections(namespaces: Any) -> None:
    """A whole all-reduce between two hosts: only floats are marked, all else is not."""
    x = np.random.default_rng(1).laplace(scale=0.01, size=(2, 100_001)).astype(np.float32)
    marked: list[dict[int, int]] = []

    def rank(number: int) -> Any:
        def run() -> bytes:
            with connect(number, 2, "10.77.9.1:7002", timeout=10, nic=Codec()) as t:
                y = np.empty_like(x[0])
                allreduce_comp(t, x[number], y, path="nic")
                marked.append({s.getsockname()[1]: 1 for s in t.sockets(tagged=True).values()})
                t.barrier()
                return y.tobytes()

        return run

    results: list[Any] = []
    segments = namespaces.record(0, lambda: results.extend(namespaces.run([rank(0), rank(1)])))
    assert results[0] == results[1]
    ports = {port for found in marked for port in found}
    floats = [s for s in segments if {s.source, s.destination} <= ports]
    others = [s for s in segments if s not in floats]
    assert all(s.tos & 0xFC == 0x28 for s in floats)
    assert len({(s.source, s.destination) for s in floats if s.syn}) == 2, "the SYNs of both ends"
    assert all(s.tos == 0 for s in others)
    assert all(len(s.payload) % 4 == 0 for s in floats)
    carried = np.frombuffer(b"".join(s.payload for s in floats), np.float32)
    assert carried.size >= x[0].size
    assert np.all(np.abs(carried) < 1)  # headers, lengths or text would be other numbers
    assert any(b"protocol" in s.payload for s in others)
