# SPDX-License-Identifier: BSD-2-Clause
"""What a measurement finds, in one record, and how it is printed, written and drawn.

A command is a function that fills a `Study`, by the decorator `measurement`. No measured value depends on
this module.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

from rich.text import Text

from .console import Cell, CsvFile, JsonFile, Output, PlotFile, Table, new_figure, write_plot
from .environment import conditions, environment

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], Cell]]
"""The columns of a table: its heading, and what it says of a row."""
Draw = Callable[[Any], None]
"""Draws on a figure of matplotlib."""


def tabulated(
    title: str, columns: Columns[T], rows: Iterable[T], *, left: int = 1, wrap: int = 0,
    style: Callable[[T], str | None] = lambda row: None,
) -> Table:  # fmt: skip
    """Make a table of rows; ``left`` and ``wrap`` as of `Table`, ``style``: that of a row."""
    table = Table(title, *(heading.strip(" ") for heading in columns), left=left, wrap=wrap)
    for row in rows:
        table.add_row(*(text(row) for text in columns.values()), style=style(row))
    return table


_VERDICTS = {True: ("reached", "green"), False: ("missed", "red"), None: ("not measured", "dim")}


class Figure(NamedTuple):
    """A ratio of two measurements of one run, and the least (or the most) that it must be."""

    name: str
    measured: float | None
    target: float
    most: bool = False
    unit: str = "x"

    @property
    def reached(self) -> bool | None:
        """True if it was reached; None if it was not measured."""
        if self.measured is None:
            return None
        return self.measured <= self.target if self.most else self.measured >= self.target

    def json(self) -> dict[str, Any]:
        """Return the figure as the JSON file holds it."""
        return {
            "name": self.name, "measured": self.measured, "target": self.target,
            "rule": "at most" if self.most else "at least", "unit": self.unit, "reached": self.reached,
        }  # fmt: skip


def figures_table(figures: Iterable[Figure]) -> Table:
    """Tabulate target, measurement and verdict of each figure."""
    table = Table("Figures", "", "target", "measured", "")
    for figure in figures:
        target = f"{'<=' if figure.most else '>='} {figure.target:g} {figure.unit}"
        measured = "-" if figure.measured is None else f"{figure.measured:.2f} {figure.unit}"
        verdict, style = _VERDICTS[figure.reached]
        table.add_row(figure.name, target, measured, Text(verdict, style))
    return table


def flat(line: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a line of JSON to a row of CSV: names inside names are joined by dots.

    A list of numbers becomes its median.
    """
    row: dict[str, Any] = {}
    for name, value in line.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            row[f"{prefix}{name}"] = value
        elif value and all(isinstance(each, int | float) for each in value):
            row[f"{prefix}{name}"] = median(value)
    return row


