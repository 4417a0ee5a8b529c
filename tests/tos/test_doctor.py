# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn doctor``: each line is the outcome of an attempt."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import pytest

from inceptionn import cli
from inceptionn.codec import codec
from inceptionn.commands import doctor
from inceptionn.tos.mark import TosError


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json", "-"]) == 0
    found = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert set(found) == {"system", "codec", "MPI", "ToS mark", "mark seen leaving", "inceptionn tag", "NIC"}
    chosen = ", ".join(f"{name} {path}" for name, path in codec.operation_paths().items())
    assert found["codec"]["detail"].startswith(f"{codec.active_path()} ({chosen}): ")
    assert found["ToS mark"]["state"] == "yes"
    assert found["ToS mark"]["detail"].startswith("IPv4 0x28")
    if os.geteuid() == 0:
        assert found["mark seen leaving"] == {
            "name": "mark seen leaving", "state": "yes", "detail": "ToS 0x28 to 127.0.0.1 on lo",
        }  # fmt: skip


@pytest.mark.usefixtures("root")
def test_a_mark_that_is_lost_on_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "tag", lambda sock: None)
    assert doctor.seen_leaving("127.0.0.1") == (
        "mark seen leaving", "failed", "ToS 0x00 to 127.0.0.1 on lo",
    )  # fmt: skip


@pytest.mark.usefixtures("root")
def test_a_packet_that_does_not_leave() -> None:
    assert doctor.seen_leaving("255.255.255.255").state == "failed"  # not allowed without SO_BROADCAST


_FLOOD = """
import socket
sinks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
for sink in sinks:
    sink.bind(("127.0.0.1", 0))
print(flush=True)
while True:
    sinks[0].sendto(bytes(60000), sinks[1].getsockname())
"""


@pytest.mark.usefixtures("root")
def test_beside_other_traffic() -> None:
    """A host whose packets are more than a capture of all of them could hold."""
    command = [sys.executable, "-c", _FLOOD]
    with ExitStack() as stack:
        for _ in range(2):
            flood = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(flood.kill)
            assert flood.stdout is not None
            flood.stdout.readline()
        assert [doctor.seen_leaving("127.0.0.1").state for _ in range(40)] == ["yes"] * 40


def test_a_kernel_that_refuses_the_mark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(sock: socket.socket) -> None:
        raise TosError(1, "the kernel refuses ToS 0x28: Operation not permitted")

    monkeypatch.setattr(doctor, "tag", refuse)
    monkeypatch.setattr(doctor, "seen_leaving", lambda peer: doctor.Finding("mark seen leaving", "no", ""))
    assert cli.main(["doctor", "--json", "-"]) == 1
    lines = json.loads(capsys.readouterr().out)
    assert [line for line in lines if line["name"] == "ToS mark"][0]["state"] == "failed"


def test_a_codec_that_breaks_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(codec.Codec):
        def decompress(self, *arguments: Any, **settings: Any) -> Any:
            return super().decompress(*arguments, **settings) * 1.5

    monkeypatch.setattr(doctor, "Codec", Broken)
    assert doctor.codec().state == "failed"
