# SPDX-License-Identifier: BSD-2-Clause
"""Output of all commands: literal text, whole headings, progress, JSON, CSV and pictures.

Rich reads square brackets as markup by default and drops what it takes for a tag, such as the extra of
``pip install 'inceptionn[mpi]'`` or a part of a path. Nothing here does; colours are :class:`rich.text.Text`.
Control characters of texts and cells, as names of files may have them, are escaped; their lines stay.
"""

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

import rich.console
import rich.table
import typer
from rich.cells import cell_len
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.status import Status
from rich.text import Text

from ..system import atomic_file
from ..system.text import printable

Cell = str | Text
T = TypeVar("T")

FILE_WIDTH = 120
"""Columns of the output where it is not a terminal and the environment variable COLUMNS is not set."""
STANDARD_OUTPUT = "-"

JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", dir_okay=False,
        help="Write JSON to FILE; - is standard output, with all other output on standard error.",
    ),
]  # fmt: skip
"""The option ``--json`` of every command that has one; see `Output`."""

CsvFile = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", dir_okay=False,
        help="Write the rows as CSV to FILE; - is standard output, with all other output on standard error.",
    ),
]  # fmt: skip
"""The option ``--csv`` of commands whose JSON holds rows; see `Output`."""

PICTURES = (".png", ".svg", ".pdf")
PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", dir_okay=False, help=f"Write a chart to FILE ({', '.join(PICTURES)})."
    ),
]
"""The option ``--plot``; see `Output` and `write_plot`."""


