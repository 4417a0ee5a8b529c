# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn inline build``: the bitstream of the inline device for a board."""

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from inceptionn.commands.codec_option import Bf16Option, check_bf16
from inceptionn.commands.console import Console, JsonFile, Output, Table
from inceptionn.hdl.codec.codecs import CODECS, PAPER
from inceptionn.hdl.inline.device import BAUD
from inceptionn.hdl.inline.media import MAC_DOMAIN
from inceptionn.system.options import one_of, usage_error, whole

from .. import output_folder
from .flow import (
    ECPPACK,
    NAME,
    NEXTPNR,
    ROUTE_OPTIONS,
    BuildError,
    Note,
    Routed,
    log_of,
    pack,
    route,
    synthesize,
    tool,
    versions,
)
from .readme import readme
from .recipes import RECIPES, Recipe
from .top import InlineTop

PASS = "none"
"""The ``--codec`` of the pass-through design."""
TRIED = 3
"""Seeds that are tried, without ``--seeds``, until one meets every clock."""
MARGIN = 0.25
"""Share by which each clock should exceed its target. A smaller margin is reported, but is no error."""


def build_device(
    recipe: Recipe,
    codec: str | None,
    seeds: Sequence[int],
    note: Note = lambda text: None,
    bf16: bool = False,
    lanes: int | None = None,
    first: bool = False,
) -> dict[str, str | bytes]:
    """Build the files of a device, by name, with `output_folder.MANIFEST` among them; ``bf16``: with bf16.

    ``lanes``: of the engines, by default the board's usual number; ``ValueError`` if the part holds no such.

    The bitstream is that of the seed whose smallest margin is the largest. With ``first``, no seed is tried
    after one that meets every clock. The same version, tools, options and seeds give the same bits. Raises
    `BuildError` if a tool fails, no seed can be routed, a clock has no constraint, or no seed meets every
    clock. In the last case it names the slowest path. ``nextpnr.log`` is of the packed route; the manifest's
    ``constraints`` are all lines that the router got beside the pins.
    """
    lanes = lanes or recipe.lanes[0]
    recipe.check(lanes)
    for name in (NEXTPNR, ECPPACK):
        tool(name)  # missing ones are reported before the work
    note("elaborate")
    platform = recipe.platform()
    top = InlineTop(recipe, codec, lanes, bf16)
    plan = platform.build(top, name=NAME, do_build=False, emit_src=False)
    rtlil, pins = (
        text.decode() if isinstance(text, bytes) else text
        for text in (plan.files[f"{NAME}.il"], plan.files[f"{NAME}.lpf"])
    )
    with tempfile.TemporaryDirectory(prefix="inceptionn-inline-") as scratch:
        folder = Path(scratch)
        (folder / f"{NAME}.lpf").write_text(pins)
        spread = f"{MAC_DOMAIN}_clk" if recipe.apart else ""
        said = _prefixed(note, "synthesize")
        global_resets = synthesize(rtlil, folder, said, small=lanes == 1, spread=spread)
        from_fabric = top.fabric_clocks() + global_resets
        routes, failures = _routes(platform, folder, top.clocks(), from_fabric, seeds, note, first)
        best = _best(routes)
        bits, vector = pack(best, folder, lambda text: note("pack the bitstream"))
        log = log_of(best.seed, folder)
    head = {
        "generator": "inceptionn inline build",
        "version": version("inceptionn"),
        "tools": {"amaranth": version("amaranth"), **versions()},
        "board": recipe.name,
        "part": f"{platform.device}-{platform.speed}{platform.package}",
        "parameters": {
            "codec": codec,
            "lanes": lanes,
            "bf16": bf16,
            "baud": BAUD,
            "seed": best.seed,
            "route_options": list(ROUTE_OPTIONS),
        },  # fmt: skip
        "source_sha256": {"rtlil": _digest(rtlil), "pins": _digest(pins)},
        "constraints": [line for line in pins.splitlines() if line.startswith(("FREQUENCY ", "BLOCK "))],
        "routes": [_facts(routed) for routed in routes],
        "failed_seeds": {str(seed): str(error) for seed, error in failures.items()},
    }
    files: dict[str, str | bytes] = {
        f"{NAME}.bit": bits, f"{NAME}.svf": vector, f"{NAME}.lpf": pins,
        "README.md": readme(recipe, codec, best, bf16, lanes), "nextpnr.log": log,
    }  # fmt: skip
    return {**files, output_folder.MANIFEST: output_folder.manifest(files, head)}


def _routes(
    platform: Any, folder: Path, clocks: Mapping[str, int], from_fabric: int, seeds: Sequence[int],
    note: Note, first: bool,
) -> tuple[list[Routed], dict[int, BuildError]]:  # fmt: skip
    """Route with each seed, or to the first that meets all clocks; return routes, and errors by seed.

    Raise if no route succeeds.
    """
    routes: list[Routed] = []
    failures: dict[int, BuildError] = {}
    for seed in seeds:
        try:
            said = _prefixed(note, f"route, seed {seed}")
            routes.append(route(platform, folder, seed, clocks, from_fabric, said))
        except BuildError as error:
            failures[seed] = error
        if first and routes and routes[-1].margin >= 0:
            break
    if not routes:
        raise failures[seeds[0]]
    return routes, failures


