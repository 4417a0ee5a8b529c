# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn report``: area and clock of every part of the NIC on a board's FPGA."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from inceptionn.commands.codec_option import Bf16Option, EngineCodec, check_bf16
from inceptionn.commands.console import (
    Console,
    CsvFile,
    JsonFile,
    Output,
    PlotFile,
    Table,
    new_progress,
    noted,
)
from inceptionn.commands.environment import environment
from inceptionn.hdl.codec.codecs import PAPER
from inceptionn.hdl.codec.shape import USUAL, EngineShape
from inceptionn.system.options import one_of, regular

from . import history as report_history
from . import plot as report_plot
from .history import Entry, Figures
from .place_and_route import PART, fingerprint
from .series7 import map_series7
from .timing import DEFAULT_COMPONENTS, XC7VX690T, measure, resolve


@dataclass(frozen=True)
class Capacity:
    """A part and its resources."""

    part: str
    lut: int
    ff: int
    bram: int
    dsp: int


_VIRTEX = {**XC7VX690T, "dsp": 3_600}
CAPACITIES = {
    "vc709": Capacity("XC7VX690T-2", **_VIRTEX),
    "netfpga-sume": Capacity("XC7VX690T-3", **_VIRTEX),
}
"""By board; DS180, Virtex-7 family table."""

COMPONENTS = {
    **{
        name: name
        for name in (
            "nic", "compression_engine", "compressor", "compression_unit", "alignment_unit", "tag_table",
            "block_store", "transmit_decision", "transmit_assembler", "decompression_engine", "decompressor",
            "tag_decoder", "burst_buffer", "decompression_unit", "receive_decision", "receive_assembler",
        )
    },
    "management": "registers",
    "bring_up": "inceptionn.boards.measure.report:bring_up_core",
}  # fmt: skip
"""Components from a name to the argument of :func:`inceptionn.boards.measure.timing.resolve`."""

DEFAULTS: dict[str, Sequence[str]] = {
    PAPER: [*COMPONENTS],
    "planes": [
        "nic", "compressor", "plane_unit", "alignment_unit", "code_table", "block_store", "decompressor",
        "code_decoder", "plane_buffer", "dequantisation_unit",
    ],
}  # fmt: skip
"""The default components by codec; those of any other are `DEFAULT_COMPONENTS`, which each codec has."""

HISTORY = Path("docs/report-history.jsonl")


def bring_up_core() -> Any:
    """Make the bring-up design at its default clock, without pins."""
    from ..bring_up.core import BringUpCore
    from ..bring_up.top import DEFAULT_MHZ

    return BringUpCore(round(DEFAULT_MHZ * 1e6))


def known_routes(name: str, cache_dir: Path, shape: EngineShape = USUAL) -> list[float]:
    """Return the clocks in MHz, one for each seed, at which ``inceptionn timing`` has routed this circuit.

    Only those of its default placer count.
    """
    short, factory = resolve(name, shape)
    if not any(cache_dir.glob(f"{short}-*/result.json")):
        return []
    kept = cache_dir / f"{short}-{fingerprint(factory())}" / "result.json"
    if not kept.exists():
        return []
    routes = json.loads(kept.read_text())["routes"]
    return [found["mhz"] for name, found in routes.items() if name.isdecimal()]


def figures(
    name: str, cache_dir: Path, shape: EngineShape, *, with_route: bool, note: Callable[[str], None]
) -> Figures:
    """Return area, levels and routed clock of one component.

    The clock is None if it was not routed yet.
    """
    target = COMPONENTS.get(name, name)
    short, factory = resolve(target, shape)
    note(f"{short}: map to series 7")
    found = map_series7(factory(), cache_dir, short)
    clocks = known_routes(target, cache_dir, shape)
    if not clocks and with_route:
        result = measure(target, [1], cache_dir, shape=shape, with_area=False, note=note)
        clocks = [route["mhz"] for route in result["routes"]]
    area = found.area
    clock = round(median(clocks), 1) if clocks else None
    return Figures(area.lut, area.ff, area.bram, area.dsp, found.levels, clock)


