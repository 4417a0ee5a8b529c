# SPDX-License-Identifier: BSD-2-Clause
"""The shells in simulation, around the engines' own Verilog, each in its target's dialect."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from inceptionn.boards.board import ENGINE, Options
from inceptionn.boards.generate import load_board
from inceptionn.boards.shells.common import EnginePair, emit
from inceptionn.boards.shells.corundum import CorundumShell
from inceptionn.boards.shells.vc709 import Vc709Shell
from inceptionn.hdl.nic import Nic
from inceptionn.sim import runner

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def engine() -> str:
    """Verilog of the engine pair."""
    return runner.emit(Nic, ENGINE)


def simulate(engine: str, tmp_path: Path, board: str, options: Options, **parameters: Any) -> None:
    """Runs the board's bench on the very Verilog that is generated for it."""
    chosen = load_board(board)
    target = chosen.target(chosen, chosen.resolve(options))
    assert target.make is not None
    shell = tmp_path / "shell.v"
    shell.write_text("\n".join([*target.sources.values(), emit(target.make(), target.module)]))
    bench = HERE / f"bench_{board.replace('-', '_')}.py"
    top = target.top or target.module
    runner.run_bench(shell, top, bench, libraries={ENGINE: engine}, parameters=parameters)


@pytest.mark.parametrize("ports", [4])
def test_vc709(ports: int, engine: str, tmp_path: Path) -> None:
    simulate(engine, tmp_path, "vc709", Options(ports=ports), ports=ports, ratio=0)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [Fraction(33, 32), Fraction(5, 2), Fraction(25, 4)], ids=float)
def test_vc709_with_a_slower_engine_clock(ratio: Fraction, engine: str, tmp_path: Path) -> None:
    """The engines' clock is generated beside the shell; the bench drives both."""
    shell = tmp_path / "shell.v"
    shell.write_text(emit(Vc709Shell(2, engine_clock=True), "inceptionn_vc709"))
    parameters = {"ports": 2, "ratio": float(ratio)}
    bench = HERE / "bench_vc709.py"
    runner.run_bench(shell, "inceptionn_vc709", bench, libraries={ENGINE: engine}, parameters=parameters)


@pytest.mark.parametrize("ratio", [Fraction(5, 2), Fraction(25, 4)], ids=float)
def test_engine_clock(ratio: Fraction, tmp_path: Path) -> None:
    """On Icarus, whose time has no steps; the MMCM is a model of what UG472 says of its status."""
    chosen = load_board("vc709")
    target = chosen.target(chosen, chosen.resolve(Options(clock_ratio=ratio)))
    module = "inceptionn_engine_clock"
    source = tmp_path / f"{module}.v"
    source.write_text("`timescale 1ps / 1ps\n" + target.sources[f"{module}.v"])
    libraries = {"MMCME2_BASE": (HERE / "mmcm_model.v").read_text()}
    runner.run_bench(
        source, module, HERE / "bench_engine_clock.py", simulator="icarus", libraries=libraries,
        parameters={"ratio": float(ratio)},
    )  # fmt: skip


def test_netfpga_sume(engine: str, tmp_path: Path) -> None:
    simulate(engine, tmp_path, "netfpga-sume", Options())


@pytest.mark.slow
@pytest.mark.parametrize("width", [64, 128, 256, 512])
def test_corundum(width: int, engine: str, tmp_path: Path) -> None:
    simulate(engine, tmp_path, "corundum", Options(data_width=width), width=width)


@pytest.mark.parametrize(("engines", "lanes"), [(1, 8), (2, 8), (1, 16)])
def test_engine_instance_has_the_engines_ports(engines: int, lanes: int) -> None:
    assert EnginePair(engines=engines, lanes=lanes).signature == Nic(engines=engines, lanes=lanes).signature


def test_refused() -> None:
    with pytest.raises(ValueError, match=r"ports must be 1\.\.4, not 5$"):
        Vc709Shell(5)
    with pytest.raises(ValueError, match=r"one of \(8, 16, 32, 64\), not 10$"):
        CorundumShell(1, data_bytes=10)
