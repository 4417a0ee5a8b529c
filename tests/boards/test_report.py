# SPDX-License-Identifier: BSD-2-Clause
"""The report: what it measures, what it draws, and how it tells that something got worse."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn import cli
from inceptionn.boards.measure import history as report_history
from inceptionn.boards.measure import report, series7
from inceptionn.boards.measure.history import Entry, Figures
from inceptionn.boards.measure.place_and_route import ToolError, fingerprint
from inceptionn.boards.measure.plot import draw
from inceptionn.boards.measure.timing import resolve
from inceptionn.hdl.codec.shape import EngineShape

FIGURES = {
    "nic": Figures(20_000, 30_000, 18.5, 0, 12, 150.0),
    "compressor": Figures(6_000, 7_500, 8, 0, 9, 200.0),
    "tag_table": Figures(275, 296, 0, 0, 3, None),
}


class Parities(wiring.Component):
    """Exclusive or of six inputs, one table, registered, then of six such results, registered again."""

    def __init__(self) -> None:
        super().__init__({"bits": In(36), "parity": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        inputs, middle = Signal(36), Signal(6)
        m.d.sync += [inputs.eq(self.bits), self.parity.eq(middle.xor())]
        for i in range(6):
            m.d.sync += middle[i].eq(inputs.word_select(i, 6).xor())
        return m


def test_registers_end_a_path(tmp_path: Path) -> None:
    """Worked out by hand: seven tables of six inputs, with six registers between: paths of one table."""
    found = series7.map_series7(Parities(), tmp_path, "parities")
    assert found.levels == 1
    assert found.area.lut == 7 + 1  # the reset's inverter
    assert found.area.ff == 36 + 6 + 1 + 1  # and its register
    # The second time without a tool.
    (kept,) = tmp_path.glob("parities-series7-*/mapping.json")
    changed = json.loads(kept.read_text()) | {"levels": 77}
    kept.write_text(json.dumps(changed))
    assert series7.map_series7(Parities(), tmp_path, "parities").levels == 77


def test_longest_path() -> None:
    assert series7.parse_longest_path("\nLongest topological path in top (length=14):\n    0: a\n") == 14
    with pytest.raises(ToolError, match="a combinational loop"):
        series7.parse_longest_path(
            "Warning: Detected loop at x in top\nLongest topological path in top (length=3):"
        )
    with pytest.raises(ToolError, match="no path in its report: 'nothing'"):
        series7.parse_longest_path("nothing")


@pytest.mark.parametrize("name", report.COMPONENTS)
def test_every_component_can_be_made(name: str) -> None:
    _, factory = resolve(report.COMPONENTS[name])
    assert isinstance(factory(), wiring.Component)


@pytest.mark.parametrize("codec", report.DEFAULTS)
def test_default_components_of_a_codec(codec: str) -> None:
    for name in report.DEFAULTS[codec]:
        resolve(report.COMPONENTS.get(name, name), EngineShape.of(codec=codec))


def test_clock_of_what_was_routed(tmp_path: Path) -> None:
    """Only the route of the very same circuit counts."""
    target = "inceptionn.hdl.codec.paper.compression_block:CompressionBlock"
    short, factory = resolve(target)
    assert report.known_routes(target, tmp_path) == []
    other = tmp_path / f"{short}-0000000000000000"
    same = tmp_path / f"{short}-{fingerprint(factory())}"
    for folder, mhz in ((other, 500.0), (same, 300.0)):
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps({"routes": {"1": {"mhz": mhz}}}))
        assert report.known_routes(target, tmp_path) == ([] if folder is other else [300.0])


# The command


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figures]:
    """Stands in for the tools: the command reports what is in here."""
    found = dict(FIGURES)

    def figures(name: str, *rest: Any, **options: Any) -> Figures:
        return found[name]

    monkeypatch.setattr(report, "figures", figures)
    return found


def test_table_and_json(
    measured: dict[str, Figures], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "report.json"
    assert cli.main(["report", "nic", "tag_table", "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert "20,000 (4.62%)" in out
    assert "30,000 (3.46%)" in out
    assert "18.5 (1.26%)" in out
    facts = json.loads(path.read_text())
    assert facts["capacity"] == {
        "part": "XC7VX690T-2",
        "lut": 433200,
        "ff": 866400,
        "bram": 1470,
        "dsp": 3600,
    }
    assert facts["components"] == {name: asdict(FIGURES[name]) for name in ("nic", "tag_table")}
    assert facts["commit"] not in ("", None)


def test_history_shows_a_regression(
    measured: dict[str, Figures], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "history.jsonl"
    command = ["report", *FIGURES, "--history", str(history)]
    assert cli.main([*command, "--compare"]) == 2
    assert "No such file" in capsys.readouterr().err
    assert cli.main([*command, "--record"]) == 0
    assert cli.main([*command, "--compare", "--record"]) == 0
    assert "no changes" in capsys.readouterr().out
    assert len(report_history.read(history)) == 2

    # A little slower and larger passes; a clock that is gone is no figure at all.
    measured["nic"] = replace(FIGURES["nic"], mhz=145.0, lut=20_900)
    measured["compressor"] = replace(FIGURES["compressor"], mhz=None)
    assert cli.main([*command, "--compare"]) == 0
    assert "2 changes" in capsys.readouterr().out

    measured["nic"] = replace(FIGURES["nic"], mhz=140.0, lut=19_000)
    assert cli.main([*command, "--compare"]) == 1
    captured = capsys.readouterr()
    assert "by more than 5 %: nic mhz -6.7 %" in captured.err
    assert "-5.0 %" in captured.out  # fewer tables are no loss
    assert cli.main([*command, "--compare", "--threshold", "7"]) == 0

    # Percentages of small numbers are noise.
    measured["nic"] = FIGURES["nic"]
    measured["tag_table"] = replace(FIGURES["tag_table"], lut=275 + 16, levels=4)
    assert cli.main([*command, "--compare"]) == 0
    measured["tag_table"] = replace(FIGURES["tag_table"], dsp=1)
    assert cli.main([*command, "--compare"]) == 1

    capsys.readouterr()
    assert cli.main([*command, "--compare", "--board", "netfpga-sume"]) == 2
    assert "no report of 'netfpga-sume' in" in capsys.readouterr().err


def test_history_that_is_none(measured: dict[str, Figures], tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text('{"board": "vc709"}\n')
    with pytest.raises(ValueError, match=r"history.jsonl:1: no report: '\{\"board\": \"vc709\"\}'"):
        report_history.read(history)


def test_plot_is_the_same_twice(measured: dict[str, Figures], tmp_path: Path) -> None:
    entry = Entry("vc709", "2026-01-01", "0", "abc", "Yosys", FIGURES)
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, asdict(report.CAPACITIES["vc709"]), entry)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    for word in (*FIGURES, "no route of their own", "XC7VX690T-2"):
        assert word in text
