# SPDX-License-Identifier: BSD-2-Clause
"""The page on assurance says what the records say, and marks those that are about another circuit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "assurance.md"


def run(code: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=900, cwd=HERE,
        env=os.environ | environment,
    ).stdout  # fmt: skip


def test_a_record_of_another_circuit_is_marked() -> None:
    code = """import page, records
known = {name: records.load(name) for name in records.FILES}
row = next(row for row in known["mutants"] if row["name"] == "queue")
for circuit in (row["circuit"], "another"):
    print(page.page_of(known, {"queue": circuit}).split("\\n| queue |")[1].split("\\n")[0].count("+"))
"""
    # Of mutants and coverage; the proofs' circuits are not given.
    assert run(code).split() == ["1", "3"]


def test_a_hash_of_a_circuit_knows_no_folder_and_no_line() -> None:
    code = """import records
for source in ("/a/queue.py:1", "/b/c/queue.py:29", "text:1", "text:2"):
    print(records.digest(f'module \\\\top\\n  attribute \\\\src "{source}"\\n  wire \\\\clk\\nend\\n'))
"""
    first, moved, claim, other = run(code).split()
    assert first == moved
    assert len({first, claim, other}) == 3


@pytest.mark.slow
def test_the_page_is_that_of_the_records(tmp_path: Path) -> None:
    """After a change of the RTL: ``python tests/prove/page.py``."""
    records = "{name: records.load(name) for name in records.FILES}"
    code = f"import page, records; print(page.page_of({records}, records.today()))"
    assert run(code, INCEPTIONN_BUILD=str(tmp_path)) == PAGE.read_text(encoding="utf-8") + "\n"
