# SPDX-License-Identifier: BSD-2-Clause
"""Compressor and decompressor alone: what a folder says of their ports, and the example's bench on Icarus."""

import json
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.lib import wiring

from inceptionn.boards import package_files
from inceptionn.boards.board import Options
from inceptionn.boards.generate import load_board
from inceptionn.boards.standalone import standalone_modules
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.tops import tops_of
from inceptionn.hdl.verilog import flat_ports
from inceptionn.sim.models.tools import find_icarus, run_tool
from inceptionn.sim.runner import emit
from inceptionn.wire import CODECS
from inceptionn.wire.planes import PlanesParameters

BENCH = Path(__file__).parents[2] / "examples" / "verilog" / "codec_tb.v"
MODULES = ("inceptionn_compressor", "inceptionn_decompressor")


@pytest.fixture(params=CODECS)
def folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, str]]:
    """Return a codec and its folder for any FPGA.

    The Verilog takes long to emit and does not matter here, so it is left empty.
    """
    monkeypatch.setattr(package_files, "convert", lambda part, name, sources: f"module {name}(\nendmodule\n")
    board = load_board("generic")
    return request.param, package_files.package(board, board.resolve(Options(codec=request.param)))


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_every_port_is_documented(folder: tuple[str, dict[str, str]]) -> None:
    """In ``ports.json`` and as a row of the README, with what codec and module make of it."""
    codec, files = folder
    documented = json.loads(files["ports.json"])["standalone"]
    assert set(documented) == set(MODULES)
    for module in MODULES:
        ports = {port["name"]: port for port in documented[module]["ports"]}
        expected = flat_ports(tops_of(EngineShape.of(codec=codec))[module]())
        assert ports.keys() == {"aclk", "aresetn", *expected}
        for name, (signal, direction) in expected.items():
            assert (ports[name]["width"], ports[name]["direction"]) == (len(signal), direction.value)
        section = files["README.md"].partition(f"\n`{module}`:")[2].partition("\n`")[0]
        for name, port in ports.items():
            row = f"| `{name}` | {port['direction']} | {port['width']} | {port['text']} |\n"
            assert row in section, name
        assert "2304" in ports["m_axis_tuser"]["text"]
    settings = {port["name"]: port["text"] for port in documented["inceptionn_compressor"]["ports"]}
    assert (settings["cfg_t"] == settings["cfg_b"] == "not used by this codec") == (codec == "planes")
    decompressor = {port["name"]: port["text"] for port in documented["inceptionn_decompressor"]["ports"]}
    assert decompressor["cfg_b"].startswith("E0, " if codec == "planes" else "B, ")


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_texts_of_another_codec_are_those_of_its_record() -> None:
    @dataclass(frozen=True)
    class Parameters(PlanesParameters):
        q: int = 7

    name: Any = "another"
    spec = replace(
        CODECS["planes"], name=name, base="q", type=Parameters,
        of_bound=lambda k: Parameters(127 - k), parameter_texts=("Its bound.", "Its quality."),
    )  # fmt: skip
    modules = {module: make() for module, make in tops_of(EngineShape.of(codec="planes")).items()}
    shape: Any = SimpleNamespace(lanes=8, codec=SimpleNamespace(spec=spec))
    found = standalone_modules(modules, shape)
    compressor, decompressor = (
        {port["name"]: port["text"] for port in found[module]["ports"]} for module in MODULES
    )
    assert compressor["cfg_e0"].startswith("E0 = 127 - k for an error bound of 2^-k (k = 1 to 14); 117 for ")
    assert compressor["cfg_t"].startswith("Its quality; constant from ")
    assert compressor["cfg_b"] == "not used by this codec"
    assert decompressor["cfg_b"].startswith("Q, the compressor's `cfg_t`; read with ")


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_folder_with_bf16_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its register maps, its command line and its README tell them; the modules alone have fp32 lanes."""
    shapes = {}

    def convert(part: wiring.Component, module: str, sources: object) -> str:
        shapes[module] = part.shape  # type: ignore[attr-defined]
        return f"module {module}(\nendmodule\n"

    monkeypatch.setattr(package_files, "convert", convert)
    board = load_board("generic")
    files = package_files.package(board, board.resolve(Options(engines=2, codec="planes", bf16=True)))
    assert {module: shape.bf16 for module, shape in shapes.items()} == {
        "inceptionn_nic": True, **dict.fromkeys(MODULES, False)
    }  # fmt: skip
    assert json.loads(files["manifest.json"])["parameters"]["bf16"]
    registers = json.loads(files["registers.json"])
    assert registers["bf16"]
    assert "TX_LANES_BF16" in {register["name"] for register in registers["registers"]}
    assert "INCEPTIONN_TOS_BF16_SHIFT 16\n" in files["inceptionn_registers.h"]
    for name in ("inceptionn_registers.rdl", "inceptionn_registers.xml"):
        assert "TX_COMPRESSED_BF16" in files[name]
    assert "--codec planes --bf16`" in files["README.md"]
    assert "0 turns bf16 off" in files["README.md"]
    assert "ToS 0x28 (bf16 0x2c) under 0xfc" in files["inceptionn_nic.v"]
    with pytest.raises(ValueError, match="^bf16 lanes need the codec planes, not 'paper'$"):
        board.resolve(Options(bf16=True))


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_the_users_clock(folder: tuple[str, dict[str, str]]) -> None:
    """It is the constraints', and the command's in the README; 250 MHz if none is named."""
    board = load_board("generic")
    files = package_files.package(board, board.resolve(Options(codec=folder[0], clock_mhz=322.265625)))
    assert "-period 4.000 " in folder[1]["inceptionn_nic_ooc.xdc"]
    assert "-period 3.103 " in files["inceptionn_nic_ooc.xdc"]
    assert " --clock 322.265625`" in files["README.md"]
    with pytest.raises(ValueError, match=r"^clock of vc709 is 250 MHz and cannot be chosen: 200$"):
        load_board("vc709").resolve(Options(clock_mhz=200))


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize("page", ["boards.md", "README.md"])
def test_the_pages_lines_write_a_queue(
    page: str, folder: tuple[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of docs/boards.md for 512 bits, those of a folder's README for its own width."""
    docs = Path(__file__).parents[2] / "docs"
    text, bits = ((docs / page).read_text(), 512) if page == "boards.md" else (folder[1][page], 256)
    (lines,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(lines, {})
    assert f"  input [{bits - 1}:0] s_axis_tdata;" in Path("frame_queue.v").read_text()
    run_tool([find_icarus(), "-g2005", "-t", "null", "frame_queue.v"])


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_only_the_papers_codec_is_in_the_papers_figures(folder: tuple[str, dict[str, str]]) -> None:
    codec, files = folder
    named = {name for name, text in files.items() if re.search(r"Figs?\. (9|10)", text)}
    assert named == ({"README.md", "ports.json"} if codec == "paper" else set())


@pytest.mark.parametrize("codec", [pytest.param("paper", marks=pytest.mark.slow), "planes"])
def test_example_bench_on_icarus(codec: str, tmp_path: Path) -> None:
    """Lanes come back within the bound; else the bench says where they do not, and what is marked."""
    for module in MODULES:
        (tmp_path / f"{module}.v").write_text(emit(tops_of(EngineShape.of(codec=codec))[module], module))
    number = {"paper": 122, "planes": 117}[codec]

    def run(*parameters: str) -> str:
        chosen = [word for parameter in parameters for word in ("-P", f"codec_tb.{parameter}")]
        model = tmp_path / "tb"
        files = (BENCH, *(tmp_path / f"{module}.v" for module in MODULES))
        run_tool([find_icarus(), "-g2005", *chosen, "-o", model, *files])
        done = subprocess.run([model], capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip()
        assert done.returncode == said.startswith("FATAL: ")
        return said.partition("\n")[0]

    right = run("PACKETS=3", f"NUMBER={number}")
    assert (found := re.fullmatch(r"PASS: 3 packets of 362 lanes, 4344 bytes as (\d+)", right)), right
    assert 300 < int(found[1]) < 2200
    assert re.fullmatch(r"PASS: 2 packets of 9 lanes.*", run("PACKETS=2", "LANES=9", f"NUMBER={number}"))
    wrong = run("PACKETS=1", f"NUMBER={number + 3}")
    assert re.fullmatch(r"FATAL: .*: at packet 0, beat \d+: a lane is beyond the bound", wrong)
    overlong = run("PACKETS=1", "LANES=2312", f"NUMBER={number}")
    assert overlong.endswith("at packet 0, beat 0: the compressor marks a packet of more than 2304 lanes")
