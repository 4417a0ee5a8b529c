# SPDX-License-Identifier: BSD-2-Clause
"""Reports over time: one JSON line each, and the changes since the last."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inceptionn.commands.console import Table
from inceptionn.hdl.yosys import yosys_path

from .place_and_route import _version


@dataclass(frozen=True)
class Figures:
    """One component: resources of series 7, cells on its longest path, routed clock in MHz if known."""

    lut: int
    ff: int
    bram: float
    dsp: int
    levels: int
    mhz: float | None


@dataclass(frozen=True)
class Entry:
    """One report: which board, when, of which version and commit, with which tool, and the figures."""

    board: str
    date: str
    version: str
    commit: str
    yosys: str
    components: dict[str, Figures]


@dataclass(frozen=True)
class Change:
    """One figure now and before. ``percent`` is positive if it grew; ``worse``: it got worse by too much."""

    component: str
    what: str
    before: float
    now: float
    percent: float
    worse: bool


_MORE_IS_BETTER = {"lut": False, "ff": False, "bram": False, "dsp": False, "levels": False, "mhz": True}
_SMALL = {"lut": 16, "ff": 16, "bram": 0.0, "dsp": 0, "levels": 1, "mhz": 0.0}
"""Changes of at most this size are noise of the mapping, whatever their percentage."""


def commit() -> str:
    """Return Git's name for the running source, or ``unknown``.

    ``-dirty`` is appended if it has changed.
    """
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=9"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def entry(board: str, components: Mapping[str, Figures]) -> Entry:
    """Make the current report."""
    date = datetime.now(UTC).date().isoformat()
    return Entry(board, date, version("inceptionn"), commit(), _version(yosys_path()), dict(components))


def _entry(line: str, where: str) -> Entry:
    """Parse an entry from its line; ``ValueError`` names the place of an invalid line."""
    try:
        fields: dict[str, Any] = json.loads(line)
        fields["components"] = {name: Figures(**found) for name, found in fields["components"].items()}
        return Entry(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{where}: no report: {line[:60]!r}") from error


def read(path: Path) -> list[Entry]:
    """Read all reports of a history, oldest first; ``ValueError`` for an invalid line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_entry(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def last(path: Path, board: str) -> Entry:
    """Return the last report of a board.

    ``ValueError`` if there is none, ``FileNotFoundError`` without a file.
    """
    found = [entry for entry in read(path) if entry.board == board]
    if not found:
        raise ValueError(f"no report of {board!r} in {str(path)!r}: create one with --record")
    return found[-1]


def append(path: Path, entry: Entry) -> None:
    """Add a report to a history, which is made if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(entry)) + "\n")


def changes(before: Entry, now: Entry, threshold: float) -> list[Change]:
    """Compare the figures that both reports have; return those that differ.

    ``threshold`` in percent decides what is worse.
    """
    found = []
    for name, figures in now.components.items():
        if name not in before.components:
            continue
        for what, better in _MORE_IS_BETTER.items():
            old, new = getattr(before.components[name], what), getattr(figures, what)
            if old is None or new is None or old == new:
                continue
            percent = 100 * (new - old) / old if old else float("inf")
            loss = -percent if better else percent
            worse = loss > threshold and abs(new - old) > _SMALL[what]
            found.append(Change(name, what, old, new, percent, worse))
    return found


def headline(before: Entry, changes: list[Change]) -> str:
    """Name the older report, and count the changes."""
    count = len(changes) or "no"
    return f"since {before.commit} of {before.date}: {count} {'change' if count == 1 else 'changes'}"


def table(changes: list[Change]) -> Table:
    """Tabulate the changes since a report.

    Those for the worse by more than the threshold are red.
    """
    made = Table("", "component", "figure", "before", "now", "change", left=2)
    for change in changes:
        style = "red" if change.worse else None
        row = (
            change.component,
            change.what,
            f"{change.before:,g}",
            f"{change.now:,g}",
            f"{change.percent:+.1f} %",
        )
        made.add_row(*row, style=style)
    return made
