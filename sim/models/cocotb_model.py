# SPDX-License-Identifier: BSD-2-Clause
"""Simulations that cocotb can drive, by Verilator or Icarus Verilog.

cocotb's own build step makes every signal of a Verilator model public, which costs most of Verilator's
optimisation. Here only the top's ports are public.
"""

from collections.abc import Mapping
from pathlib import Path

from .cache import build_root, built_once, digest
from .tools import find_icarus, run_tool
from .verilator import Kind, build
from .waves import Simulator, WaveFormat

SIMULATORS: tuple[Simulator, ...] = ("verilator", "icarus")

EXECUTABLE = {"verilator": "model", "icarus": "sim.vvp"}
"""Name of the simulation in a model's folder."""

_TIMESCALE = "1ns/1ps"


def build_library(verilog: str, module: str) -> Path:
    """Build module ``module`` as a Verilator library: its wrapper ``{module}.sv`` and object files.

    Returns its folder. A model that instantiates it needs the wrapper among its sources and the objects when
    it is linked, and builds in a fraction of the time. The wrapper is DPI, so only Verilator takes it.
    """
    kind = Kind(
        keep=("*.o", "*.sv"),
        verilate=("--prefix", f"V{module}", "--timescale", _TIMESCALE, "--lib-create", module),
        compile=("-DVM_TRACE=0",),
        level="-O1",
    )
    return build(kind, module, {f"{module}.v": verilog})


def build_verilator(
    verilog: str, top: str, waves: WaveFormat | None = None, libraries: Mapping[str, str] | None = None,
    *, coverage: bool = False,
) -> Path:  # fmt: skip
    """Build the executable for module ``top`` of the text ``verilog``, able to write ``waves``.

    With ``coverage`` a run writes ``coverage.dat``: lines and toggles, in the form of ``verilator_coverage``.

    Returns its folder. ``libraries``: modules that ``verilog`` instantiates and does not hold, name to
    Verilog text; each is built once for all models (:func:`build_library`). Their insides are not in the
    waves.
    """
    import cocotb_tools.config

    glue = cocotb_tools.config.libs_dir
    kind = Kind(
        keep=(EXECUTABLE["verilator"],),
        verilate=(
            "--vpi", "--prefix", "Vtop", "--timescale", _TIMESCALE, *[f"--trace-{waves}"] * bool(waves),
            *["--coverage-line", "--coverage-toggle"] * coverage,
        ),
        compile=(f"-DVM_TRACE={int(waves is not None)}", f"-DVM_TRACE_FST={int(waves == 'fst')}",
                 *["-DVM_COVERAGE=1"] * coverage),
        level="-O1",
        runtime=(
            "verilated.cpp", "verilated_threads.cpp", "verilated_vpi.cpp",
            *[f"verilated_{waves}_c.cpp"] * bool(waves), *["verilated_cov.cpp"] * coverage,
        ),
        link=(
            f"-L{glue}", f"-Wl,-rpath,{glue}", "-lcocotbvpi_verilator", *["-lz", "-llz4"] * (waves == "fst")
        ),
    )  # fmt: skip
    parts = [build_library(text, module) for module, text in sorted((libraries or {}).items())]
    files = {"public.vlt": f'`verilator_config\npublic_flat_rw -module "{top}" -var "*"\n'}
    files[f"{top}.v"] = verilog
    files |= {path.name: path.read_text() for part in parts for path in part.glob("*.sv")}
    files["driver.cpp"] = (cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp").read_text()
    return build(kind, top, files, parts)


def build_icarus(verilog: str, top: str, waves: WaveFormat | None = None) -> Path:
    """Build the ``vvp`` program for module ``top``; return its folder.

    Raises `ToolMissing` without Icarus Verilog.
    """
    compiler = find_icarus()
    version = run_tool([compiler, "-V"]).partition("\n")[0]
    dump = (
        'module wave_dump;\n  reg [8191:0] path;\n  initial if ($value$plusargs("waves=%s", path)) begin\n'
        f"    $dumpfile(path);\n    $dumpvars(0, {top});\n  end\nendmodule\n"
    )
    dumped = {"wave_dump": dump} if waves else {}
    modules = {top: f"`timescale {_TIMESCALE}\n{verilog}"} | dumped
    folder = build_root() / f"{top}-{digest(version, repr(modules))}"
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
