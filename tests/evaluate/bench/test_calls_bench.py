# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench calls`` in real namespaces."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from inceptionn import cli
from inceptionn.evaluate.bench.torch.calls_rank import AGREED, CODED, FED, GLOO


def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "calls.json"
    sizes = ["--hosts", "2", "--values", "64,4096", "--repeats", "1"]
    assert cli.main(["bench", "calls", *sizes, "--json", str(out)]) == 0
    assert "Milliseconds of a call" in capsys.readouterr().out
    found = json.loads(out.read_text())
    assert [(line["hosts"], line["values"]) for line in found["lines"]] == [(2, 64), (2, 4096)]
    for line in found["lines"]:
        assert {*line["seconds"]} == {CODED, FED, AGREED, *[GLOO] * bool(find_spec("torch"))}
        assert 0 < sum(line["parts"].values()) <= line["seconds"][CODED]
        assert all(seconds > 0 for seconds in line["seconds"].values())
