# SPDX-License-Identifier: BSD-2-Clause
"""The shells in simulation, around the engines' own Verilog, each in its target's dialect."""

from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from inceptionn.boards.board import ENGINE, Options
from inceptionn.boards.corundum.shell import CorundumShell
from inceptionn.boards.corundum.target import LINKS
from inceptionn.boards.generate import load_board
from inceptionn.boards.shell_parts import EnginePair, emit
from inceptionn.boards.vc709.shell import Vc709Shell
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.engine.transmit_decision import TransmitDecision
from inceptionn.hdl.nic import Nic
from inceptionn.hdl.verilog import convert
from inceptionn.sim import runner
from inceptionn.sim.nic_codec import NicCodec
from inceptionn.sim.nic_verilog import emit_nic

HERE = Path(__file__).parent


@cache
def engine(shape: EngineShape, engines: int = 1) -> str:
    """Verilog of the engine pair."""
    return emit_nic(shape.codec.name, shape.lanes, engines, shape.bf16)


def simulate(tmp_path: Path, board: str, options: Options, bench: str = "", /, **parameters: Any) -> None:
    """Run a bench, the board's if none is named, on the very Verilog that is generated for it."""
    chosen = load_board(board)
    options = chosen.resolve(options)
    target = chosen.target(chosen, options)
    if target.make is None:
        shell = convert(EnginePair(shape=options.shape, engines=options.engines), "inceptionn_generic")
    else:
        shell = emit(target.make(), target.module)
    # What wraps the shell is simulated with it; the VC709's clock is the bench's.
    source = tmp_path / "source.v"
    source.write_text("\n".join([*(target.sources.values() if target.top else ()), shell]))
    top = target.top or (target.module if target.make else "inceptionn_generic")
    path = HERE / f"bench_{bench or board.replace('-', '_')}.py"
    libraries = {ENGINE: engine(options.shape, options.engines)}
    codec = NicCodec(options.shape.codec.spec, options.bf16).variant
    runner.run_bench(source, top, path, libraries=libraries, parameters={"codec": codec, **parameters})


@pytest.mark.slow
@pytest.mark.parametrize("ports", [4])
def test_vc709(ports: int, tmp_path: Path) -> None:
    simulate(tmp_path, "vc709", Options(ports=ports), ports=ports, ratio=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ratio",
    [Fraction(33, 32), *(pytest.param(Fraction(n, 2), marks=pytest.mark.exhaustive) for n in (5, 8))],
    ids=float,
)
def test_vc709_with_a_slower_engine_clock(ratio: Fraction, tmp_path: Path) -> None:
    """The engines' clock is generated beside the shell; the bench drives both."""
    simulate(tmp_path, "vc709", Options(ports=2, clock_ratio=ratio), ports=2, ratio=float(ratio))


@pytest.mark.parametrize("ratio", [Fraction(5, 2), Fraction(4)], ids=float)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "bf16", [pytest.param(False, id="paper"), pytest.param(True, id="bf16", marks=pytest.mark.exhaustive)]
)
def test_netfpga_sume(bf16: bool, tmp_path: Path) -> None:
    simulate(tmp_path, "netfpga-sume", Options(codec="planes" if bf16 else "paper", bf16=bf16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "bf16"),
    [
        *((64, False), (256, True)),
        *(pytest.param(width, False, marks=pytest.mark.exhaustive) for width in (128, 256, 512)),
    ],
)
def test_corundum(width: int, bf16: bool, tmp_path: Path) -> None:
    codec = "planes" if bf16 else "paper"
    simulate(tmp_path, "corundum", Options(data_width=width, codec=codec, bf16=bf16), width=width)


@pytest.mark.parametrize(("engines", "lanes"), [(1, 8), (2, 8), (1, 16)])
def test_engine_instance_has_the_engines_ports(engines: int, lanes: int) -> None:
    shape = EngineShape.of(lanes)
    assert EnginePair(shape=shape, engines=engines).signature == Nic(shape, engines=engines).signature


def test_refused() -> None:
    refused(ValueError, r"ports must be 1\.\.4, not 5$", Vc709Shell, 5)
    refused(ValueError, r"one of \(8, 16, 32, 64\), not 10$", CorundumShell, 1, data_bytes=10)


LINE_RATE: dict[str, tuple[str, Options]] = {
    "vc709": ("vc709", Options(ports=1)),
    "vc709-ratio": ("vc709", Options(ports=1, clock_ratio=Fraction(4))),
    "netfpga-sume": ("netfpga-sume", Options()),
    **{f"corundum-{width}": ("corundum", Options(data_width=width)) for width in (64, 128, 256, 512)},
    "generic": ("generic", Options()),
    "generic-16-lanes": ("generic", Options(lanes=16)),
}


RARELY = ("vc709-ratio", "corundum-64", "corundum-128", "corundum-256")
"""Others are faster or have the same parts."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in RARELY)) for name in LINE_RATE]
)
def test_untagged_frames_at_line_rate(variant: str, tmp_path: Path) -> None:
    """Every shell with the engines that it gets by default; the slowest clock that the VC709 may have."""
    board, options = LINE_RATE[variant]
    simulate(
        tmp_path, board, options, "line_rate",
        board=board, width=options.data_width, ratio=float(options.clock_ratio or 0),
        pace=TransmitDecision.pace_of(load_board(board).resolve(options).shape),
        links={str(width): link for width, link in LINKS.items()},
    )  # fmt: skip
