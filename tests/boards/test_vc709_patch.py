# SPDX-License-Identifier: BSD-2-Clause
"""The patch procedure, on a miniature top file of our own with the reference design's net names."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ended

from inceptionn.boards.board import Options
from inceptionn.boards.port_table import port_table
from inceptionn.boards.templates import text
from inceptionn.boards.vc709.target import BOARD
from inceptionn.hdl.yosys import find_yosys

TWICE = "assign px_axi_str_wr_tdata[0] = axi_str_s2c0_app_tdata;"
SIGNALS = {"tdata": 256, "tkeep": 32, "tvalid": 1, "tlast": 1, "tready": 1}


def net(port: int, way: str, signal: str) -> str:
    return f"axi_str_{way}{port}_{'app_' if port == 0 else ''}{signal}"


def miniature() -> str:
    """Four ports between a DMA and a FIFO; the nets have the names of the facts, nothing else does."""
    lines = ["// a line with px_axi_str_wr_tdata[0] = in a comment", "module miniature ("]
    lines += ["  input user_clk,"]
    lines += [f"  input {way}{n}_aresetn," for n in range(4) for way in ("s2c", "c2s")]
    lines += ["  input [255:0] unused", ");"]
    for kind in ("wr", "rd"):
        for signal, width in SIGNALS.items():
            lines.append(f"wire [{width - 1}:0] px_axi_str_{kind}_{signal} [7:0];")
    for n in range(4):
        for way in ("s2c", "c2s"):
            for signal, width in SIGNALS.items():
                lines.append(f"wire [{width - 1}:0] {net(n, way, signal)};")
    for n in range(4):
        for signal in SIGNALS:
            s2c, wr = net(n, "s2c", signal), f"px_axi_str_wr_{signal}[{2 * n}]"
            c2s, rd = net(n, "c2s", signal), f"px_axi_str_rd_{signal}[2*{n}+1]"
            forward = signal != "tready"
            lines.append(f"assign {wr} = {s2c};" if forward else f"assign {s2c} = {wr};")
            lines.append(f"assign {c2s}  =  {rd} ;\t// kept" if forward else f"assign {rd} = {c2s};")
    return "\r\n".join([*lines, "endmodule", "module other; endmodule", ""])


@pytest.fixture(scope="module", params=[{}, {"ports": 1, "clock_ratio": "5/2"}], ids=["4 ports", "ratio"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the script and the port list beside it, as in a generated folder."""
    from fractions import Fraction

    choice = dict(request.param)
    if "clock_ratio" in choice:
        choice["clock_ratio"] = Fraction(choice["clock_ratio"])
    target = BOARD.target(BOARD, BOARD.resolve(Options(**choice)))
    assert target.make is not None
    path = tmp_path_factory.mktemp("vc709")
    (path / "patch_trd.py").write_text(text("vc709/patch_trd.py"))
    (path / "ports.json").write_text(json.dumps({"ports": port_table(target.make(), has_clocks=True)}))
    return path


def patch(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return ended(sys.executable, "-I", folder / "patch_trd.py", *arguments)


def test_patch_and_undo(folder: Path, tmp_path: Path) -> None:
    top = tmp_path / "top.v"
    top.write_bytes(miniature().encode())
    before = top.read_bytes()
    dry = patch(folder, "--dry-run", top)
    assert dry.returncode == 0, dry.stderr
    assert "- assign px_axi_str_wr_tdata[0] = axi_str_s2c0_app_tdata;\n" in dry.stdout
    assert "+ assign px_axi_str_wr_tdata[0] = inceptionn_s2c0_tdata;\n" in dry.stdout
    assert top.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["top.v"]
    done = patch(folder, top)
    assert done.returncode == 0, done.stderr
    after = top.read_text()
    ports = json.loads((folder / "ports.json").read_text())["ports"]
    connected = dict(re.findall(r"^    \.(\w+)\((.*?)\)", after, re.MULTILINE))
    assert set(connected) == {port["name"] for port in ports}
    last = sum(name.startswith("s_axis_s2c") and name.endswith("tdata") for name in connected) - 1
    n = last
    assert connected[f"s_axis_s2c{n}_tdata"] == net(n, "s2c", "tdata")
    assert connected[f"m_axis_s2c{n}_tready"] == f"px_axi_str_wr_tready[{2 * n}]"
    assert connected[f"s_axis_c2s{n}_tdata"] == f"px_axi_str_rd_tdata[2*{n}+1]"
    assert connected[f"m_axis_c2s{n}_tready"] == net(n, "c2s", "tready")
    assert f"assign px_axi_str_wr_tdata[{2 * n}] = inceptionn_s2c{n}_tdata;" in after
    assert f"assign {net(n, 's2c', 'tready')} = inceptionn_s2c{n}_tready;" in after
    # The register bus answers while the DMA engines are in reset.
    assert connected["s_axil_aresetn"] == "1'b1"
    again = patch(folder, top)
    assert again.returncode == 1
    assert "holds the shell already" in again.stderr
    undone = patch(folder, "--undo", top)
    assert undone.returncode == 0, undone.stderr
    assert top.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["top.v"]


def test_a_folder_in_place_of_the_file(folder: Path, tmp_path: Path) -> None:
    """The one file with the nets is found; none, or two, are refused."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "other.v").write_text("module other; endmodule\n")
    assert patch(folder, sources).stderr.endswith(
        "sources: not recognised: 0 Verilog files in it have nets px_axi_str_wr_tdata; name the file\n"
    )
    (sources / "top.v").write_text(miniature())
    assert f"{sources}/top.v: patched: " in patch(folder, sources).stdout
    (sources / "second.v").write_text(miniature())
    assert (
        "2 Verilog files in it have nets px_axi_str_wr_tdata: second.v, top.v"
        in patch(folder, sources).stderr
    )


def test_a_name_that_a_terminal_would_obey(folder: Path, tmp_path: Path) -> None:
    top = tmp_path / "t\x1b[31m\n.v"
    assert r"t\x1b[31m\n.v: No such file" in patch(folder, top).stderr
    top.write_text(miniature())
    assert patch(folder, top).stdout.startswith(f"{tmp_path}/t\\x1b[31m\\n.v: patched: ")


def test_patched_file_is_whole_verilog(folder: Path, tmp_path: Path) -> None:
    """Yosys elaborates the patched file around the shell's ports: every net is declared, every width fits."""
    top = tmp_path / "top.v"
    top.write_text(miniature())
    assert patch(folder, top).returncode == 0
    ports = json.loads((folder / "ports.json").read_text())["ports"]
    lines = [f"  {port['direction']} [{port['width'] - 1}:0] {port['name']}" for port in ports]
    shell = "(* blackbox *) module inceptionn_vc709 (\n" + ",\n".join(lines) + "\n);\nendmodule\n"
    yosys = find_yosys()
    clock = "module inceptionn_engine_clock(input user_clk, output engine_clk, output engine_aresetn);"
    sources = f"{shell}\n(* blackbox *) {clock} endmodule\n{top.read_text()}"
    script = f"read_verilog <<v\n{sources}\nv\nhierarchy -check -top miniature\n"
    said = yosys.run(["-Q", "-"], script, ignore_warnings=True)
    assert "implicitly declared" not in said


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("axi_str_s2c0_app_tlast;", "other;", "no statement assigns axi_str_s2c0_app_tlast to px_"),
        ("endmodule\r\nmodule other", f"{TWICE}\r\nendmodule\r\nmodule other", "2 statements assign axi_"),
        ("c2s0_aresetn", "c2s0_reset", "there is no net c2s0_aresetn (see --clock, --reset and --bus-reset)"),
        ("user_clk", "clock", "there is no net user_clk"),
    ],
)  # fmt: skip
def test_other_trees_are_refused(folder: Path, tmp_path: Path, old: str, new: str, reason: str) -> None:
    top = tmp_path / "top.v"
    top.write_bytes(miniature().replace(old, new).encode())
    before = top.read_bytes()
    done = patch(folder, top)
    assert done.returncode == 1
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert top.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["top.v"]


