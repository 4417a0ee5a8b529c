# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn cluster bench``: figures that fit together. How high they are is not a test's business."""

import json
from pathlib import Path

import pytest

from inceptionn.cli import main
from inceptionn.netns import require
from inceptionn.netns.tap import available


def test_a_wire_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require()
    available()
    file = tmp_path / "bench.json"
    assert (
        main(["cluster", "bench", "--nic", "none", "--size", "4", "--mtu", "9000", "--json", str(file)]) == 0
    )
    said = capsys.readouterr().out
    assert "MB/s per processor" in said
    assert ">= 10 MB/s" in said
    facts = json.loads(file.read_text())
    assert facts["environment"]["seed"] is None
    one_way, ring = facts["flows"]
    assert (one_way["received"], ring["received"]) == (4_000_000, 4_000_000)
    for flow in (one_way, ring):
        assert flow["seconds"] > 0
        assert flow["rate"] == pytest.approx(flow["received"] / flow["seconds"])
        assert 0 <= flow["model_seconds"] < flow["processor_seconds"]
        assert flow["cycles"] == 0