class Console(rich.console.Console):
    """Standard output, or standard error: no markup, no emoji codes, no lines cut off."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **options)
        if not self.is_terminal and "COLUMNS" not in os.environ and "width" not in options:
            self.width = FILE_WIDTH

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, but leave long lines of text to the terminal."""
        options.setdefault("crop", False)
        if all(isinstance(thing, str) for thing in objects):
            options.setdefault("soft_wrap", True)
        shown = [printable(thing, "\n\t") if isinstance(thing, str) else thing for thing in objects]
        super().print(*shown, **options)

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Show a status line on a terminal."""
        return super().status(Text(status) if isinstance(status, str) else status, **options)


class Table:
    """A table whose headings are always whole.

    Where it is too wide for the console, column ``wrap`` is wrapped between words; if that is not enough, the
    table is split: some of the columns of numbers each, with all columns of text.

    Parameters
    ----------
    title
        Title of the table; empty for none.
    headings
        One per column. No header is printed if all are empty.
    left
        Columns of text, from the first one; the others are numbers, to the right.
    wrap
        The column that is wrapped.
    """

    def __init__(self, title: str, *headings: str, left: int = 1, wrap: int = 0) -> None:
        self.title, self.left, self.wrap = printable(title), left, wrap
        self.headings = tuple(printable(heading, "\n") for heading in headings)
        self.rows: list[tuple[tuple[Cell, ...], str | None]] = []
        self._sections: set[int] = set()

    def add_row(self, *cells: Cell, style: str | None = None) -> None:
        """Add one cell per column. Raise ``ValueError`` for another number of them."""
        if len(cells) != len(self.headings):
            raise ValueError(f"a row must have {len(self.headings)} cells, not {len(cells)}")
        shown = tuple(printable(cell, "\n") if isinstance(cell, str) else cell for cell in cells)
        self.rows.append((shown, style))

    def add_section(self) -> None:
        """Draw a line below the last row."""
        self._sections.add(len(self.rows) - 1)

    def _width(self, column: int, words: bool = False) -> int:
        """Return the width of the longest line of a column, or of its longest word."""
        cells = [self.headings[column], *(str(row[column]) for row, _ in self.rows)]
        parts = [part for cell in cells for part in (cell.split() if words else cell.split("\n"))]
        return max(map(cell_len, parts), default=0)

    def _parts(self, most: int) -> list[dict[int, int]]:
        """Return the width by column number, of each part."""
        widths = {column: self._width(column) for column in range(len(self.headings))}
        if (over := _total(widths) - most) > 0:
            widths[self.wrap] = max(widths[self.wrap] - over, self._width(self.wrap, words=True))
        if _total(widths) <= most:
            return [widths]
        widths[self.wrap] = max(widths[self.wrap], min(self._width(self.wrap), most // 3))
        text = {column: widths.pop(column) for column in range(self.left)}
        parts = [dict(text)]
        for column, width in widths.items():
            if len(parts[-1]) > len(text) and _total({**parts[-1], column: width}) > most:
                parts.append(dict(text))
            parts[-1][column] = width
        return parts

    def __rich_console__(self, console: rich.console.Console, options: ConsoleOptions) -> RenderResult:
        for number, part in enumerate(self._parts(options.max_width)):
            made = rich.table.Table(
                title=Text(self.title, "bold") if self.title and not number else None, title_justify="left",
                header_style="", show_header=any(self.headings),
            )  # fmt: skip
            for column, width in part.items():
                justify: Any = "left" if column < self.left else "right"
                made.add_column(Text(self.headings[column]), justify=justify, width=width)
            for place, (cells, style) in enumerate(self.rows):
                row = [Text(cell) if isinstance(cell, str) else cell for cell in map(cells.__getitem__, part)]
                made.add_row(*row, style=style, end_section=place in self._sections)
            yield from console.render(made, options.update(width=max(_total(part), cell_len(self.title))))


def _total(widths: dict[int, int]) -> int:
    """Count the columns of a table with its frame."""
    return sum(width + 3 for width in widths.values()) + 1


def new_progress(console: rich.console.Console, bar: bool = True) -> Progress:
    """Make a progress display, with a bar or without. It shows nothing where the output is no terminal."""
    columns: Sequence[ProgressColumn] = [TextColumn("{task.description}", markup=False)]
    columns = [*columns, BarColumn(), MofNCompleteColumn()] if bar else [SpinnerColumn(), *columns]
    live = console.is_terminal
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not live)


def noted(progress: Progress, task: TaskID) -> Callable[[str], None]:
    """Make a function that describes a task. Where the output is no terminal, it prints the description."""

    def note(text: str) -> None:
        progress.update(task, description=text)
        if not progress.console.is_terminal:
            progress.console.print(text)

    return note


def tracked(console: rich.console.Console, jobs: Collection[T], text: Callable[[T], str]) -> Iterator[T]:
    """Yield each of the jobs, and show meanwhile its ``text`` and how many are done."""
    with new_progress(console) as progress:
        task = progress.add_task("", total=len(jobs))
        for job in jobs:
            progress.update(task, description=text(job))
            yield job
            progress.advance(task)


class Output:
    """The outputs of a command, as its options ask for: console, JSON, CSV and chart.

    Make it before the work, since it refuses files that could not be written; their folders are made if
    missing. ``files`` are others that the command writes. A usage error if JSON and CSV are both -, standard
    output, or for a ``plot`` of another kind than `PICTURES`. Raises ``ModuleNotFoundError`` for a plot
    without matplotlib; errors of `atomic_file.check`. Attribute ``console``, for tables, is standard error
    where standard output holds JSON or CSV.
    """

    def __init__(
        self, json_file: Path | None = None, csv_file: Path | None = None, plot: Path | None = None,
        files: Sequence[Path | None] = (),
    ) -> None:  # fmt: skip
        texts = (json_file, csv_file)
        if all(str(path) == STANDARD_OUTPUT for path in texts):
            raise typer.BadParameter("only one output can be -, standard output")
        files = [*files, *(path for path in texts if str(path) != STANDARD_OUTPUT), plot]
        if plot is not None:
            if plot.suffix.lower() not in PICTURES:
                raise typer.BadParameter(f"--plot must end in {', '.join(PICTURES)}, not {str(plot)!r}")
            import_module("matplotlib")  # the extra `plot`; rather now than after the work
        for path in files:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                atomic_file.check(path)
        self.console = Console(stderr=STANDARD_OUTPUT in map(str, texts))
        self.plot = plot
        self._json, self._csv = texts

    def write(
        self, facts: Any, rows: Sequence[Mapping[str, Any]] = (), draw: Callable[[Path], None] | None = None
    ) -> None:
        """Write what was asked for: JSON of ``facts`` (or a text that is JSON already), CSV, a chart.

        The CSV (RFC 4180) has a heading and a line for each row. Its columns are the keys of all rows, in the
        order in which they come; a missing value is empty.
        """
        if self._json is not None:
            write_text(self._json, facts if isinstance(facts, str) else json.dumps(facts, indent=1) + "\n")
        if self._csv is not None:
            text = io.StringIO()
            columns = dict.fromkeys(key for row in rows for key in row)
            writer = csv.DictWriter(text, list(columns), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            write_text(self._csv, text.getvalue())
        if draw is not None and self.plot is not None:
            draw(self.plot)


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of matplotlib, ``width`` by ``height`` inches."""
    from matplotlib.figure import Figure  # the extra `plot`

    return Figure(figsize=(width, height), layout="constrained")


def write_plot(path: Path, figure: Any) -> None:
    """Write a figure of matplotlib; the same figure gives the same bytes of SVG."""
    import matplotlib

    metadata: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": "inceptionn"}), atomic_file.writing(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=150, **metadata)


def write_text(path: Path, text: str) -> None:
    """Write a file, or standard output where ``path`` is -."""
    if str(path) == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        atomic_file.write(path, text)
