# SPDX-License-Identifier: BSD-2-Clause
"""Write the measured figures of figures.jsonl into the pages: `python docs/figures.py`.

`--stale` names each record whose command reaches code that has changed since the record's commit, and fails
if there is one; reach.py says what counts. After a measurement, change the rows and say `--recorded NAME`,
which stamps the record with the date and the commit: one of main that has the code that was measured.

A page names what it shows in comments, which GitHub and the site hide:

- ``<!-- figures: NAME -->``, above a table: a record's rows, and how they were measured;
- ``<!-- figure: NAME > ROW > COLUMN -->7.85<!-- end -->``, inside a line of prose: one value;
- ``{# figure: NAME > ROW > COLUMN #}7.85{# end #}``, in a template: one value, never bold.

A line of figures.jsonl is a record with ``name``, ``columns`` and ``rows``. ``unit``, ``conditions``,
``command`` and ``state`` (the commit that recorded the rows, and its date) say what they are; ``like`` names
a record that says it for this one too. ``"past": true`` marks what stays as it is: a comparison that was made
once, to decide, a measurement on hardware that was there once, or arithmetic with the paper's numbers. A
record with neither ``command`` nor ``like`` is a summary: all its figures are those of other records.

A cell is a number, text, null (empty), a list (a value, then what follows in brackets), or
``{"missed": cell}`` (bold: it misses its target). ``{NAME > ROW > COLUMN}`` in a text is the value of another
record. ROW and COLUMN may be shortened to a beginning that no other has. ``> 0`` selects an item of a list.
"""

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
TEMPLATES = (DOCS.parent / "boards").glob("*/readme.md.j2")
PAGES = sorted([DOCS.parent / "README.md", *TEMPLATES, *DOCS.glob("*.md")])
BLOCK = re.compile(r"^(<!-- figures: (.+) -->\n)(?:>.*\n)*(?:\n(?=\|))?(?:\|.*\n)*", re.MULTILINE)
VALUE = re.compile(r"((?:<!--|\{#) figure: ([^<{]+) (?:-->|#\}))[^<{]*(?=(?:<!--|\{#) end )")
REFERENCE = re.compile(r"\{([^{}]+ > [^{}]+)\}")


class Figures:
    """The records of figures.jsonl by name; a ValueError names what they lack."""

    def __init__(self, path: Path = DOCS / "figures.jsonl") -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line, parse_float=Decimal) for line in lines]  # Decimal keeps final zeros
        self.records: dict[str, dict[str, Any]] = {record["name"]: record for record in records}
        if len(self.records) < len(records):
            raise ValueError("figures.jsonl has two records of one name")

    def record(self, name: str) -> dict[str, Any]:
        """Return the record of this name, with what it shares with another one."""
        if name not in self.records:
            raise ValueError(f"figures.jsonl has no record {name!r}")
        record = self.records[name]
        return self.records[record["like"]] | record if "like" in record else record

    def cell(self, cell: Any) -> str:
        """Return a cell as pages show it."""
        if cell is None:
            return ""
        if isinstance(cell, dict):
            return f"**{self.cell(cell['missed'])}**"
        if isinstance(cell, list):
            return f"{self.cell(cell[0])} ({', '.join(map(self.cell, cell[1:]))})"
        if isinstance(cell, str):
            return REFERENCE.sub(lambda match: self.value(match[1]), cell)
        return f"{cell:,}"

    def value(self, path: str) -> str:
        """Return the value at NAME > ROW > COLUMN, or NAME > ROW > COLUMN > ITEM."""
        name, *keys = path.split(" > ")
        record = self.record(name)
        if len(keys) not in (2, 3):
            raise ValueError(f"figures.jsonl: {path!r} must be NAME > ROW > COLUMN, or that and > ITEM")
        row = record["rows"][_at(path, [row[0] for row in record["rows"]], keys[0])]
        cell = row[_at(path, record["columns"], keys[1])]
        return self.cell(cell[int(keys[2])] if keys[2:] else cell)

    def table(self, name: str) -> str:
        """Return a record in Markdown: the conditions, unless another record states them, and the table."""
        record = self.record(name)
        rows = [record["columns"], *record["rows"]]
        lines = ["| " + " | ".join(map(self.cell, row)) + " |" for row in rows]
        lines.insert(1, "|" + "---|" * len(record["columns"]))
        table = re.sub(r"\|  (?=\|)", "| ", "\n".join(lines) + "\n")
        if "conditions" not in self.records[name]:
            return table
        date = record["state"].rpartition(", ")[2]
        box = f"{record['conditions']} Recorded {date}: `{record['command']}`"
        box = textwrap.fill(box, 118, break_long_words=False, break_on_hyphens=False)
        return textwrap.indent(box, "> ") + "\n\n" + table

    def page(self, text: str) -> str:
        """Return the text of a page with the present figures."""
        text = BLOCK.sub(lambda match: match[1] + self.table(match[2]), text)
        return VALUE.sub(self._shown, text)

    def _shown(self, match: re.Match[str]) -> str:
        mark, value = match[1], self.value(match[2])
        return mark + (value.strip("*") if mark.startswith("{#") else value)


