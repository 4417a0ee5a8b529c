# SPDX-License-Identifier: BSD-2-Clause
"""An artefact, printed and written as paper | here | difference."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.text import Text

from ...collectives import StreamCodec
from ...commands.console import Console, Table, new_figure, write_plot
from ...commands.environment import conditions
from ...system import atomic_file

Value = float | str | None


@dataclass(frozen=True)
class Settings:
    """The settings of an artefact. ``quick``: fewer steps, seeds and rounds. ``torch``: whether to use it.

    ``network``: whether hosts may be made (needs root). ``step``: called with a text as work goes on.
    ``codec``: one of the user's own, for comparison.
    """

    seed: int = 1
    quick: bool = False
    torch: bool = True
    network: bool = True
    step: Callable[[str], None] = lambda text: None
    codec: StreamCodec | None = None

    def of(self, full: int, quick: int) -> int:
        """Return a number for full or quick runs."""
        return quick if self.quick else full

    def seeds(self, count: int) -> str:
        """Describe the seeds of ``count`` training runs, in words."""
        return f"seed {self.seed}" if count == 1 else f"seeds {self.seed} to {self.seed + count - 1}"


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
    """A claim about the paper's own numbers, whether it holds, and the arithmetic.

    ``tolerance``: by how much a number may be off, in words; empty where the claim is compared as printed.
    """

    claim: str
    holds: bool
    evidence: str
    tolerance: str = ""


@dataclass
class Artefact:
    """A table or figure, made again.

    ``conditions``: how "here" was made, one line each; what is synthetic is called so. ``data``: what the
    figure is drawn from, as JSON can hold it.
    """

    name: str
    title: str
    conditions: list[str]
    rows: list[Row] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def row(self, name: str, paper: Value, here: Value, unit: str = "") -> None:
        """Add a row."""
        self.rows.append(Row(name, paper, here, unit))

    def facts(self, environment: dict[str, Any]) -> dict[str, Any]:
        """Return the artefact as the JSON file holds it."""
        return {
            "artefact": self.name, "title": self.title, "environment": environment,
            "seconds": round(self.seconds, 2), "conditions": self.conditions,
            "rows": [{**row._asdict(), "difference": row.difference} for row in self.rows],
            "checks": [check._asdict() for check in self.checks], "notes": self.notes, "data": self.data,
        }  # fmt: skip

    def csv(self) -> str:
        """Return the rows as CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("name", "paper", "here", "unit", "difference"))
        for row in self.rows:
            writer.writerow((row.name, row.paper, row.here, row.unit, row.difference))
        return out.getvalue()


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


def show(console: Console, artefact: Artefact, environment: dict[str, Any]) -> None:
    """Print the table, the checks of the paper, and the notes."""
    for line in (*artefact.conditions, conditions(environment)):
        console.print(line)
    table = Table(artefact.title, "", "paper", "here", "difference")
    for row in artefact.rows:
        table.add_row(row.name, text_of(row.paper, row.unit), text_of(row.here, row.unit), row.difference)
    console.print(table)
    if artefact.checks:
        checked = Table("The paper against itself", "claim", "", "arithmetic", "tolerance", left=4, wrap=2)
        for check in artefact.checks:
            verdict = Text("holds", "green") if check.holds else Text("does not hold", "red")
            checked.add_row(check.claim, verdict, check.evidence, check.tolerance or "none")
        console.print(checked)
    for note in artefact.notes:
        console.print(f"- {note}")


def write(
    folder: Path, artefact: Artefact, environment: dict[str, Any], draw: Callable[[Any, Artefact], None]
) -> list[Path]:
    """Write NAME.json, NAME.csv and NAME.png into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{artefact.name}.{ending}" for ending in ("json", "csv", "png")]
    atomic_file.write(paths[0], json.dumps(artefact.facts(environment), indent=1) + "\n")
    atomic_file.write(paths[1], artefact.csv())
    figure = new_figure(9.6, 4.8)
    draw(figure, artefact)
    write_plot(paths[2], figure)
    return paths


def bars(axes: Any, groups: list[str], series: dict[str, list[float | None]], text: str = "{:.3g}") -> None:
    """Plot grouped bars with a value above each. Series are by name, with one value per group."""
    width = 0.86 / len(series)
    for place, (name, values) in enumerate(series.items()):
        places = [number - 0.43 + (place + 0.5) * width for number in range(len(groups))]
        heights = [float("nan") if value is None else value for value in values]
        drawn = axes.bar(places, heights, width, label=name)
        labels = ["" if value is None else text.format(value) for value in values]
        axes.bar_label(drawn, labels, fontsize=6, rotation=90, padding=2)
    axes.set_xticks(range(len(groups)), groups)
    axes.margins(y=0.2)


def legend(figure: Any, axes: Any, columns: int = 5) -> None:
    """Draw the legend below all axes, where it hides nothing."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8)
