# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn timing``: routed clock, critical path and area of components, as a table and as JSON."""

import fcntl
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.text import Text

from inceptionn.commands.codec_option import EngineCodec
from inceptionn.commands.console import Console, CsvFile, JsonFile, Output, Table, new_progress, noted
from inceptionn.commands.environment import environment
from inceptionn.hdl.codec.codecs import PAPER
from inceptionn.hdl.codec.shape import USUAL, EngineShape
from inceptionn.hdl.nic import check_engines
from inceptionn.system.atomic_file import write
from inceptionn.system.options import one_of, whole
from inceptionn.system.programs import usable_processors
from inceptionn.wire import GROUP_LANES

from .place_and_route import (
    PART,
    PLACERS,
    SLOW_ENDS,
    Area,
    Hop,
    Route,
    Slow,
    area,
    fingerprint,
    route,
    synthesize,
)

XC7VX690T = {"lut": 433_200, "ff": 866_400, "bram": 1_470}
"""Resources of the VC709's part (DS180, Virtex-7 family table)."""

DEFAULT_COMPONENTS = ("compressor", "decompressor", "nic")
TARGETS_MHZ = {
    "compressor": 210, "decompressor": 210, "nic": 170,
    "planes_compressor": 210, "planes_decompressor": 210, "planes_nic": 180,
}  # fmt: skip
"""The project's own targets; they set the colour in the table and the exit status of ``--check``."""


def resolve(name: str, shape: EngineShape = USUAL, engines: int = 1) -> tuple[str, Callable[[], Any]]:
    """Return short name and factory of a component.

    ``name`` is one of :data:`inceptionn.hdl.tops.TOPS`, with or without its ``inceptionn_``, one of
    :data:`inceptionn.hdl.catalogue.CATALOGUE` as it is built in the NIC, or with ``/N`` of its N-th checked
    size, or ``package.module:Factory``. Raises ``ValueError`` for any other. ``shape`` and the NIC's
    ``engines`` are those of the tops. What is not the default is part of the short name: ``planes_nic_2x16``
    has two engines of 16 lanes.
    """
    if ":" in name:
        module, _, attribute = name.partition(":")
        try:
            return attribute, getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"no component {name!r}: {error}") from error
    from inceptionn.hdl.catalogue import CATALOGUE
    from inceptionn.hdl.tops import TOPS, tops_of

    short = name.removeprefix("inceptionn_")
    if (top := f"inceptionn_{short}") in TOPS:
        if short != "nic":
            engines = 1
        kind = "" if shape.codec == USUAL.codec else "bf16_" if shape.bf16 else f"{shape.codec.name}_"
        size = "" if (engines, shape.lanes) == (1, USUAL.lanes) else f"_{engines}x{shape.lanes}"
        tops = tops_of(shape, engines) if kind or size else TOPS
        return f"{kind}{short}{size}", tops[top]
    part, slash, number = name.partition("/")
    if part in CATALOGUE and not slash:
        return name, CATALOGUE[part].make_built
    if part in CATALOGUE and number in map(str, range(1, len(CATALOGUE[part].variants) + 1)):
        return f"{part}_{number}", partial(CATALOGUE[part].make, int(number) - 1)
    known = ", ".join(sorted(top.removeprefix("inceptionn_") for top in TOPS))
    raise ValueError(
        f"component must be one of {known}, a part (`inceptionn simulate --list`, with /N its N-th size) or "
        f"package.module:Factory, not {name!r}"
    )