def table(board: str, entry: Entry) -> Table:
    """Tabulate the components' resources with their share of the part, levels of logic, and routed clock."""
    capacity = CAPACITIES[board]
    title = f"{board}: share of an {capacity.part}; clock: {PART}, routed"
    made = Table(title, "component", "LUT", "FF", "RAMB36", "DSP", "levels", "MHz")
    for name, found in entry.components.items():
        shares = (
            f"{getattr(found, key):,g} ({getattr(found, key) / getattr(capacity, key):.2%})"
            for key in ("lut", "ff", "bram")
        )
        clock = f"{found.mhz:.0f}" if found.mhz else "-"
        made.add_row(name, *shares, str(found.dsp), str(found.levels), clock)
    return made


def _checked(components: Sequence[str]) -> list[str]:
    """Return the names to report; usage errors for unknown ones."""
    names = list(dict.fromkeys(components))
    for name in names:
        if name not in COMPONENTS:
            try:
                resolve(name)
            except ValueError as error:
                known = ", ".join(COMPONENTS)
                message = f"component must be one of {known} or package.module:Factory, not {name!r}"
                raise typer.BadParameter(message, param_hint="COMPONENTS") from error
    return names


def report(
    components: Annotated[
        list[str] | None,
        typer.Argument(help="Parts to report, or package.module:Factory. Default: all.", show_default=False),
    ] = None,
    board: Annotated[str, one_of(CAPACITIES, "One of {}.", "--board", metavar="BOARD")] = "vc709",
    codec: EngineCodec = PAPER,
    bf16: Bf16Option = False,
    route: Annotated[
        bool, typer.Option("--route", help="Route components that have not been routed (minutes each).")
    ] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    plot: PlotFile = None,
    history: Annotated[
        Path,
        typer.Option(
            "--history", metavar="FILE", callback=regular, help="Earlier reports, one JSON line each."
        ),
    ] = HISTORY,
    record: Annotated[bool, typer.Option("--record", help="Add this report to the history.")] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with the last report of the history; fail if worse.")
    ] = False,
    threshold: Annotated[
        float,
        typer.Option("--threshold", metavar="PERCENT", help="Increase in percent that --compare accepts."),
    ] = 5.0,
    cache_dir: Annotated[
        Path, typer.Option("--cache", metavar="DIR", help="Cache of results and intermediate files.")
    ] = Path("build/timing"),
) -> None:
    """Report area, levels of logic and clock of every part of the NIC.

    Area and levels are Yosys's mapping to series 7, without placement. The clock is nextpnr's for an ECP5 as
    a proxy, if `inceptionn timing` or --route has routed exactly this circuit.
    """
    check_bf16(codec, bf16)
    shape = EngineShape.of(codec=codec, bf16=bf16)
    names = _checked(components or DEFAULTS.get(codec, DEFAULT_COMPONENTS))
    if not 0 <= threshold <= 1000:
        message = f"percentage must be 0 to 1000, not {threshold!r}"
        raise typer.BadParameter(message, param_hint="--threshold")
    output = Output(json_file, csv_file, plot, [history] if record else [])
    before = report_history.last(history, board) if compare else None
    cache_dir.mkdir(parents=True, exist_ok=True)
    found: dict[str, Figures] = {}
    with new_progress(Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(names))
        note = noted(progress, task)
        for name in names:
            found[name] = figures(name, cache_dir, shape, with_route=route, note=note)
            progress.advance(task)
    entry = report_history.entry(board, found)
    capacity = asdict(CAPACITIES[board])
    output.console.print(table(board, entry))
    output.write(
        {"capacity": capacity, "clock_part": PART, **asdict(entry), "environment": environment(None)},
        [{"component": name, **asdict(each)} for name, each in entry.components.items()],
        lambda path: report_plot.draw(path, capacity, entry),
    )
    changes = []
    if before is not None:
        changes = report_history.changes(before, entry, threshold)
        output.console.print(report_history.headline(before, changes))
        if changes:
            output.console.print(report_history.table(changes))
    if record:
        report_history.append(history, entry)
    if before is not None and (worse := [change for change in changes if change.worse]):
        listed = ", ".join(f"{change.component} {change.what} {change.percent:+.1f} %" for change in worse)
        raise RuntimeError(f"worse than {before.commit} by more than {threshold:g} %: {listed}")
