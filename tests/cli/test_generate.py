# SPDX-License-Identifier: BSD-2-Clause
"""What `inceptionn generate` writes: ports as documented, plain Verilog, the same bytes every time."""

import hashlib
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version as distribution_version
from pathlib import Path

import pytest

from inceptionn import cli
from inceptionn.boards import output_folder
from inceptionn.hdl.codec.paper.shifter_tree import ShifterTree
from inceptionn.hdl.parts.width import Width
from inceptionn.hdl.verilog import convert

STREAM = {"tdata": 256, "tkeep": 32, "tuser": 1, "tlast": 1, "tvalid": 1, "tready": 1}
LITE = {
    "awaddr": None, "awprot": 3, "awvalid": 1, "awready": 1,
    "wdata": 32, "wstrb": 4, "wvalid": 1, "wready": 1,
    "bresp": 2, "bvalid": 1, "bready": 1, "araddr": None, "arprot": 3, "arvalid": 1, "arready": 1,
    "rdata": 32, "rresp": 2, "rvalid": 1, "rready": 1,
}  # fmt: skip
ANSWERS = {"tready", "awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp", "rvalid"}
"""Signals that the side called ``s_`` drives."""

Ports = dict[str, tuple[str, int | None]]


def bus(prefix: str, signals: dict[str, int | None]) -> Ports:
    return {
        f"{prefix}_{name}": ("output" if (name in ANSWERS) == prefix.startswith("s_") else "input", width)
        for name, width in signals.items()
    }


CLOCK: Ports = {"aclk": ("input", 1), "aresetn": ("input", 1)}
PORTS: dict[str, Ports] = {
    "inceptionn_nic": CLOCK
    | bus("s_axis_tx", STREAM) | bus("m_axis_tx", STREAM)
    | bus("s_axis_rx", STREAM) | bus("m_axis_rx", STREAM) | bus("s_axil", LITE),
    "inceptionn_compressor": CLOCK
    | bus("s_axis", STREAM) | bus("m_axis", STREAM)
    | {f"cfg_{name}": ("input", 8) for name in ("e0", "t", "b")},
    "inceptionn_decompressor": CLOCK
    | bus("s_axis", STREAM | {"tuser": 16}) | bus("m_axis", STREAM) | {"cfg_b": ("input", 8)},
}  # fmt: skip


SHARED = {
    *(f"{module}.v" for module in PORTS), "registers.json", "registers.md", "inceptionn_registers.h",
    "inceptionn_registers.rdl", "inceptionn_registers.xml", "ports.json", "sources.json", "README.md",
    "manifest.json", "lint.vlt", "out_of_context.tcl", "package_ip.tcl", "project.tcl",
}  # fmt: skip
"""Files of every board's folder."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the VC709's files, written once."""
    out = tmp_path_factory.mktemp("generated") / "new" / "vc709"
    assert cli.main(["generate", "--board", "vc709", "--ports", "1", "--out", str(out)]) == 0
    return out


def test_files(generated: Path) -> None:
    assert {path.name for path in generated.iterdir()} == SHARED | {
        "inceptionn_vc709.v", "inceptionn_vc709.core", "inceptionn_vc709_ooc.xdc", "crossings.tcl",
        "inceptionn_vc709.veo", "mark_debug.tcl", "patch_trd.py",
    }  # fmt: skip
    assert not list(generated.parent.glob(".*"))


@pytest.mark.parametrize("module", PORTS)
def test_ports(module: str, generated: Path) -> None:
    text = (generated / f"{module}.v").read_text()
    head = re.search(rf"^module {module}\((.*?)\);\n(.*?)^endmodule", text, re.DOTALL | re.MULTILINE)
    assert head is not None
    names = [name.strip() for name in head[1].split(",")]
    found: Ports = {}
    declaration = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", re.MULTILINE)
    for direction, high, name in declaration.findall(head[2]):
        found[name] = (direction, int(high) + 1 if high else 1)
    assert names[:2] == ["aclk", "aresetn"]
    assert set(names) == set(found) == set(PORTS[module])
    for name, (direction, width) in PORTS[module].items():
        assert found[name][0] == direction, name
        assert width is None or found[name][1] == width, name


@pytest.mark.parametrize("module", PORTS)
def test_verilog_is_self_contained(module: str, generated: Path) -> None:
    text = (generated / f"{module}.v").read_text()
    defined = set(re.findall(r"^module (\\?\S+?) ?\(", text, re.MULTILINE))
    assert all(name.startswith(module) for name in defined)
    used = set(re.findall(r"^  (\w+) \S+ \($", text, re.MULTILINE))
    assert used
    assert used <= defined
    assert not re.search(r"always_ff|always_comb|\blogic\b", text)
    assert not re.search(r"/(home|root|work|usr|tmp)/", text)


