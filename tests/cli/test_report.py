# SPDX-License-Identifier: BSD-2-Clause
"""The outputs that all measurements share."""

import json
from pathlib import Path

import pytest

from inceptionn.commands.report import Figure, Report


def drawn(path: Path) -> None:
    path.write_text("drawn")


def test_report_writes_what_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    json_file, csv_file, plot = tmp_path / "a" / "r.json", tmp_path / "r.csv", tmp_path / "r.svg"
    out = Report(7, json_file, csv_file, plot)
    out.show_conditions("two hosts")
    out.show_figures([Figure("twice as fast", 2.5, 2.0)])
    out.write({"bench": "x"}, [{"a": 1, "b": 2}], drawn)
    printed = capsys.readouterr().out
    assert printed.startswith("two hosts; ")
    assert "reached" in printed
    found = json.loads(json_file.read_text())
    assert (found["bench"], found["environment"]["seed"]) == ("x", 7)
    assert found["figures"] == [Figure("twice as fast", 2.5, 2.0).json()]
    assert csv_file.read_text() == "a,b\n1,2\n"
    assert plot.read_text() == "drawn"


def test_report_without_files_or_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = Report(1)
    out.show_figures([])
    out.write({}, [], lambda path: pytest.fail("no chart was asked for"))
    assert capsys.readouterr().out == ""
    (tmp_path / "r.json").mkdir()
    with pytest.raises(OSError, match=r"r\.json"):
        Report(1, tmp_path / "r.json")
