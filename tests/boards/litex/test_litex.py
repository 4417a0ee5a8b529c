# SPDX-License-Identifier: BSD-2-Clause
"""What a LiteX design makes of the folder. The package itself never imports LiteX."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from refusals import refused

from inceptionn.boards.board import ENGINE, Options, Target
from inceptionn.boards.generate import load_board
from inceptionn.boards.port_table import port_table
from inceptionn.boards.shell_parts import emit
from inceptionn.hdl.verilog import to_rtlil
from inceptionn.sim import runner
from inceptionn.sim.nic_verilog import emit_nic

HERE = Path(__file__).parent
needs_litex = pytest.mark.skipif(find_spec("litex") is None, reason="pip install 'inceptionn[litex]'")
each_lanes = pytest.mark.parametrize("lanes", [1, 8])


def target(lanes: int | None, codec: str = "paper") -> Target:
    board = load_board("litex")
    return board.target(board, board.resolve(Options(lanes=lanes, codec=codec)))


def written(lanes: int, folder: Path) -> Path:
    """Write the Python files alone: LiteX reads no Verilog before a build."""
    folder.mkdir()
    for name, text in target(lanes).extras.items():
        (folder / name).write_text(text)
    return folder


def litex(*arguments: object) -> str:
    """Run a Python program with LiteX, whose import warns; return what it printed."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_one_lane_is_the_default() -> None:
    assert target(None).context["width"] == 32


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (Options(lanes=16), r"^lanes of litex must be 1 or 8, as its streams carry no more, not 16$"),
        (Options(engines=2), r"^engines of litex must be at most 1, as its streams carry no more, not 2$"),
        (Options(ports=2), r"^ports cannot be chosen for litex: 2$"),
    ],
)
def test_refused(options: Options, text: str) -> None:
    refused(ValueError, text, load_board("litex").resolve, options)


