# SPDX-License-Identifier: BSD-2-Clause
"""An artefact, printed and written as paper | here | difference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.text import Text

from ...collectives import StreamCodec
from ...commands.study import Columns, Draw, Panel, Study, panels, tabulated
from ...netns import NetworkError, require

Value = float | str | None


class Row(NamedTuple):
    """A value of the paper and its counterpart here; None where there is none. ``unit``: "%", "x", "ms", …"""

    name: str
    paper: Value
    here: Value
    unit: str = ""

    @property
    def difference(self) -> str:
        """Points for percentages, else here over paper; empty if one of them is no number."""
        if not isinstance(self.paper, int | float) or not isinstance(self.here, int | float):
            return ""
        if self.unit in ("%", "points"):
            return f"{round(self.here - self.paper, 1) + 0.0:+.1f} points"  # never -0.0
        return f"x {self.here / self.paper:.2f}" if self.paper else f"{self.here - self.paper:+.3g}"


class Check(NamedTuple):
    """A claim of the paper, whether what was made here bears it out, and the arithmetic.

    ``tolerance``: by how much a number may be off, in words; empty where the claim is compared as printed.
    """

    claim: str
    holds: bool
    evidence: str
    tolerance: str = ""


def text_of(value: Value, unit: str) -> str:
    """Format a value for a table; "-" for none."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if unit in ("%", "points"):
        digits = f"{value:.1f}"
    else:
        digits = f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"
    return f"{digits} {unit}".strip()


ROWS: Columns[Row] = {
    "": lambda row: row.name,
    "paper": lambda row: text_of(row.paper, row.unit),
    "here": lambda row: text_of(row.here, row.unit),
    "difference": lambda row: row.difference,
}
CHECKS: Columns[Check] = {
    "claim": lambda check: check.claim,
    "": lambda check: Text("holds", "green") if check.holds else Text("does not hold", "red"),
    "arithmetic": lambda check: check.evidence,
    "tolerance": lambda check: check.tolerance or "none",
}


@dataclass
class Artefact(Study):
    """A table or figure to be made again: its settings, and what was found.

    ``quick``: fewer steps, seeds and rounds. ``torch``: whether to use it. ``network``: whether hosts may be
    made (needs root). ``step``: called with a text as work goes on. ``codec``: one of the user's own, for
    comparison. ``conditions``: how "here" was made, one line each; what is synthetic is called so. ``data``:
    further numbers, as JSON can hold them. Without a figure of its own, an artefact has bars of its rows.
    """

    name: str = ""
    seed: int = 1
    quick: bool = False
    torch: bool = True
    network: bool = True
    step: Callable[[str], None] = lambda text: None
    codec: StreamCodec | None = None
    title: str = ""
    found: list[Row] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def of(self, full: int, quick: int) -> int:
        """Return a number for full or quick runs."""
        return quick if self.quick else full

    def seeds(self, count: int) -> range:
        """Return the seeds of ``count`` training runs."""
        return range(self.seed, self.seed + count)

    def begin(self, title: str, *conditions: str) -> None:
        """Set the title, and the first conditions."""
        self.title = title
        self.conditions += conditions

    def row(self, name: str, paper: Value, here: Value, unit: str = "") -> None:
        """Add a row."""
        self.found.append(Row(name, paper, here, unit))

    def check(self, claim: str, holds: bool, evidence: str, tolerance: str = "") -> None:
        """Add a claim and whether it holds."""
        self.checks.append(Check(claim, bool(holds), evidence, tolerance))

    def json(self) -> dict[str, Any]:
        """Return the artefact as the JSON file holds it."""
        return {
            "artefact": self.name, "title": self.title, "environment": self.environment,
            "seconds": round(self.seconds, 2), "conditions": self.conditions,
            "rows": self.rows, "checks": [check._asdict() for check in self.checks],
            "notes": self.notes, "data": self.data,
        }  # fmt: skip

    def finish(self) -> None:
        """Print the table, the claims and the notes, and write JSON, CSV and figure."""
        self.rows = [{**row._asdict(), "difference": row.difference} for row in self.found]
        self.table(self.title, ROWS, self.found)
        if self.checks:
            self.show(tabulated("The paper's claims here", CHECKS, self.checks, left=4, wrap=2))
        self.show(*(f"- {note}" for note in self.notes))
        if self.draw is None:
            self.plot(*self._bars())
        super().finish()

    def _bars(self) -> tuple[Draw, float, float]:
        """Return what draws the numbers of the paper and those here, a panel for each unit; its inches."""
        units: dict[str, dict[str, dict[str, float | None]]] = {}
        for row in self.found:
            both: dict[str, float | None] = {
                name: value if isinstance(value, int | float) else None
                for name, value in (("paper", row.paper), ("here", row.here))
            }
            if any(value is not None for value in both.values()):
                units.setdefault(row.unit, {})[row.name] = both
        shown = [Panel(bars, axes={"xlabel": unit}, flat=True) for unit, bars in units.items()] or [Panel()]
        return panels(shown), 6.4 * len(shown), 1.4 + 0.42 * max(len(panel.bars) for panel in shown)


def seeds_text(seeds: range) -> str:
    """Describe the seeds of training runs, in words."""
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def available(made: Artefact) -> bool:
    """Tell whether hosts can be made here; if not, note why."""
    try:
        if made.network:
            require()
            return True
        made.notes.append("measured parts were left out (--no-network)")
    except NetworkError as error:
        made.notes.append(f"not measured: {error}")
    return False
