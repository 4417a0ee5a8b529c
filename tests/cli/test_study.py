# SPDX-License-Identifier: BSD-2-Clause
"""The record that all measurements fill: what it prints, writes and draws."""

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer

from inceptionn.commands.console import Output
from inceptionn.commands.environment import environment
from inceptionn.commands.study import Curve, Figure, Panel, Study, measurement, panels


@measurement("x", plot=True)
def filled(study: Study, seed: Annotated[int, typer.Option()] = 7) -> None:
    """Fill a study."""
    study.conditions += ["one link", "two hosts"]
    study.table("Rows", {"": str, "twice": lambda row: str(2 * row)}, [4, 5])
    study.figures.append(Figure("twice as fast", 2.5, 2.0))
    study.rows, study.facts["count"] = [{"a": 1, "b": 2}], 2
    bars = Panel({"one": {"here": 1.5, "there": None}}, axes={"title": "bars"}, across=(1, "raw"))
    curve = Panel(curves=[Curve("model", [1, 2], [3, 4], "o-")], ticks={1: "one"})
    study.plot(panels([bars, curve], [Panel()]), 6, 4)


def test_study_writes_what_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    json_file, csv_file, plot = tmp_path / "a" / "r.json", tmp_path / "r.csv", tmp_path / "r.svg"
    filled(seed=7, json_file=json_file, csv_file=csv_file, plot=plot)
    printed = capsys.readouterr().out
    assert printed.startswith("one link\ntwo hosts; ")
    assert "reached" in printed
    assert "10" in printed
    found = json.loads(json_file.read_text())
    assert (found["bench"], found["count"], found["environment"]["seed"]) == ("x", 2, 7)
    assert found["figures"] == [Figure("twice as fast", 2.5, 2.0).json()]
    assert csv_file.read_text() == "a,b\n1,2\n"
    picture = plot.read_text()
    for label in ("here", "raw", "model", "not measured", "one", "bars"):
        assert f"<!-- {label} -->" in picture


def test_study_without_files_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study(Output(), environment(1))
    study.plot(lambda figure: pytest.fail("no chart was asked for"))
    study.finish()
    study.finish()
    assert capsys.readouterr().out.count("seed 1") == 1
    (tmp_path / "r.json").mkdir()
    with pytest.raises(OSError, match=r"r\.json"):
        filled(seed=1, json_file=tmp_path / "r.json")


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_interrupted_study_shows_what_it_holds(
    shown: bool, end: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    @measurement("x")
    def interrupted(study: Study, seed: int) -> None:
        if shown:
            study.show("half of it")
        raise end

    with pytest.raises(end):
        interrupted(seed=1)
    assert ("half of it" in capsys.readouterr().out) == shown
