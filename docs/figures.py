# SPDX-License-Identifier: BSD-2-Clause
"""Write the measured figures of figures.jsonl into the pages: `python docs/figures.py`.

A page names what it shows in comments, which GitHub and the site hide:

- ``<!-- figures: NAME -->``, above a table: a record's rows, and how they were measured;
- ``<!-- figure: NAME > ROW > COLUMN -->7.85<!-- end -->``, inside a line of prose: one value.

A line of figures.jsonl is a record with ``name``, ``columns`` and ``rows``. ``unit``, ``conditions``,
``command`` and ``state`` (the commit that recorded the rows, and its date) say what they are; ``like`` names
a record that says it for this one too. A record with neither ``command`` nor ``like`` is a summary: all its
figures are those of other records.

A cell is a number, text, null (empty), a list (a value, then what follows in brackets), or
``{"missed": cell}`` (bold: it misses its target). ``{NAME > ROW > COLUMN}`` in a text is the value of another
record. ROW and COLUMN may be shortened to a beginning that no other has. ``> 0`` selects an item of a list.
"""

import json
import re
import textwrap
from decimal import Decimal
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PAGES = sorted([DOCS.parent / "README.md", *DOCS.glob("*.md")])
BLOCK = re.compile(r"^(<!-- figures: (.+) -->\n)(?:>.*\n)*(?:\n(?=\|))?(?:\|.*\n)*", re.MULTILINE)
VALUE = re.compile(r"<!-- figure: ([^<]+) -->[^<]*<!-- end -->")
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
        box = f"{record['conditions']} `{record['command']}`"
        box = textwrap.fill(box, 118, break_long_words=False, break_on_hyphens=False)
        return textwrap.indent(box, "> ") + "\n\n" + table

    def page(self, text: str) -> str:
        """Return the text of a page with the present figures."""
        text = BLOCK.sub(lambda match: match[1] + self.table(match[2]), text)
        return VALUE.sub(lambda match: f"<!-- figure: {match[1]} -->{self.value(match[1])}<!-- end -->", text)


def _at(path: str, names: list[str], key: str) -> int:
    """Return the index of the name that is the key, or alone begins with it."""
    found = [at for at, name in enumerate(names) if name == key]
    found = found or [at for at, name in enumerate(names) if name.startswith(key)]
    if len(found) != 1:
        raise ValueError(f"figures.jsonl: {key!r} of {path!r} names {len(found)} rows or columns, not one")
    return found[0]


if __name__ == "__main__":
    figures = Figures()
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        if (new := figures.page(old)) != old:
            page.write_text(new, encoding="utf-8")
            print(page)
