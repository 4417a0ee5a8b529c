# SPDX-License-Identifier: BSD-2-Clause
"""The application block inside the real Corundum, where INCEPTIONN_CORUNDUM names a clone of it."""

import os
import sys
from pathlib import Path

import pytest
import run
from programs import ended

HERE = Path(__file__).parent


@pytest.mark.slow
def test_inside_corundum(tmp_path: Path) -> None:
    source = os.environ.get("INCEPTIONN_CORUNDUM")
    if not source:
        pytest.skip("INCEPTIONN_CORUNDUM names no clone of Corundum; `make corundum` fetches one")
    rows = run.run(source, tmp_path, [512])
    assert len(rows) == 6
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


def test_the_plan_covers_both_directions() -> None:
    """Frames are compressed, restored and passed; every byte of the golden model's frames is specified."""
    plan = run.plan()
    counters = {name: number for name, (_, number) in plan["counters"].items()}
    assert counters["TX_COMPRESSED"] == counters["RX_RESTORED"] >= 20
    assert counters["TX_UNTAGGED"] == counters["RX_UNTAGGED"] >= 5
    assert [step["sent"] for step in plan["rx"]] == [step["frame"] for step in plan["tx"]]
    assert all(step["sure"] == len(step["frame"]) // 2 for step in plan["tx"] + plan["rx"])
