# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn tag`` and ``inceptionn untag`` on the connection of another process."""

import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import NamedTuple

import pytest

from inceptionn import cli
from inceptionn.tos.process_sockets import ProcessError, sockets_of

OTHER = """
import socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
files = [open("/dev/null"), socket.socket(socket.AF_UNIX), socket.socket()]
for _ in sys.stdin:
    print(sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS), flush=True)
"""


class Other(NamedTuple):
    """A process with one TCP connection, and the port that goes to."""

    process: subprocess.Popen[str]
    port: int

    @property
    def tos(self) -> int:
        """What it says its socket has."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())


@pytest.fixture
def other() -> Iterator[Other]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with subprocess.Popen(
            [sys.executable, "-c", OTHER, str(port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            accepted, _ = listener.accept()
            with accepted:
                yield Other(process, port)
                process.kill()


def test_tag_and_untag(other: Other, capsys: pytest.CaptureFixture[str]) -> None:
    peer = f"127.0.0.1:{other.port}"
    assert other.tos == 0
    assert cli.main(["tag", str(other.process.pid), "--peer", peer]) == 0
    said = capsys.readouterr().out
    assert f"to {peer}: ToS 0x28" in said
    assert said.endswith("it was open already, so NICs compress it only with CONTROL.LEARN_PHASES\n")
    assert other.tos == 0x28
    argv = ["tag", str(other.process.pid), "--peer", f"localhost:{other.port}", "--tos", "0x2C"]
    assert cli.main(argv) == 0
    assert other.tos == 0x2C
    assert cli.main(["untag", str(other.process.pid), "--peer", peer]) == 0
    assert other.tos == 0


def test_no_such_connection_names_those_there_are(other: Other, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tag", str(other.process.pid), "--peer", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == (
        f"inceptionn: process {other.process.pid} has no TCP connection to 127.0.0.1:1; "
        f"it has 127.0.0.1:{other.port}\n"
    )
    assert other.tos == 0


def test_wrong_arguments(other: Other, capsys: pytest.CaptureFixture[str]) -> None:
    pid = str(other.process.pid)
    for arguments, status, text in (
        ([pid, "--peer", "nowhere"], 2, "an address is HOST:PORT, not 'nowhere'"),
        ([pid, "--peer", "no.such.host.invalid:1"], 2, "no such host: 'no.such.host.invalid'"),
        ([pid, "--peer", "127.0.0.1:9", "--tos", "41"], 2, "must be a multiple of 4 from 4 to 252, not 41"),
        ([pid, "--peer", "127.0.0.1:9", "--tos", "0"], 2, "must be a multiple of 4 from 4 to 252, not 0"),
        ([pid, "--peer", "127.0.0.1:9", "--tos", "low"], 2, "ToS must be a number of 0..255"),
        (["0", "--peer", "a:1"], 2, "Invalid value for 'pid'"),
        ([pid], 2, "Missing option '--peer'"),
    ):
        assert cli.main(["tag", *arguments]) == status
        assert text in capsys.readouterr().err
    assert other.tos == 0


def test_no_such_process(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert cli.main(["untag", str(gone.pid), "--peer", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == f"inceptionn: no process {gone.pid}\n"


def _as_nobody(pipe: Connection, pid: int) -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    try:
        list(sockets_of(pid))
    except ProcessError as error:
        pipe.send(str(error))
    else:
        pipe.send("no error")


@pytest.mark.usefixtures("root")
def test_no_right_to_trace(other: Other) -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_as_nobody, args=(theirs, other.process.pid))
    process.start()
    process.join(10)
    assert ours.recv() == (
        f"no permission to trace process {other.process.pid}, needed for its sockets (root has it)"
    )
