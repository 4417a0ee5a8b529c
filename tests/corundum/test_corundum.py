# SPDX-License-Identifier: BSD-2-Clause
"""The application block inside the real Corundum, where INCEPTIONN_CORUNDUM names a clone of it."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run
from programs import ended

from inceptionn.sim.golden import checksum, packets
from inceptionn.sim.replay import referee
from inceptionn.wire import PROTOCOL_TCP

HERE = Path(__file__).parent


@pytest.mark.slow
def test_inside_corundum(tmp_path: Path) -> None:
    source = os.environ.get("INCEPTIONN_CORUNDUM")
    if not source:
        pytest.skip("INCEPTIONN_CORUNDUM names no clone of Corundum; `make corundum` fetches one")
    rows = run.run(source, tmp_path, [512])
    assert len(rows) == 7
    assert [row for row in rows if not row["passed"]] == []


def test_a_path_without_corundum_is_named(tmp_path: Path) -> None:
    """One line; an empty path stands for GitHub."""
    command = [sys.executable, HERE / "run.py", "--build", tmp_path / "build"]
    done = ended(*command, "--corundum", tmp_path / "none")
    assert done.returncode == 1
    assert done.stderr.startswith("corundum: ")
    assert len(done.stderr.splitlines()) == 1


def test_the_block_may_not_lose_what_the_template_brings() -> None:
    def row(subject: str, came: int) -> dict[str, object]:
        arrived = {"1514": [came, 10], "64": [7, 10]}
        return {"width": 512, "subject": subject, "test": "line rate", "passed": True, "arrived": arrived}

    equal, worse = [row("template", 10), row("block", 10)], [row("template", 10), row("block", 9)]
    run.judge(equal)
    run.judge(worse)
    assert all(entry["passed"] for entry in equal)
    assert not worse[1]["passed"]
    assert worse[1]["error"] == "lost: frames of 1514 bytes"


def test_a_template_that_brings_nothing_is_no_baseline() -> None:
    rows = [
        {"width": 512, "subject": subject, "test": "line rate", "passed": True, "arrived": {"64": [0, 10]}}
        for subject in ("template", "block")
    ]
    run.judge(rows)
    assert rows[0]["error"] == "none came: frames of 64 bytes"
    assert not rows[0]["passed"]


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    return run.plan()


@pytest.mark.parametrize("stage", ["tagged", "offloads"])
def test_the_plan_covers_both_directions(plan: dict[str, Any], stage: str) -> None:
    """Frames are compressed, restored and passed; every byte of the golden model's frames is specified."""
    traffic = plan[stage]
    counters = {name: number for name, (_, number) in traffic["counters"].items()}
    assert counters["TX_COMPRESSED"] == counters["RX_RESTORED"] >= 20
    assert counters["TX_UNTAGGED"] == counters["RX_UNTAGGED"] >= 5
    assert [step["sent"] for step in traffic["rx"]] == [step["frame"] for step in traffic["tx"]]
    assert all(step["sure"] == len(step["frame"]) // 2 for step in traffic["tx"] + traffic["rx"])


def test_checksums_of_the_plan(plan: dict[str, Any]) -> None:
    """Let scapy judge them: as sent, for the NIC to insert, on the wire and at the host that tests them."""
    for tx, rx in zip(plan["offloads"]["tx"], plan["offloads"]["rx"], strict=True):
        sent, wire, host = (bytes.fromhex(text) for text in (tx["sent"], tx["frame"], rx["frame"]))
        assert tx["insert"] == (34, 16 if sent[23] == PROTOCOL_TCP else 6)
        assert referee.valid(sent) == (True, False)
        assert referee.valid(wire) == (True, len(wire) == len(sent))
        assert referee.valid(host) == (True, True)
        before, after = (
            np.frombuffer(frame[referee.payload_offset(sent) :], "<f4") for frame in (sent, host)
        )
        np.testing.assert_allclose(after, before, rtol=0, atol=2.0**-10)


def test_linux_accepts_the_sum_taken_after_the_receive_engine_alone(plan: dict[str, Any]) -> None:
    """The sum covers all bytes after the Ethernet header; a valid IP header adds nothing to it."""

    def accepts(frame: bytes, total: int) -> bool:
        pseudo_header = packets.SOURCE, packets.DESTINATION, frame[23], len(frame) - 34
        return checksum.fold(total + checksum.pseudo_header_sum(*pseudo_header)) == 0xFFFF

    for step in plan["offloads"]["rx"]:
        wire, host = bytes.fromhex(step["sent"]), bytes.fromhex(step["frame"])
        assert accepts(host, step["sum"])
        assert accepts(host, checksum.word_sum(wire[14:])) == (wire == host)
