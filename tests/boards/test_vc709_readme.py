# SPDX-License-Identifier: BSD-2-Clause
"""The VC709's README names the engines' area and clock, and what to do if they miss the streams' clock."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from inceptionn.boards import package_files
from inceptionn.boards.board import Options
from inceptionn.boards.generate import load_board

RESULTS = Path(__file__).parents[2] / "docs" / "results.md"
ROWS = {"paper": "NIC: both engines and registers", "planes": "NIC, planes codec"}


def readme(monkeypatch: pytest.MonkeyPatch, options: Options) -> str:
    """Return the page's section on area and clock; the Verilog, which takes long, is left empty."""
    monkeypatch.setattr(package_files, "convert", lambda part, name, sources: f"module {name}(\nendmodule\n")
    monkeypatch.setattr(package_files, "emit", lambda part, name, sources: f"module {name}(\nendmodule\n")
    board = load_board("vc709")
    text = package_files.package(board, board.resolve(options))["README.md"]
    return " ".join(text.partition("## Area and clock")[2].partition("## Notes")[0].split())


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize("codec", ROWS)
def test_area_and_clock_are_the_projects_results(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = readme(monkeypatch, Options(ports=2, codec=codec))
    row = re.search(rf"^\| {re.escape(ROWS[codec])} \|(.*)\|$", RESULTS.read_text(), re.MULTILINE)
    assert row is not None
    _, clock, *area = row[1].split("|")
    mhz, lut, ff, ramb36 = (re.search(r"[\d,.]+", cell)[0] for cell in (clock, *area))  # type: ignore[index]
    assert f"An engine pair takes {lut} LUT, {ff} FF and {ramb36} RAMB36 " in page
    assert f"a pair reaches {mhz} MHz, where 150 MHz stand for 250 MHz" in page
    assert ("**below the streams' 250 MHz**" in page) == (int(mhz) < 150)
    assert "This folder has 2 pairs." in page
    assert "have not been measured" not in page


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_no_figures_are_claimed_for_bf16_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    page = readme(monkeypatch, Options(ports=1, codec="planes", bf16=True))
    assert page.startswith("Area and clock with bf16 lanes have not been measured; these are the figures of")
    assert "write the folder with `--clock-ratio R`" in page


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_with_a_ratio_it_names_the_engines_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    page = readme(monkeypatch, Options(ports=1, clock_ratio=Fraction(5, 4)))
    assert "This folder has 1 pair." in page
    assert "The engines of this folder need 200 MHz." in page
    assert "--clock-ratio" not in page
