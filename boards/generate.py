# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn generate``: all files for the engines on a board, in one folder."""

from fractions import Fraction
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from inceptionn.commands.codec_option import Bf16Option, EngineCodec
from inceptionn.commands.console import Console, JsonFile, Output, Table, new_progress
from inceptionn.hdl.codec.codecs import PAPER
from inceptionn.system.options import usage_error
from inceptionn.system.text import nearest

from . import output_folder
from .board import Board, Options
from .inline.recipes import RECIPES
from .module_names import DEFAULT_PREFIX
from .package_files import package

BOARDS = tuple(
    sorted(
        folder.name.replace("_", "-")
        for folder in files("inceptionn.boards").iterdir()
        if (folder / "target.py").is_file()
    )
)
"""Boards by name: the folders of this package that hold a ``target.py``, each with a ``BOARD``."""


def load_board(name: str) -> Board:
    """Return the board of this name. Raise ``ValueError`` for any other."""
    if name not in BOARDS:
        hint = nearest(name, BOARDS)
        if found := [board for board in RECIPES if board.startswith(name.lower())]:
            hint = f" (the inline device: inceptionn inline build --board {found[0]})"
        raise ValueError(f"board must be one of {', '.join(BOARDS)}, not {name!r}{hint}")
    board: Board = import_module(f"inceptionn.boards.{name.replace('-', '_')}.target").BOARD
    return board


def parse_ratio(text: str) -> Fraction:
    """Parse ``"2"``, ``"2.5"`` or ``"5/2"``. Raise ``ValueError`` for any other text."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"clock ratio must be a number such as 2, 2.5 or 5/2, not {text!r}") from None


def generate(
    board: Annotated[str, typer.Option("--board", metavar="BOARD", help=f"One of {', '.join(BOARDS)}.")],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Output folder; created if missing.")],
    ports: Annotated[
        int | None, typer.Option("--ports", metavar="N", help="vc709: 1 to 4 (4); corundum: 1 to 8 (1).")
    ] = None,
    clock_ratio: Annotated[
        str | None,
        typer.Option(
            "--clock-ratio", metavar="R",
            help="vc709: engines on a clock R times slower than the streams', above 1 and up to 4.",
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option("--width", metavar="BITS", help="corundum: stream width, 64, 128, 256 or 512 (512)."),
    ] = None,
    part: Annotated[
        str | None, typer.Option("--part", metavar="PART", help="FPGA part for the Vivado projects.")
    ] = None,
    clock: Annotated[
        float | None,
        typer.Option(
            "--clock", metavar="MHZ", help="generic: your clock, for the constraints (250); see also --part."
        ),
    ] = None,
    engines: Annotated[
        int, typer.Option("--engines", metavar="N", help="Engine pairs that share one stream.")
    ] = 1,
    lanes: Annotated[
        int | None,
        typer.Option(
            "--lanes", metavar="N",
            help="fp32 lanes of an engine: 8; generic also 1, 16; litex 1 (1), 8; corundum with 512 bits 16.",
        ),
    ] = None,
    codec: EngineCodec = PAPER,
    bf16: Bf16Option = False,
    prefix: Annotated[
        str,
        typer.Option(
            "--prefix", metavar="NAME",
            help="Prefix of all module and file names. Two NICs in one design need different prefixes.",
        ),
    ] = DEFAULT_PREFIX,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a non-empty folder; other files in it are kept.")
    ] = False,
    json_file: JsonFile = None,
) -> None:  # fmt: skip
    """Write a board's folder: Verilog, constraints, registers, IP, FuseSoC core and instructions.

    inceptionn_nic.v is the engine pair between host and wire; inceptionn_<board>.v is the shell around it.
    inceptionn_compressor.v and inceptionn_decompressor.v are the codec alone: with the codec paper, the
    paper's Fig. 9 and Fig. 10.
    """
    with usage_error("--board"):
        chosen = load_board(board)
    if not out:
        raise typer.BadParameter("output folder must be named, not ''", param_hint="--out")
    if part is not None and (not part or not part.replace("-", "").replace("_", "").isalnum()):
        raise typer.BadParameter(f"part must be an ordering code, not {part!r}", param_hint="--part")
    with usage_error():
        ratio = None if clock_ratio is None else parse_ratio(clock_ratio)
        options = chosen.resolve(
            Options(ports, ratio, width, part, engines, lanes, codec, prefix, bf16, clock)
        )
    folder = Path(out)
    output_folder.check(folder, force)  # before the work, not after it
    output = Output(json_file)
    with new_progress(Console(stderr=True)) as progress:
        task = progress.add_task("", total=None)
        files = package(chosen, options, lambda name: progress.update(task, description=name, advance=1))
    written = output_folder.write(folder, files)
    table = Table(f"{chosen.description}{f', {options.part}' if options.part else ''}", "file", "lines")
    for path in written:
        table.add_row(str(path), f"{len(files[path.name].splitlines()):,}")
    output.console.print(table)
    output.write(files[output_folder.MANIFEST])
