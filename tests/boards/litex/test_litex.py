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

from inceptionn.boards.board import Options, Target
from inceptionn.boards.generate import load_board
from inceptionn.boards.port_table import port_table

HERE = Path(__file__).parent
needs_litex = pytest.mark.skipif(find_spec("litex") is None, reason="pip install 'inceptionn[litex]'")
each_lanes = pytest.mark.parametrize("lanes", [1, 8])


def target(lanes: int | None) -> Target:
    board = load_board("litex")
    return board.target(board, board.resolve(Options(lanes=lanes)))


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
    assert len(re.findall(r"inceptionn_\w+\.v", (out / "gateware" / f"{verilog.stem}.ys").read_text())) == 2


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
