# SPDX-License-Identifier: BSD-2-Clause
"""Shared by all measurements: options, outputs, and figures with their targets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from ..netns import bits_per_second
from ..system.options import regular
from ..system.options import whole as whole
from .console import Output, Table
from .environment import conditions, environment

Bound = Annotated[int, whole(1, 14, "Error bound 2**-k.")]
Seed = Annotated[int, whole(0, 2**32 - 1, "Of the data.")]
FirstSeed = Annotated[int, whole(0, 2**31, "Of the first training; each further one has the next.")]

NpyFile = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="NPY", exists=True, callback=regular,
        help="Measure with these values instead, of float32 or of 16 bits.",
    ),
]  # fmt: skip


def listed(text: str, *names: str, **options: Any) -> Any:
    """Make an option for a list with commas, which `words`, `choices`, `numbers` or `rates` read."""
    return typer.Option(*names, metavar="LIST", help=text, **options)


def quick(**defaults: Any) -> Any:
    """Make the option ``--quick``. It sets other defaults; options that the user gives override them."""
    text = "Less data and fewer repeats by default: a first look, not a measurement."
    return _other_defaults("--quick", text, defaults)


def full(**defaults: Any) -> Any:
    """Make the option ``--full``, which sets other defaults, as `quick` does."""
    return _other_defaults("--full", "All that the recorded figures have, by default: long.", defaults)


def _other_defaults(name: str, text: str, defaults: Mapping[str, Any]) -> Any:
    def apply(ctx: typer.Context, wanted: bool) -> bool:
        if wanted:
            ctx.default_map = {**(ctx.default_map or {}), **defaults}
        return wanted

    return typer.Option(name, callback=apply, is_eager=True, help=text)


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


class Report(Output):
    """The output of a measurement, with the environment that it ran in and figures with targets.

    ``seed`` is that of the data, if it has one.
    """

    def __init__(
        self, seed: int | None, json_file: Path | None = None, csv_file: Path | None = None,
        plot: Path | None = None, files: Sequence[Path | None] = (),
    ) -> None:  # fmt: skip
        super().__init__(json_file, csv_file, plot, files)
        self.environment = environment(seed)
        self._figures: list[Figure] | None = None

    def show_conditions(self, text: str = "") -> None:
        """Print what was measured, and where and when, as one line above the tables."""
        self.console.print("; ".join(filter(None, (text, conditions(self.environment)))), soft_wrap=True)

    def show(self, parts: Iterable[Table | str]) -> None:
        """Print tables and texts."""
        for part in parts:
            self.console.print(part)

    def show_figures(self, figures: Iterable[Figure]) -> None:
        """Print figures with their targets, if there are any, and keep them for the JSON."""
        self._figures = list(figures)
        if self._figures:
            self.console.print(figures_table(self._figures))

    def write(
        self,
        facts: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]] = (),
        draw: Callable[[Path], None] | None = None,
    ) -> None:
        """Write as `Output.write` does; the JSON gets environment and figures, too."""
        whole = {**facts, "environment": self.environment}
        if self._figures is not None:
            whole["figures"] = [figure.json() for figure in self._figures]
        super().write(whole, rows, draw)


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


def words(text: str, option: str, what: str) -> list[str]:
    """Return the words of a list with commas, each once.

    A usage error, of an empty list, names the option and ``what`` it takes.
    """
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise typer.BadParameter(f"{option} takes one or more {what}, not {text!r}")
    return list(dict.fromkeys(found))


def choices(text: str, allowed: Sequence[str], option: str) -> list[str]:
    """Return the words of a list with commas, each once. A usage error names one that is not allowed."""
    found = words(text, option, f"of {', '.join(allowed)}")
    for word in found:
        if word not in allowed:
            raise typer.BadParameter(f"{option} takes {', '.join(allowed)}, not {word!r}")
    return found


def numbers(text: str, least: int, most: int, option: str) -> list[int]:
    """Return the whole numbers of a list with commas, ascending, each once.

    A usage error names one that is not ``least`` to ``most``.
    """
    found = words(text, option, "numbers")
    for word in found:
        if not word.isdecimal() or not least <= int(word) <= most:
            raise typer.BadParameter(f"{option} takes whole numbers of {least}..{most}, not {word!r}")
    return sorted(set(map(int, found)))


def rate(text: str, option: str = "--rate") -> float:
    """Return the bits per second of a text; a usage error names the option."""
    try:
        return bits_per_second(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


def rates(text: str) -> list[float]:
    """Return the rates of a list with commas, ascending, each once. A usage error names the wrong one."""
    return sorted({rate(word, "--rates") for word in words(text, "--rates", "rates")})