def test_register_map(generated: Path) -> None:
    registers = json.loads((generated / "registers.json").read_text())["registers"]
    markdown = (generated / "registers.md").read_text()
    assert registers
    assert all(f"`{register['name']}`" in markdown for register in registers)


def test_every_module_has_its_source(generated: Path) -> None:
    sources = json.loads((generated / "sources.json").read_text())
    modules = set()
    for path in generated.glob("*.v"):
        modules |= set(re.findall(r"^module (inceptionn\w*)", path.read_text(), re.MULTILINE))
    assert modules - set(sources) <= {"inceptionn_engine_clock"}
    assert sources["inceptionn_nic_core"] == "hdl/nic.py:Nic"
    root = Path(__file__).parents[2]
    for place in sources.values():
        file, _, name = place.partition(":")
        if not file.startswith("amaranth"):
            assert f"class {name.partition('.')[0]}" in (root / file).read_text(), place


@pytest.mark.slow
def test_same_bytes_again(generated: Path, tmp_path: Path) -> None:
    """In a process of its own, with another order of hashes, in another place, over an earlier folder."""
    (tmp_path / "mine.txt").write_text("kept")
    (tmp_path / "old.v").write_text("of another board")
    (tmp_path / "manifest.json").write_text(json.dumps({"files": {"old.v": {}, "../outside": {}}}))
    command = ["generate", "--board", "vc709", "--ports", "1", "--out", str(tmp_path), "--force"]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-m", "inceptionn.cli", *command], check=True, env=environment, cwd="/")
    again = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert again.pop("mine.txt") == b"kept"
    assert again == {path.name: path.read_bytes() for path in generated.iterdir()}


def test_manifest(generated: Path) -> None:
    manifest = json.loads((generated / "manifest.json").read_text())
    assert manifest["board"] == "vc709"
    assert manifest["parameters"] == {
        "ports": 1,
        "clock_ratio": None,
        "engines": 1,
        "lanes": 8,
        "codec": "paper",
    }
    assert manifest["tools"]["yosys"]
    assert set(manifest["files"]) == {path.name for path in generated.iterdir()} - {"manifest.json"}
    for name, entry in manifest["files"].items():
        data = (generated / name).read_bytes()
        assert entry == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@pytest.mark.parametrize("module", [*PORTS, "inceptionn_vc709"])
def test_header(module: str, generated: Path) -> None:
    """Licence, versions, what it was made for, and the hash of the circuit."""
    lines = (generated / f"{module}.v").read_text().splitlines()
    assert lines[:3] == [
        "// SPDX-License-Identifier: BSD-2-Clause",
        "// Parameters: board vc709, ports 1, engines 1, lanes 8, codec paper, stream 256 bits.",
        "// Out of reset: bounded, error bound 2^-10, ToS 0x28 under 0xfc; wire format 1, register map 2.0.",
    ]
    version = re.escape(distribution_version("inceptionn"))
    tools = rf"// Written by inceptionn {version} with Amaranth [\w.]+ and Yosys \S+\. Do not edit\."
    assert re.fullmatch(tools, lines[3])
    assert re.fullmatch("// Source: SHA-256 of its RTLIL [0-9a-f]{64}", lines[4])


def test_source_hash_is_the_circuits() -> None:
    """The same for the same circuit, another for another."""
    first, again, other = (convert(ShifterTree(Width(lanes)), "inceptionn_tree") for lanes in (8, 8, 16))
    assert first == again
    assert first.splitlines()[2] != other.splitlines()[2]


def test_folder_that_is_not_empty_is_kept(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in generated.iterdir()}
    assert cli.main(["generate", "--board", "vc709", "--out", str(generated)]) == 2
    assert "not empty (--force overwrites it)" in capsys.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in generated.iterdir()} == before


def test_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies while files move leaves no folder, and a folder that was there as it was."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="No space left"):
        output_folder.write(tmp_path / "new", {"a": "1"})
    assert list(tmp_path.iterdir()) == []


def test_stale_files_go_and_foreign_files_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for names in (("a", "b"), ("b", "c")):
        files = {name: f"{name} of {names}" for name in names}
        output_folder.write(out, files | {"manifest.json": output_folder.manifest(files, {})})
        (out / "mine").write_text("mine")
    assert sorted(path.name for path in out.iterdir()) == ["b", "c", "manifest.json", "mine"]
    assert (out / "b").read_text() == "b of ('b', 'c')"
    assert list(tmp_path.iterdir()) == [out]
