# SPDX-License-Identifier: BSD-2-Clause
"""What the commands print with: brackets stay, headings stay whole, ``--json`` means one thing."""

import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import leaves
from rich.text import Text

import inceptionn.boards
import inceptionn.sim
from inceptionn import cli
from inceptionn.commands.console import Console, Output, Table, new_progress
from inceptionn.evaluate.bench.collective.allreduce_report import Results, tables_of
from inceptionn.sim.cluster.report import HostReport, Report, end_table, live_table

PACKAGES = inceptionn, inceptionn.sim, inceptionn.boards
INSTALL = "pip install 'inceptionn[mpi]' [/] [red]x[/red] :smile:"


def printed(thing: Any, width: int = 80, **options: Any) -> str:
    """Return what a console of this width prints."""
    console = Console(width=width, file=io.StringIO(), **options)
    console.print(thing)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def wide_tables() -> Iterator[Table]:
    """Tables of commands that are wider than a terminal of 80 columns."""
    hosts = [HostReport(f"host{n}", "", "rtl", {"TX_FRAMES_IN": 10**9, "RX_RESTORED": 3}) for n in range(8)]
    yield end_table(Report(hosts, 1.0, 0))
    yield live_table({host.name: host.registers for host in hosts}, {host.name: host.nic for host in hosts})
    results = Results(2**-10, 4)
    for variant in ("ring, raw", "ring, codec, bounded", "worker-aggregator, raw"):
        for rate in (1e8, 1e9, 1e10, None):
            line = {"data": "synthetic", "op": "sum", "variant": variant, "seconds": 1.0, "bytes_sent": 10**8}
            results.add(rate, line)
    yield from tables_of(results)


def random_tables() -> Iterator[Table]:
    """Tables of any shape; no word is wider than the terminal."""
    source = random.Random(1)

    def words(most: int) -> str:
        return " ".join("x" * source.randint(1, 16) for _ in range(source.randint(1, most)))

    for _ in range(300):
        left = source.randint(1, 2)
        headings = [f"{words(2)}\n{words(2)}" if source.random() < 0.3 else words(3) for _ in range(9)]
        table = Table(words(20), *headings[: source.randint(left, 9)], left=left)
        for _ in range(source.randint(0, 4)):
            table.add_row(*(words(4) for _ in table.headings))
        yield table


@pytest.mark.parametrize("tables", [wide_tables, random_tables])
def test_at_80_columns_every_heading_is_whole(tables: Callable[[], Iterator[Table]]) -> None:
    for table in tables():
        out = printed(table)
        for column, heading in enumerate(table.headings):
            for part in heading.split() if column == table.wrap else heading.split("\n"):
                assert part in out


def test_a_table_that_fits_comes_in_one_part_and_one_that_does_not_repeats_its_first_column() -> None:
    table = Table("", "name", *(f"column{n}" for n in range(9)))
    table.add_row("row", *map(str, range(9)))
    assert [printed(table, width).count("row") for width in (120, 80, 40)] == [1, 2, 3]
    assert max(map(len, printed(table).splitlines())) <= 80


@pytest.mark.parametrize("terminal", [False, True])
def test_square_brackets_and_colons_are_text(terminal: bool) -> None:
    table = Table(INSTALL, INSTALL, INSTALL)
    table.add_row(INSTALL, INSTALL)
    assert printed(table, 200, force_terminal=terminal, color_system=None).count(INSTALL) == 5
    assert INSTALL in printed(INSTALL, 20, force_terminal=terminal, color_system=None)
    console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system=None)
    with console.status(INSTALL), new_progress(console) as progress:
        progress.add_task(INSTALL)
    assert console.file.getvalue().count(INSTALL) >= 2  # type: ignore[attr-defined]


def test_a_cell_may_have_a_colour() -> None:
    table = Table("", "")
    table.add_row(Text("passed", "green"))
    assert "\x1b[32mpassed" in printed(table, force_terminal=True, color_system="standard", _environ={})


def test_nothing_else_prints_with_rich() -> None:
    words = ("rich.console", "rich.table", "rich.markup", "TextColumn")
    sources = [path for package in PACKAGES for path in Path(*package.__path__).rglob("*.py")]
    assert len(sources) > 100
    users = [path for path in sources if any(word in path.read_text() for word in words)]
    assert [path.name for path in users] == ["console.py"]


COMMANDS = {name: cli._load(name.split()[-1], command) for name, command in leaves().items()}
BENCHES = [name for name in COMMANDS if name.startswith("bench ")]
WITH_ROWS = [*BENCHES, "pays", "scale", "latency", "report", "timing", "cluster bench", "regs counters"]
"""Commands whose JSON holds rows."""


@pytest.mark.parametrize(
    ("option", "commands"),
    [
        ("--json", [*WITH_ROWS, "generate", "bring-up", "doctor", "replay", "inspect"]),
        ("--csv", WITH_ROWS),
        ("--plot", ["inspect", "pays", "report", "bench codec", "bench allreduce"]),
    ],
)
def test_an_output_is_the_same_option_wherever_it_is(option: str, commands: list[str]) -> None:
    found = {name: one for name, command in COMMANDS.items() for one in command.params if option in one.opts}
    assert set(commands) <= set(found)
    assert not any(one.is_flag for one in found.values())
    assert {(one.metavar, one.help) for one in found.values()} == {("FILE", found[commands[0]].help)}


@pytest.mark.parametrize("as_file", [False, True])
def test_json_goes_to_a_file_or_alone_to_standard_output(
    as_file: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "facts.json"
    assert cli.main(["doctor", "--json", str(path) if as_file else "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(path.read_text() if as_file else out)[0]["name"] == "system"
    assert "ToS mark" in (out if as_file else err)


def test_nothing_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    Output().write({}, [{"name": 1}])
    assert capsys.readouterr().out == ""


def test_csv_has_the_columns_of_all_rows(tmp_path: Path) -> None:
    Output(None, tmp_path / "x.csv").write({}, [{"name": "a, b", "rate": 1.5}, {"name": "c", "ratio": 2}])
    assert (tmp_path / "x.csv").read_text() == 'name,rate,ratio\n"a, b",1.5,\nc,,2\n'
