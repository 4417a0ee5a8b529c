# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn generate``: the Verilog of a board's NIC engine and what belongs to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from inceptionn.boards.board import Board
from inceptionn.constraints import read
from inceptionn.hdl.registers import write_map_json, write_map_markdown
from inceptionn.hdl.tops import TOPS
from inceptionn.hdl.verilog import convert

BOARDS = ("generic", "vc709")
"""Boards by name; each is the module of that name in this package, with a ``BOARD``."""


def load_board(name: str) -> Board:
    """The board of this name; ``ValueError`` for any other."""
    if name not in BOARDS:
        raise ValueError(f"board must be one of {', '.join(BOARDS)}, not {name!r}")
    board: Board = import_module(f"inceptionn.boards.{name}").BOARD
    return board


def _put(path: Path, text: str) -> None:
    """Write a file as a whole, so that an interrupted run leaves the old one or the new one."""
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def write_files(board: Board, out: Path, step: Callable[[str], None] = lambda name: None) -> list[Path]:
    """Write the board's files into the folder ``out``; return their paths.

    Verilog of every top, ``registers.json``, ``registers.md`` and the board's constraints; ``step`` is told
    the name of each before it is made. The same version writes the same bytes.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for module, factory in TOPS.items():
        path = out / f"{module}.v"
        step(path.name)
        _put(path, convert(factory(), module))
        written.append(path)
    for name, write in (("registers.json", write_map_json), ("registers.md", write_map_markdown)):
        step(name)
        write(out / name)
        written.append(out / name)
    for name in board.constraints:
        step(name)
        _put(out / name, read(name))
        written.append(out / name)
    return written


def generate(
    board: Annotated[str, typer.Option("--board", metavar="BOARD", help=f"One of {', '.join(BOARDS)}.")],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Folder to write to; made if missing.", file_okay=False),
    ],
) -> None:
    """Write a board's Verilog, register map and constraints.

    inceptionn_nic.v is the engine pair between host and wire; inceptionn_compressor.v and
    inceptionn_decompressor.v are the paper's Fig. 9 and Fig. 10 alone.
    """
    try:
        chosen = load_board(board)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--board") from error
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK):  # before the work, not after it
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(out))
    errors = Console(stderr=True)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("", total=len(TOPS) + 2 + len(chosen.constraints))
        progress.update(task, completed=-1)

        def step(name: str) -> None:
            progress.update(task, description=name, advance=1)

        written = write_files(chosen, out, step)
    table = Table(title=f"{chosen.description}{f', {chosen.part}' if chosen.part else ''}")
    table.add_column("file")
    table.add_column("lines", justify="right")
    for path in written:
        table.add_row(str(path), f"{len(path.read_text(encoding='utf-8').splitlines()):,}")
    Console(soft_wrap=True).print(table)