@dataclass
class Study:
    """What a measurement found: texts for people, facts and rows for programs, and a chart.

    ``facts``: the JSON, which also gets environment and figures; ``rows``: the CSV; ``parts``: tables and
    texts, in the order in which they are printed; ``draw`` plots on a figure of ``size`` inches.
    """

    output: Output
    environment: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()
    conditions: list[str] = field(default_factory=list)
    parts: list[Table | str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    draw: Draw | None = None
    size: tuple[float, float] = (9.6, 4.8)
    finished: bool = False

    def __post_init__(self) -> None:
        self.console = self.output.console

    def show(self, *parts: Table | str) -> None:
        """Add tables and texts."""
        self.parts += parts

    def table(self, title: str, columns: Columns[T], rows: Iterable[T], **options: Any) -> None:
        """Add a table as `tabulated` makes it."""
        self.parts.append(tabulated(title, columns, rows, **options))

    def plot(self, draw: Draw, width: float = 9.6, height: float = 4.8) -> None:
        """Set what draws the chart, and its inches."""
        self.draw, self.size = draw, (width, height)

    def finish(self) -> None:
        """Print and write everything, once."""
        if self.finished:
            return
        self.finished = True
        *above, last = self.conditions or [""]
        last = "; ".join(filter(None, (last, conditions(self.environment))))
        for text in (*above, last):
            self.console.print(text, soft_wrap=True)
        for part in self.parts:
            self.console.print(part)
        if self.figures:
            self.console.print(figures_table(self.figures))
        self.output.write(self.json(), self.rows, self.drawn)

    def json(self) -> dict[str, Any]:
        """Return what the JSON file holds."""
        figures = [figure.json() for figure in self.figures]
        return {**self.facts, "environment": self.environment, "figures": figures}

    def drawn(self, path: Path) -> None:
        """Write the chart, if there is one."""
        if self.draw is not None:
            figure = new_figure(*self.size)
            self.draw(figure)
            write_plot(path, figure)


def measurement(
    name: str = "", *, plot: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function that fills a `Study`, its first argument.

    The command has the options ``--json``, ``--csv`` and with ``plot`` also ``--plot``. The JSON begins with
    ``"bench": name``, if it has one. A run that ends by Ctrl-C, SIGTERM or an error shows what the study
    holds by then.
    """

    def of(fill: Callable[..., None]) -> Callable[..., None]:
        def command(**settings: Any) -> None:
            files = [settings.pop(option, None) for option in ("json_file", "csv_file", "plot")]
            study = Study(Output(*files), environment(settings.get("seed")), {"bench": name} if name else {})
            try:
                fill(study, **settings)
            except BaseException:
                if study.parts:
                    study.finish()
                raise
            study.finish()

        shown = signature(fill, eval_str=True)
        _, *options = shown.parameters.values()
        kinds = {"json_file": JsonFile, "csv_file": CsvFile} | ({"plot": PlotFile} if plot else {})
        added = [
            Parameter(option, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for option, kind in kinds.items()
        ]
        command.__signature__ = shown.replace(parameters=[*options, *added])  # type: ignore[attr-defined]
        command.__doc__, command.__name__, command.__module__ = fill.__doc__, fill.__name__, fill.__module__
        return command

    return of


class Curve(NamedTuple):
    """A line of a panel; its style as matplotlib writes it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = ""


@dataclass
class Panel:
    """The axes of a chart: bars by group and series, or curves, and what ``matplotlib.axes.Axes.set`` takes.

    ``text`` formats the value above a bar. ``flat``: bars go to the right, and the groups stand below each
    other. ``across``: a dotted line at a value, with its label. ``turned``: degrees of the groups' names.
    ``ticks``: the places that the axis of curves names.
    """

    bars: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    curves: Sequence[Curve] = ()
    axes: Mapping[str, Any] = field(default_factory=dict)
    text: Callable[[float], str] = "{:.3g}".format
    flat: bool = False
    across: tuple[float, str] | None = None
    turned: float = 0
    ticks: Mapping[float, str] = field(default_factory=dict)

    def on(self, axes: Any) -> None:
        """Draw on axes of matplotlib."""
        if self.bars:
            self._bars(axes)
        for curve in self.curves:
            axes.plot(curve.x, curve.y, *filter(None, [curve.style]), label=curve.label)
        if not self.bars and not self.curves:
            axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)
        if self.across is not None:
            line = axes.axvline if self.flat else axes.axhline
            line(self.across[0], color="0.4", ls=":", label=self.across[1] or None)
        axes.set(**self.axes)
        if self.ticks:
            axes.set_xticks(list(self.ticks), list(self.ticks.values()))
            axes.minorticks_off()

    def _bars(self, axes: Any) -> None:
        groups = list(self.bars)
        series = dict.fromkeys(name for group in self.bars.values() for name in group)
        width = 0.86 / len(series)
        for place, name in enumerate(series):
            places = [number - 0.43 + (place + 0.5) * width for number in range(len(groups))]
            values = [self.bars[group].get(name) for group in groups]
            heights = [float("nan") if value is None else value for value in values]
            drawn = (axes.barh if self.flat else axes.bar)(places, heights, width, label=name)
            labels = ["" if value is None else self.text(value) for value in values]
            # On white, where a line across would go through them.
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5} if self.flat else None
            size, turned = (7, 0) if self.flat else (6, 90)
            axes.bar_label(drawn, labels, fontsize=size, rotation=turned, padding=3, bbox=box)
        if self.flat:
            axes.set_yticks(range(len(groups)), groups)
            axes.invert_yaxis()
            axes.margins(x=0.15)
        else:
            axes.set_xticks(range(len(groups)), groups)
            axes.margins(y=0.3 if self.axes.get("yscale") == "log" else 0.2)
            if self.turned:
                axes.tick_params(axis="x", labelrotation=self.turned, labelsize=7)


def panels(*rows: Sequence[Panel], columns: int = 5, **options: Any) -> Draw:
    """Return what draws rows of panels, with one legend below them of all their labels.

    ``options``: of ``matplotlib.figure.Figure.subplots``.
    """

    def draw(figure: Any) -> None:
        grid = figure.subplots(len(rows), max(map(len, rows)), squeeze=False, **options)
        known: dict[str, Any] = {}
        for line, row in zip(grid, rows, strict=True):
            for axes in line[len(row) :]:
                axes.remove()
            for axes, panel in zip(line, row, strict=False):
                panel.on(axes)
                handles, labels = axes.get_legend_handles_labels()
                known = dict(zip(labels, handles, strict=True)) | known
        if known:
            labels = list(known)
            figure.legend(known.values(), labels, loc="outside lower center", ncols=columns, fontsize=8)

    return draw