def measure(
    name: str,
    seeds: list[int],
    cache_dir: Path,
    *,
    shape: EngineShape = USUAL,
    engines: int = 1,
    placer: str | None = None,
    placements: int | None = None,
    with_route: bool = True,
    with_area: bool = True,
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Measure routes and area of one component, from ``cache_dir`` where nothing has changed since.

    ``note`` gets the current step as text. Raises ``ValueError`` for an unknown name and
    :class:`~inceptionn.boards.measure.place_and_route.ToolError`.
    """
    short, factory = resolve(name, shape, engines)
    note(f"{short}: elaborate")
    folder = cache_dir / f"{short}-{fingerprint(factory())}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs of the same component do the work only once
        kept = folder / "result.json"
        result: dict[str, Any] = (
            json.loads(kept.read_text()) if kept.exists() else {"routes": {}, "area": None}
        )
        result["name"] = short
        # Routes with the defaults are kept by their seed alone.
        chosen = [placer or "", f"{placements} placements" if placements else ""]
        kept_as = {seed: " ".join(filter(None, [*chosen, str(seed)])) for seed in seeds}
        wanted = [seed for seed in seeds if kept_as[seed] not in result["routes"]] if with_route else []
        if with_area and result["area"] is None:
            note(f"{short}: map to series 7")
            result["area"] = asdict(area(factory(), folder))
            write(kept, json.dumps(result))
        if wanted:
            note(f"{short}: synthesize for ECP5")
            netlist = synthesize(factory(), folder)
            listed = ", ".join(map(str, wanted))
            note(f"{short}: place and route, seed {listed} (log: {folder / f'route-{wanted[0]}.log'})")
            with ThreadPoolExecutor(usable_processors()) as pool:
                routes = {pool.submit(route, netlist, seed, placer, placements): seed for seed in wanted}
                try:
                    for done in as_completed(routes):
                        result["routes"][kept_as[routes[done]]] = asdict(done.result())
                        write(kept, json.dumps(result))
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
        result["routes"] = [result["routes"][kept_as[seed]] for seed in seeds] if with_route else []
        return result


def _measure_all(
    names: list[str], seeds: list[int], cache_dir: Path, **settings: Any
) -> list[dict[str, Any]]:
    """Do :func:`measure` for each component, with ``settings``, and show what it is doing."""
    results = []
    with new_progress(Console(stderr=True), bar=False) as progress:
        for name in names:
            task = progress.add_task(name)
            results.append(measure(name, seeds, cache_dir, note=noted(progress, task), **settings))
            progress.remove_task(task)
    return results


def _route(fields: dict[str, Any]) -> Route:
    path, slow = (Hop(**hop) for hop in fields["path"]), (Slow(**end) for end in fields["slow"])
    return Route(**{**fields, "path": tuple(path), "slow": tuple(slow)})


def _clock_cell(short: str, routes: list[Route]) -> str | Text:
    if not routes:
        return "-"
    rates = [r.mhz for r in routes]
    text = f"{median(rates):.0f}"
    if len(rates) > 1:
        text += f" ({min(rates):.0f}-{max(rates):.0f})"
    target = TARGETS_MHZ.get(short)
    if target is None:
        return text
    return Text.assemble((text, "green" if median(rates) >= target else "red"), f" (aim {target})")


def table(results: list[dict[str, Any]]) -> Table:
    """Tabulate the results: routed clock, and series 7 resources with their share of an XC7VX690T."""
    title = f"clock: {PART}, routed; area: series 7, share of an XC7VX690T"
    made = Table(title, "component", "MHz", "LUT", "SRL", "LUT RAM", "FF", "RAMB36", "DSP")
    for result in results:
        found = Area(**result["area"]) if result["area"] else None
        resources = ["-"] * 6
        if found:
            lut, ff, bram = (
                f"{getattr(found, key):,} ({getattr(found, key) / of:.2%})" for key, of in XC7VX690T.items()
            )
            resources = [lut, f"{found.srl:,}", f"{found.lutram:,}", ff, bram, str(found.dsp)]
        clock = _clock_cell(result["name"], [_route(fields) for fields in result["routes"]])
        made.add_row(result["name"], clock, *resources)
    return made


def path_summary(short: str, found: Route) -> str:
    """Describe a route's critical path in one line.

    It tells where the path starts and ends, its logic and its wires.
    """
    logic = found.nanoseconds("clk-to-q", "logic", "setup")
    return (
        f"{short}, seed {found.seed}: {found.start} -> {found.end}: {found.levels} levels, "
        f"{logic:.2f} ns cells + {found.nanoseconds('routing'):.2f} ns wires; "
        f"{found.packed_rams} RAMs with output registers"
    )


def _print_paths(console: Console, result: dict[str, Any], *, every_hop: bool, ends: int) -> None:
    """Print the critical paths of a component's routes, one line each, their hops, and the slowest ends."""
    for found in map(_route, result["routes"]):
        console.print(path_summary(result["name"], found), style="dim")
        for hop in (hop for hop in found.path if every_hop and hop.ns):
            console.print(f"    {hop.ns:6.3f} ns  {hop.kind:9}  {hop.cell}")
        for end in found.slow[:ends]:
            console.print(f"    {end.ns:6.3f} ns  {end.bits:5} bits  {end.name}")


def _misses_target(result: dict[str, Any]) -> bool:
    """Tell whether the median clock of a component's routes is below its target."""
    target, routes = TARGETS_MHZ.get(result["name"]), [_route(fields) for fields in result["routes"]]
    return bool(target and routes and median(found.mhz for found in routes) < target)


def _checked(names: list[str], lanes: int, codec: str, engines: int) -> tuple[list[str], EngineShape]:
    """Return components and shape to measure; usage errors for unknown ones, and sizes that do not exist."""
    try:
        check_engines(engines)
        shape = EngineShape.of(lanes, codec)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--engines, --lanes") from error
    for name in names:
        try:
            resolve(name)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="COMPONENTS") from error
    return names or list(DEFAULT_COMPONENTS), shape


