# SPDX-License-Identifier: BSD-2-Clause
"""One rank's end of its connections; the test is at the other ends."""

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from refusals import refused

from inceptionn.transport.base import PeerLost, TransportError
from inceptionn.transport.tcp.channel import Channel, Transfer
from inceptionn.transport.tcp.control import Control
from inceptionn.transport.tcp.line import Line
from inceptionn.transport.tcp.rendezvous import listen

Ends = Callable[[int, int], tuple[Control, dict[int, socket.socket]]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """``ends(rank, size)``: a rank's control connections, and the sockets of the ranks to which they lead."""
    with ExitStack() as stack:

        def make(rank: int, size: int) -> tuple[Control, dict[int, socket.socket]]:
            listener = stack.enter_context(listen(("127.0.0.1", 0)))
            lines, theirs = {}, {}
            for peer in (0,) if rank else range(1, size):
                theirs[peer] = stack.enter_context(socket.create_connection(listener.getsockname(), 10))
                lines[peer] = Line(listener.accept()[0], 0.0)
            control = Control(rank, size, lines)
            stack.callback(control.close)
            return control, theirs

        yield make


def test_a_kernel_that_answers_nothing_for_30_s_is_lost(ends: Ends) -> None:
    """Without data, a probe is due at that time, since the kernel looks at the limit when it sends one."""
    control, _ = ends(0, 2)
    sock = control._lines[1].sock
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    idle = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    assert idle < 30
    assert (30 - idle) % sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 0


def test_a_value_is_progress_and_a_question_is_none(ends: Ends) -> None:
    control, theirs = ends(0, 3)
    theirs[1].sendall(b'{"waits":[2]}\n')
    assert not control.pump(10)
    theirs[1].sendall(b'{"round":0,"rank":1,"value":5}\n')
    assert control.pump(10)


def test_a_rank_that_leaves_after_its_value_is_not_missing(ends: Ends) -> None:
    control, theirs = ends(0, 3)
    theirs[1].sendall(b'{"round":0,"rank":1,"value":5}\n{"bye":1}\n')
    control.pump(10)
    theirs[2].sendall(b'{"bye":2}\n')
    control.pump(10)
    assert control.departed == {1, 2}
    assert control.missing() == {2}


def test_what_a_rank_said_before_it_took_no_more_is_the_reason(ends: Ends) -> None:
    control, theirs = ends(1, 2)
    theirs[0].sendall(b'{"broken":"rank 7 is lost"}\n')
    assert select.select([control], [], [], 10)[0]
    control._lines[0].sock.shutdown(socket.SHUT_WR)
    control.wait_for([0])
    assert control.said == "rank 7 is lost"


def test_two_ranks_are_lost_at_once(ends: Ends) -> None:
    """The loss of the first is told to the second, which closes its connection before its own turn."""
    control, theirs = ends(0, 3)
    for peer, line in control._lines.items():
        theirs[peer].sendall(b"no object\n")
        line.sock.shutdown(socket.SHUT_WR)
    for line in control._lines.values():
        assert select.select([line.sock], [], [], 10)[0]
    refused(PeerLost, r"rank [12] sent something that is not a control object", control.pump, 10)
    assert not control._lines


def test_a_receive_wakes_for_the_last_byte_of_a_header() -> None:
    """The kernel may deliver a header in two parts, and an empty message has nothing else."""
    with listen(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname(), 10) as theirs:
        channel = Channel(listener.accept()[0], 1, framed=True)
        with channel.sock:
            receive = Transfer(1, memoryview(bytearray(4)), lambda transfer, timeout: None)
            channel.post_receive(receive)
            poll = select.poll()
            header = struct.pack("<Q", 0)
            for part in (header[:-1], header[-1:]):
                assert not receive.done
                poll.register(channel.sock, channel.awaited())
                theirs.sendall(part)
                assert poll.poll(10_000)
                channel.fill()
            assert receive.done


def test_what_the_kernel_does_not_take_is_sent_when_it_does() -> None:
    """The other end begins to read when nothing more fits between them."""
    said = b"x" * (8 << 20)
    begun = threading.Event()
    with listen(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname(), 10) as theirs:
        line = Line(listener.accept()[0], 10)
        line.sock.setblocking(False)

        def read() -> int:
            assert begun.wait(10)
            return sum(len(part) for part in iter(lambda: theirs.recv(1 << 16), b""))

        with line.sock, ThreadPoolExecutor() as pool:
            reader = pool.submit(read)
            line.send_encoded(said)
            assert line._out
            begun.set()
            line.drain(time.monotonic() + 30)
            assert not line._out
            line.sock.shutdown(socket.SHUT_WR)
            assert reader.result(30) == len(said)


def test_what_is_on_its_way_is_sent_before_a_rank_leaves(ends: Ends) -> None:
    control, theirs = ends(0, 2)
    control._lines[1].send({"value": "x" * 8_000_000})
    assert control.pending
    with ThreadPoolExecutor() as pool:
        found = pool.submit(_until, theirs[1], b'{"bye":0}\n')
        control.close()
        assert found.result(10)


def test_a_control_connection_that_ends_is_a_lost_rank(ends: Ends) -> None:
    control, theirs = ends(0, 3)
    theirs[1].close()
    refused(PeerLost, "^rank 1 is lost: its control connection ended$", control.pump, 10)


def test_ranks_that_do_not_exist_cannot_be_waited_for(ends: Ends) -> None:
    control, theirs = ends(0, 3)
    theirs[1].sendall(b'{"waits":[3]}\n')
    refused(TransportError, "rank 1 sent .* it waits for ranks that do not exist", control.pump, 10)


def test_a_member_that_never_reads_costs_rank_0_no_memory() -> None:
    """It asks again and again for whom it waits, and reads no answer."""
    size = 1000
    with listen(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        theirs = stack.enter_context(socket.socket())
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        theirs.connect(listener.getsockname())
        line = Line(stack.enter_context(listener.accept()[0]), 10)
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        control = Control(0, size, {1: line})
        stack.callback(control.close)
        question = json.dumps({"waits": list(range(2, size))}).encode() + b"\n"
        theirs.settimeout(10)
        for _ in range(200):
            theirs.sendall(question)
            control.pump(0.01)
        assert line.pending
        assert sum(view.nbytes for view in line._out) < 2 * len(question)

        theirs.sendall(b'{"waits":[3]}\n')  # its last question is answered once it reads
        reader = threading.Thread(target=lambda: found.append(_until(theirs, b'{"silent":[3]}\n')))
        found: list[bool] = []
        reader.start()
        for _ in range(1000):
            control.pump(0.01)
            if found:
                break
        assert found == [True]
        reader.join(10)


def _until(sock: socket.socket, last: bytes) -> bool:
    """Read until ``last`` has come; return whether it did."""
    tail = b""
    while last not in tail:
        if not (data := sock.recv(1 << 16)):
            return False
        tail = tail[-len(last) :] + data
    return True