def block_rams(rtlil: str) -> int:
    """Count the block RAMs of an ECP5, 512 x 36 bits or narrower and deeper, of all large memories."""
    found = 0
    for width, size in re.findall(r"^  memory width (\d+) size (\d+) ", rtlil, re.MULTILINE):
        shapes = ((36 >> n, 512 << n) for n in range(3))
        if int(width) * int(size) >= 2048:  # smaller ones become LUTs
            found += min(-(-int(width) // bits) * -(-int(size) // words) for bits, words in shapes)
    return found


@pytest.mark.parametrize("codec", ["paper", "planes"])
def test_the_memories_fit_a_5a_75b(codec: str) -> None:
    """Its LFE5U-25F has 56 block RAMs, of which LiteEth's MACs take none."""
    shell = target(1, codec)
    assert shell.make is not None
    assert 40 < block_rams(to_rtlil(shell.make(), shell.module, has_clocks=True)) <= 56


@needs_litex
@each_lanes
def test_a_soc_is_elaborated(lanes: int, tmp_path: Path) -> None:
    """Two NICs: csr.csv lists both regions, and the instances have the shell's ports, each connected."""
    folder, out = written(lanes, tmp_path / "folder"), tmp_path / "out"
    litex(HERE / "soc.py", folder, out)
    regions = re.findall(r"^memory_region,(\w+),(\w+),(\d+),io$", (out / "csr.csv").read_text(), re.MULTILINE)
    assert ("inceptionn", "0x00100000", "4096") in regions
    assert ("second", "0x00400000", "4096") in regions
    (verilog,) = (out / "gateware").glob("*.v")
    shell = target(lanes)
    assert shell.make is not None
    ports = {port["name"]: port["width"] for port in port_table(shell.make(), True)}
    instances = re.findall(r"^inceptionn_litex \w+\((.*?)^\);", verilog.read_text(), re.MULTILINE | re.DOTALL)
    assert len(instances) == 2
    for instance in instances:
        assert set(re.findall(r"\.(\w+)\s*\(", instance)) == set(ports)
    sources = re.findall(r"(inceptionn_\w+)\.v", (out / "gateware" / f"{verilog.stem}.ys").read_text())
    assert sources == ["inceptionn_nic", "inceptionn_litex"][lanes == 1 :]


@needs_litex
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--revision", "9.9"), "revision of colorlight_5a_75x must be one of 7.0, 8.0,"),
        (("--board", "versa_ecp5", "--revision", "7.0"), "versa_ecp5 must be one of LFE5UM5G, LFE5UM,"),
        (("--board", "ulx3s"), "invalid choice: 'ulx3s'"),
    ],
)
def test_a_target_is_refused(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    program = written(1, tmp_path / "folder") / "target.py"
    done = subprocess.run(
        [sys.executable, program, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("target.py: error: ")
    assert text in done.stderr.splitlines()[-1]


@needs_litex
@pytest.mark.parametrize(
    ("board", "revision", "ports", "lanes"),
    [
        ("colorlight_5a_75x", "7.0", 26, 1),
        ("colorlight_5a_75x", "8.0", 26, 1),
        ("colorlight_5a_75x", "5a-75e-6.0", 27, 1),
        ("colorlight_5a_75x", "5a-75e-7.1", 27, 1),
        ("versa_ecp5", "LFE5UM5G", 30, 1),
        ("versa_ecp5", "LFE5UM5G", 30, 8),
    ],
)
def test_a_target_is_written(board: str, revision: str, ports: int, lanes: int, tmp_path: Path) -> None:
    """No pin has two ports; csr.csv lists the registers and both MACs."""
    folder, out = written(lanes, tmp_path / "folder"), tmp_path / "out"
    litex(
        folder / "target.py", "--board", board, "--revision", revision, "--build", "--no-compile-gateware",
        "--output-dir", out, "--csr-csv", out / "csr.csv",
    )  # fmt: skip
    csr = (out / "csr.csv").read_text()
    assert "memory_region,inceptionn,0x00100000,4096,io" in csr
    assert "csr_base,host_mac," in csr
    assert "csr_base,network_mac," in csr
    (constraints,) = (out / "gateware").glob("*.lpf")
    pins = re.findall(r'^LOCATE COMP "(.*)" SITE "(.*)";$', constraints.read_text(), re.MULTILINE)
    assert len({pin for _, pin in pins}) == len(pins)
    assert len([port for port, _ in pins if port.startswith("eth")]) == ports


@needs_litex
@pytest.mark.slow
@pytest.mark.parametrize(
    ("lanes", "codec", "datapath"), [(1, "planes", "sys"), (1, "paper", "phy"), (8, "paper", "phy")]
)
def test_between_two_macs(lanes: int, codec: str, datapath: str, tmp_path: Path) -> None:
    """Octets with preamble and FCS on both sides, against the golden model."""
    shell = target(lanes, codec)
    assert shell.make is not None
    source = tmp_path / "mac_loop.v"
    litex(HERE / "mac_loop.py", written(lanes, tmp_path / "folder"), source, datapath)
    source.write_text("\n".join([source.read_text(), emit(shell.make(), shell.module)]))
    libraries = {} if lanes == 1 else {ENGINE: emit_nic(codec, lanes)}
    runner.run_bench(
        source, "mac_loop", HERE / "bench_mac_loop.py", libraries=libraries,
        parameters={"codec": codec, "lanes": lanes},
    )  # fmt: skip


def test_the_package_imports_no_litex() -> None:
    """With LiteX out of reach, the folder's texts are the same."""
    code = (
        "import json, sys\n"
        "for name in ('litex', 'liteeth', 'migen', 'litex_boards'): sys.modules[name] = None\n"
        "from inceptionn.boards.board import Options\n"
        "from inceptionn.boards.generate import load_board\n"
        "board = load_board('litex')\n"
        "print(json.dumps(board.target(board, board.resolve(Options(lanes=1))).extras))\n"
    )
    assert json.loads(litex("-c", code)) == target(1).extras