def test_the_register_bus_takes_a_reset_of_its_own(folder: Path, tmp_path: Path) -> None:
    top = tmp_path / "top.v"
    top.write_bytes(miniature().encode())
    assert "there is no net bus_resetn" in patch(folder, "--bus-reset", "bus_resetn", top).stderr
    assert patch(folder, "--bus-reset", "s2c0_aresetn", top).returncode == 0
    assert ".s_axil_aresetn(s2c0_aresetn)" in top.read_text()


def test_undo_refuses_a_changed_file(folder: Path, tmp_path: Path) -> None:
    top = tmp_path / "top.v"
    top.write_bytes(miniature().encode())
    assert "nothing to undo" in patch(folder, "--undo", top).stderr
    assert patch(folder, top).returncode == 0
    top.write_text(top.read_text() + "// mine\n")
    done = patch(folder, "--undo", top)
    assert done.returncode == 1
    assert "was changed after the patch" in done.stderr


def test_missing_file(folder: Path, tmp_path: Path) -> None:
    done = patch(folder, tmp_path / "none.v")
    assert done.returncode == 1
    assert "No such file" in done.stderr


def test_a_link_stays_and_modes_too(folder: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "top.v", tmp_path / "top.v"
    real.parent.mkdir()
    real.write_text(miniature())
    real.chmod(0o640)
    link.symlink_to(real)
    before = real.read_bytes()
    assert patch(folder, link).returncode == 0
    kept = real.with_name("top.v.before-inceptionn")
    assert link.is_symlink()
    assert kept.read_bytes() == before
    assert [oct(path.stat().st_mode & 0o777) for path in (real, kept)] == ["0o640", "0o640"]
    assert patch(folder, "--undo", link).returncode == 0
    assert (link.is_symlink(), real.read_bytes(), oct(real.stat().st_mode & 0o777)) == (True, before, "0o640")
    assert [path.name for path in real.parent.iterdir()] == ["top.v"]


@pytest.mark.parametrize(
    ("ports", "reason"),
    [
        ("{", "ports.json beside this script is damaged"),
        ('{"ports": [1]}', "ports.json beside this script is damaged"),
        ("[" * 60_000, "ports.json beside this script is damaged"),
        ('{"ports": []}', "ports.json beside this script is not of the VC709's shell"),
        (None, "ports.json: No such file"),
    ],
    ids=["cut", "wrong type", "deep", "another shell", "missing"],
)
def test_a_wrong_port_list_is_one_line(tmp_path: Path, ports: str | None, reason: str) -> None:
    (tmp_path / "patch_trd.py").write_text(text("vc709/patch_trd.py"))
    if ports is not None:
        (tmp_path / "ports.json").write_text(ports)
    top = tmp_path / "top.v"
    top.write_text(miniature())
    done = patch(tmp_path, top)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert reason in done.stderr


@pytest.mark.parametrize("reset", ["{", "{0}", "{way!x}", "{other}"])
def test_a_wrong_reset_is_one_line(folder: Path, tmp_path: Path, reset: str) -> None:
    top = tmp_path / "top.v"
    top.write_text(miniature())
    done = patch(folder, "--reset", reset, top)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"there is no net {reset}" in done.stderr