def _at(path: str, names: list[str], key: str) -> int:
    """Return the index of the name that is the key, or alone begins with it."""
    found = [at for at, name in enumerate(names) if name == key]
    found = found or [at for at, name in enumerate(names) if name.startswith(key)]
    if len(found) != 1:
        raise ValueError(f"figures.jsonl: {key!r} of {path!r} names {len(found)} rows or columns, not one")
    return found[0]


def stale(records: dict[str, dict[str, Any]], names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each stale record of these (of all, if there are none), and why it is."""
    from reach import Code

    here = Code.here()
    states: dict[str, Code] = {}
    reasons: dict[tuple[str, str], str] = {}
    for name, record in records.items():
        if "command" not in record or record.get("past") or (names and name not in names):
            continue
        key = commit, command = re.split("[ ,]", record["state"])[0], record["command"]
        if key not in reasons:
            try:
                states[commit] = states.get(commit) or Code.at(commit)
                reasons[key] = _differences(states[commit], here, command)
            except ValueError as error:
                reasons[key] = str(error)
        if reasons[key]:
            yield name, reasons[key]


def landed(command: str) -> str:
    """Return the commit of main that has the code which the command reaches; else raise ``ValueError``."""
    from reach import Code

    commit = _git("rev-parse", "--short=7", _git("merge-base", "HEAD", "main"))
    if found := _differences(Code.at(commit), Code.here(), command):
        raise ValueError(f"a record names a commit that stays; land what was measured in main first: {found}")
    return commit


def stamp(path: Path, names: list[str]) -> None:
    """Write commit and date into these records of figures.jsonl."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for at, line in enumerate(lines):
        record = json.loads(line)
        if record["name"] in names:
            state = f"{landed(record['command'])}, {datetime.now(UTC):%Y-%m-%d}"
            lines[at] = line.replace(f'"state": "{record["state"]}"', f'"state": "{state}"')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _differences(old: Any, new: Any, command: str) -> str:
    from reach import changed

    found = changed(old.reached(command), new.reached(command))
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(DOCS), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the figures of figures.jsonl into the pages.")
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--check", action="store_true", help="write nothing; fail if a page differs")
    does.add_argument("--stale", nargs="*", metavar="NAME", help="name stale records; fail if there are any")
    does.add_argument("--recorded", nargs="+", metavar="NAME", help="stamp records that were measured now")
    given = parser.parse_args()
    figures = Figures()
    for name in [*(given.stale or ()), *(given.recorded or ())]:
        if "command" not in figures.records.get(name, {}):
            parser.error(f"figures.jsonl has no record {name!r} with a command")
    if given.stale is not None:
        found = list(stale(figures.records, given.stale))
        for name, reason in found:
            record = figures.records[name]
            print(f"{name}: {record['state']}: {record['command']}\n    {reason}")
        return int(bool(found))
    if given.recorded:
        stamp(DOCS / "figures.jsonl", given.recorded)
    status = 0
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        if (new := figures.page(old)) != old:
            print(page)
            status |= given.check
            if not given.check:
                page.write_text(new, encoding="utf-8")
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(str(error))
