# SPDX-License-Identifier: BSD-2-Clause
"""Measured figures stand once, in docs/figures.jsonl, and the pages show them as they stand there."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from refusals import refused

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", DOCS / "figures.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = _script()
FIGURES = figures.Figures()
RECORDS = FIGURES.records
MEASURED = [name for name, record in RECORDS.items() if "command" in record]
PAGES = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in figures.PAGES}


@pytest.mark.parametrize(
    "page", [page for page, text in PAGES.items() if figures.VALUE.search(text) or figures.BLOCK.search(text)]
)
def test_page_shows_the_data(page: str) -> None:
    assert FIGURES.page(PAGES[page]) == PAGES[page], "run python docs/figures.py"


@pytest.mark.parametrize("page", PAGES)
def test_value_stands_inside_a_line(page: str) -> None:
    """A comment at a line's beginning would end the paragraph."""
    assert not re.search(r"^<!-- figure: ", PAGES[page], re.MULTILINE)


@pytest.mark.parametrize("page", sorted(PAGES.keys() - {"docs/assurance.md"}))  # which has data of its own
def test_measured_tables_come_from_the_data(page: str) -> None:
    other = re.sub(figures.BLOCK, "", PAGES[page])
    for table in re.findall(r"(?:^\|.*\n)+", other, re.MULTILINE):
        assert len(re.findall(r"\| \**\d+\.\d+|\d %", table)) < 3, table


@pytest.mark.parametrize("name", RECORDS)
def test_record_says_how_it_was_measured(name: str) -> None:
    record = RECORDS[name]
    assert all(len(row) == len(record["columns"]) for row in record["rows"])
    if "like" in record:
        assert record["like"] in MEASURED
    elif name in MEASURED:
        assert all(record[key] for key in ("unit", "conditions", "command", "state"))
        assert re.search(r"\b[0-9a-f]{7}\b.*, \d{4}-\d\d-\d\d$", record["state"])
    else:  # a summary: every figure in it is another record's
        for row in record["rows"]:
            for column, cell in zip(record["columns"][1:], row[1:], strict=True):
                own = re.sub(figures.REFERENCE, "", cell) if isinstance(cell, str) else cell
                assert column in ("target", "conditions") or not re.search(r"\b\d", str(own or "")), cell


def test_every_record_is_shown() -> None:
    shown = {match[2] for text in PAGES.values() for match in figures.BLOCK.finditer(text)}
    values = [match[2] for text in PAGES.values() for match in figures.VALUE.finditer(text)]
    named = {path.partition(" > ")[0] for path in values}
    assert set(RECORDS) == shown | named


def test_changed_figures_are_found() -> None:
    value = "The ratio is <!-- figure: ratio > planes > 2^-6 -->23.45<!-- end -->."
    page = f"a\n\n<!-- figures: ratio -->\n{FIGURES.table('ratio')}\n{value}\n"
    assert FIGURES.page(page) == page
    for old, new in (("| 7.85 |", "| 7.9 |"), ("-->23.45<", "-->23<"), ("Shims are", "Shims were")):
        assert FIGURES.page(page.replace(old, new)) == page


def test_template_shows_a_value_that_misses_its_target_plainly(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    path.write_text('{"name": "area", "columns": ["", "LUT"], "rows": [["NIC", {"missed": 22735}]]}\n')
    page = "{# figure: area > NIC > LUT #}1{# end #} and <!-- figure: area > NIC > LUT -->1<!-- end -->"
    shown = figures.Figures(path).page(page)
    assert shown == page.replace("#}1", "#}22,735").replace("-->1", "-->**22,735**")


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    for name in ("nobody", "ratio > planes > 2^-7", "ratio > no > 2^-6", "cycles > latency > measured"):
        refused(ValueError, "figures.jsonl", FIGURES.value, name)
    path = tmp_path / "figures.jsonl"
    path.write_text(2 * (json.dumps({"name": "one"}) + "\n"))
    refused(ValueError, "one name", figures.Figures, path)
