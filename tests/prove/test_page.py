# SPDX-License-Identifier: BSD-2-Clause
"""The page on assurance says what the records say, and names those that are about another circuit."""

import os
import sys
from pathlib import Path

import pytest
from programs import said_by

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "assurance.md"


def run(code: str, **environment: str) -> str:
    return said_by(sys.executable, "-c", code, timeout=900, cwd=HERE, **environment)


def test_a_record_of_another_circuit_is_named() -> None:
    code = """import records
row = next(row for row in records.load("mutants") if row["name"] == "queue")
for circuit in (row["circuit"], "another"):
    print(*(file for file, names in records.changed({"queue": circuit}).items() if "queue" in names))
"""
    assert run(code).splitlines() == ["", "mutants coverage"]


def test_a_hash_of_a_circuit_knows_no_folder_and_no_line() -> None:
    code = """import records
for source in ("/a/queue.py:1", "/b/c/queue.py:29", "text:1", "text:2"):
    print(records.digest(f'module \\\\top\\n  attribute \\\\src "{source}"\\n  wire \\\\clk\\nend\\n'))
"""
    first, moved, claim, other = run(code).split()
    assert first == moved
    assert len({first, claim, other}) == 3


def test_the_summary_is_that_of_the_records() -> None:
    """Except for what has changed since, which takes a minute to find."""
    pages = run("import records; print(records.page({}))"), PAGE.read_text(encoding="utf-8")
    now, there = (page.partition("\n\nRecords of a circuit that has changed")[0] for page in pages)
    assert now == there


@pytest.mark.slow
def test_the_page_is_that_of_the_records(tmp_path: Path) -> None:
    """After a change of the RTL: ``python tests/prove/records.py``."""
    # CI's clone has found the circuits' hashes in `make prove`; elsewhere more than sources may have changed.
    apart = {} if os.environ.get("CI") else {"INCEPTIONN_BUILD": str(tmp_path)}
    page = run("import records; print(records.page(records.today()))", **apart)
    assert page == PAGE.read_text(encoding="utf-8") + "\n"
