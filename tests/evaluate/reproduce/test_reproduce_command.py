# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn reproduce`` as users call it; the artefacts that take seconds, and all of them when slow."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from inceptionn import cli
from inceptionn.evaluate.reproduce import artefact, command
from inceptionn.evaluate.reproduce.artefact import Artefact, Row

FAST = ["--quick", "--no-torch", "--no-network"]


def run(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """Return an artefact's JSON."""
    assert cli.main(["reproduce", name, "--out", str(folder), *FAST, *arguments]) == 0
    facts: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return facts


@pytest.fixture(autouse=True)
def _digits() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")


def test_differences() -> None:
    assert Row("a", 50.0, 48.5, "%").difference == "-1.5 points"
    assert Row("a", 2.0, 3.0, "x").difference == "x 1.50"
    assert Row("a", 0.0, 3.0, "ms").difference == "+3"
    assert Row("a", "2 to 4 x", 3.0, "x").difference == Row("a", None, 3.0).difference == ""
    assert artefact.text_of(None, "%") == "-"
    assert artefact.text_of(12345.6, "ms") == "12,346 ms"
    assert artefact.text_of(999.6, "ms") == "1,000 ms"


def test_fig12_writes_table_csv_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = run("fig12", tmp_path)
    text = capsys.readouterr().out
    assert "paper" in text
    assert "difference" in text
    assert "measured parts were left out (--no-network)" in text
    rows = {row["name"]: row for row in facts["rows"]}
    ring = rows["AlexNet: INC, exchange less than WA"]
    assert ring["paper"] == 55.0
    assert ring["here"] == pytest.approx(81, abs=1)
    for mode in ("literal", "bounded"):
        assert rows[f"VGG-16: INC+C {mode}, times as fast as WA"]["here"] > 1.5
    with (tmp_path / "fig12.csv").open() as file:
        assert [row["name"] for row in csv.DictReader(file)] == list(rows)
    assert (tmp_path / "fig12.png").read_bytes().startswith(b"\x89PNG")


def test_table3_of_the_digits(tmp_path: Path) -> None:
    facts = run("table3", tmp_path, "--json", str(tmp_path / "again.json"))
    assert json.loads((tmp_path / "again.json").read_text())["rows"] == facts["rows"]
    rows = {row["name"]: row for row in facts["rows"]}
    shares = [rows[f"HDC 2^-10, {width}"]["here"] for width in ("2-bit", "10-bit", "18-bit", "34-bit")]
    assert sum(shares) == pytest.approx(100)
    by_shares, counted = (
        rows[f"HDC 2^-10, ratio {what}"]["here"] for what in ("by the shares", "of literal, sizes counted")
    )
    assert by_shares == pytest.approx(counted, rel=0.01)
    assert rows["VGG-16 2^-10, 2-bit"]["here"] is None
    assert "the ImageNet networks were left out (--no-torch)" in facts["notes"]


def test_all_with_a_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--only", "fig15,table2", "--out", str(tmp_path), "--json", str(tmp_path / "all.json")]
    assert cli.main(["reproduce", "all", *arguments, *FAST]) == 0
    facts = json.loads((tmp_path / "all.json").read_text())
    assert [entry["artefact"] for entry in facts["artefacts"]] == ["fig15", "table2"]
    assert facts["failed"] == []
    rows = {row["name"]: row for row in facts["artefacts"][0]["rows"]}
    assert rows["model: WA, 1024 nodes"]["here"] > 100 > 1 > rows["model: INC, 1024 nodes"]["here"]
    assert "Artefacts" in capsys.readouterr().out


def test_one_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(source: command.Source, made: Artefact) -> None:
        if source.name == "fig15":
            raise RuntimeError("no ring today")
        made.row("a", 1.0, 2.0)

    monkeypatch.setattr(command.Source, "make", make)
    assert cli.main(["reproduce", "all", "--only", "fig15,fig4", "--out", str(tmp_path), *FAST]) == 1
    assert "fig15: RuntimeError: no ring today" in capsys.readouterr().err
    assert (tmp_path / "fig4.json").exists()


def test_every_artefact_has_a_command() -> None:
    commands = cli.COMMANDS["reproduce"].commands
    assert commands is not None
    assert [entry.function for entry in commands.values()] == ["everything", *command.ARTEFACTS]
    for entry in commands.values():
        assert callable(getattr(command, entry.function))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # A test of the library's own codec makes figure 14, too.
    [pytest.param(one, marks=[pytest.mark.exhaustive] * (one == "fig14")) for one in command.ARTEFACTS],
)
def test_every_artefact_is_made(name: str, tmp_path: Path) -> None:
    assert cli.main(["reproduce", name, "--quick", "--no-torch", "--out", str(tmp_path)]) == 0
    facts = json.loads((tmp_path / f"{name}.json").read_text())
    assert facts["rows"]
    assert facts["conditions"] or facts["notes"]