def timing(
    components: Annotated[
        list[str] | None,
        typer.Argument(
            help="compressor, decompressor, nic, or package.module:Factory. Default: the first three.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        list[int] | None,
        whole(0, 2**31 - 1, "Random seed of the placer, 1 by default; repeat it for more runs.", "--seed"),
    ] = None,
    codec: EngineCodec = PAPER,
    lanes: Annotated[
        int,
        typer.Option("--lanes", metavar="N", help="Of the same: fp32 lanes of an engine, 8, 16, or nic's 1."),
    ] = GROUP_LANES,
    engines: Annotated[
        int, typer.Option("--engines", metavar="N", help="Of nic: engines per direction, 1, 2 or 4.")
    ] = 1,
    placer: Annotated[
        str | None,
        one_of(
            PLACERS,
            "nextpnr's: {}. Default: by the netlist's size.",
            "--placer",
            metavar="PLACER",
            show_default=False,
        ),
    ] = None,
    placements: Annotated[
        int | None,
        whole(
            1,
            100,
            "Placements for each seed, of which the best is routed. Default: 3 of a large netlist.",
            "--placements",
            show_default=False,
        ),
    ] = None,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    with_route: Annotated[
        bool, typer.Option("--route/--no-route", help="Place and route for the clock.")
    ] = True,
    with_area: Annotated[bool, typer.Option("--area/--no-area", help="Map to series 7 for the area.")] = True,
    path: Annotated[bool, typer.Option("--path", help="Print every hop of the critical paths.")] = False,
    slow: Annotated[
        int, whole(0, SLOW_ENDS, "Number of registers printed in which the slowest paths end.", "--slowest")
    ] = 0,
    check: Annotated[bool, typer.Option("--check", help="Fail if a clock misses its target.")] = False,
    cache_dir: Annotated[
        Path, typer.Option("--cache", metavar="DIR", help="Cache of results and intermediate files.")
    ] = Path("build/timing"),
) -> None:
    """Place and route components; print their clock, critical path and area.

    The clock is that of an ECP5 (LFE5U-85F, speed grade 8) by nextpnr; the area is Yosys's mapping to Xilinx
    series 7. Takes minutes per component; results are cached until the circuit changes.
    """
    output, facts = Output(json_file, csv_file), {"part": PART, "environment": environment(None)}
    seeds = list(dict.fromkeys(seed or [1]))
    names, shape = _checked(components or [], lanes, codec, engines)
    cache_dir.mkdir(parents=True, exist_ok=True)
    results = _measure_all(
        names, seeds, cache_dir, shape=shape, engines=engines, placer=placer, placements=placements,
        with_route=with_route, with_area=with_area,
    )  # fmt: skip
    output.console.print(table(results))
    for result in results:
        _print_paths(output.console, result, every_hop=path, ends=slow)
    missed = [result["name"] for result in results if _misses_target(result)]
    output.write({**facts, "components": results}, [
        {"component": found["name"], "seed": one.get("seed"), "mhz": one.get("mhz"), **(found["area"] or {})}
        for found in results for one in found["routes"] or [{}]
    ])  # fmt: skip
    if check and missed:
        raise RuntimeError(f"below the target clock: {', '.join(missed)}")