def _best(routes: Sequence[Routed]) -> Routed:
    """Return the route with the largest margin. Raise `BuildError` if it misses a clock."""
    best = max(routes, key=lambda routed: routed.margin)
    if missed := [clock for clock in best.clocks if clock.margin < 0]:
        slow = ", ".join(f"{c.name} {c.reached:.1f} of {c.target:g} MHz, {c.path}" for c in missed)
        raise BuildError(f"clock missed with seed {best.seed}, the best of {len(routes)}: {slow}")
    return best


def _prefixed(note: Note, prefix: str) -> Note:
    return lambda text: note(f"{prefix}: {text}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _facts(routed: Routed) -> dict[str, Any]:
    """Describe a route for the manifest; clocks are in MHz."""
    clocks = {
        clock.name: {"target": clock.target, "reached": round(clock.reached, 2), "slowest": clock.path}
        for clock in routed.clocks
    }
    used = {kind: list(counts) for kind, counts in routed.used.items()}
    return {
        "seed": routed.seed, "clocks": clocks, "crossings_ns": routed.crossings, "used": used,
        "fabric_clocks": routed.fabric_clocks,
    }  # fmt: skip


def table(recipe: Recipe, routes: Sequence[Any]) -> Table:
    """Tabulate clocks and area by seed, from the entries of the manifest."""
    clocks = list(routes[0]["clocks"])
    made = Table(f"{recipe.title}: MHz (target), cells (share)", "seed", *clocks, *routes[0]["used"])
    for routed in routes:
        reached = [f"{c['reached']:.0f} ({c['target']:g})" for c in (routed["clocks"][n] for n in clocks)]
        used = [f"{count:,} ({count / of:.0%})" for count, of in routed["used"].values()]
        made.add_row(str(routed["seed"]), *reached, *used)
    return made


def build(
    out: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Output folder; created if missing, must be empty.")
    ],
    board: Annotated[str, one_of(RECIPES, "{}.", "--board", metavar="BOARD")] = "ecpix5-85f",
    codec: Annotated[
        str,
        one_of((*CODECS, PASS), f"{{}}; with {PASS} frames pass unchanged.", "--codec", metavar="CODEC"),
    ] = PAPER,
    lanes: Annotated[
        int | None,
        typer.Option(
            "--lanes", metavar="N", help="Lanes of each engine, 1 or 8; default: the most of the board."
        ),
    ] = None,
    bf16: Bf16Option = False,
    seed: Annotated[int, whole(0, 2**31 - 1, "First seed of nextpnr.", "--seed", metavar="N")] = 1,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            metavar="N",
            help=f"Route with N seeds, starting at --seed, and keep the best; default: up to {TRIED}, to the "
            "first that meets every clock.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a non-empty folder.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Build the inline device's bitstream for a board, with Yosys, nextpnr and ecppack.

    A seed takes 20 to 40 minutes of one processor and 3 GB with engines of 8 lanes, five with engines of one,
    and with --codec none one to two. The command fails if routing fails, or if a clock misses its target or
    has no constraint. Ctrl-C and SIGTERM leave no files.
    """
    if not out:
        raise typer.BadParameter("must name a folder, not ''", param_hint="--out")
    if seeds is not None and not 1 <= seeds <= 100:
        raise typer.BadParameter(f"must be 1..100, not {seeds}", param_hint="--seeds")
    check_bf16(codec, bf16)
    output = Output(json_file)
    recipe, folder = RECIPES[board], Path(out)
    with usage_error("--lanes"):
        recipe.check(recipe.lanes[0] if lanes is None else lanes)
    output_folder.check(folder, force)
    with Console(stderr=True).status("start") as status:
        files = build_device(
            recipe, None if codec == PASS else codec, range(seed, seed + (seeds or TRIED)), status.update,
            bf16, lanes, first=seeds is None,
        )  # fmt: skip
    written = output_folder.write(folder, files)
    manifest = folder / output_folder.MANIFEST
    _report(output.console, recipe, manifest, written)
    output.write(manifest.read_text(encoding="utf-8"))


def _report(console: Console, recipe: Recipe, manifest: Path, written: Sequence[Path]) -> None:
    facts = json.loads(manifest.read_text(encoding="utf-8"))
    console.print(table(recipe, facts["routes"]))
    for seed, error in facts["failed_seeds"].items():
        console.print(f"seed {seed} failed: {error}")
    used = facts["parameters"]["seed"]
    console.print(f"seed {used} is in {', '.join(path.name for path in written)} of {str(manifest.parent)!r}")
    (best,) = (routed for routed in facts["routes"] if routed["seed"] == used)
    for name, clock in best["clocks"].items():
        margin = clock["reached"] / clock["target"] - 1
        if margin < MARGIN:
            console.print(f"margin of {name} is {margin:.0%}, less than {MARGIN:.0%}: try --seeds")
