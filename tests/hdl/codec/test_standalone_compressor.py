# SPDX-License-Identifier: BSD-2-Clause
"""The compressor alone in simulation: the bench on both simulators, and volume on a verilated model."""

import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from bench_modules import bench_module

from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.codec.standalone_compressor import StandaloneCompressor
from inceptionn.sim.models.in_process import INTERFACES
from inceptionn.sim.runner import emit, run_bench
from inceptionn.sim.verilated import HangError, Pause, VerilatedModule
from inceptionn.wire import LANE_BYTES, MAX_LANES

HERE = Path(__file__).parent
BENCH = HERE / "bench_standalone.py"
MODULE = "inceptionn_compressor"
PAUSES = [Pause(), Pause(0.3, 1), Pause(0.5, 8), Pause(0.05, 200), Pause(0.9, 3)]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_bench_on_icarus() -> None:
    """The same bench with a smaller sweep, on a simulator that knows undefined values."""
    parameters = {"part": "standalone_compressor", "short": True}
    run_bench(StandaloneCompressor, MODULE, BENCH, simulator="icarus", parameters=parameters)


@pytest.mark.parametrize("codec", [pytest.param("paper", marks=pytest.mark.slow), "planes"])
@pytest.mark.parametrize("lanes", [8, 16])
def test_volume(lanes: int, codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of every setting, length and kind through every mix of idle input and back-pressure.

    Before each, a reset of 1 to 16 cycles in the middle of others, of which nothing is left.
    """
    seed = 0
    blocks = bench_module("support/compressor_blocks.py", monkeypatch, codec=codec)
    source = random.Random(seed)
    verilog = tmp_path / f"{MODULE}.v"
    verilog.write_text(emit(StandaloneCompressor(EngineShape.of(lanes, codec)), MODULE))
    mixes = [(idle, back_pressure) for idle in PAUSES for back_pressure in PAUSES]
    more = 2 * len(mixes) - len(blocks.ALL_PARAMETERS)
    settings = [*blocks.ALL_PARAMETERS, *(blocks.any_parameters(source) for _ in range(more))]
    source.shuffle(settings)
    interface = replace(INTERFACES[MODULE], data_bytes=LANE_BYTES * lanes)
    with VerilatedModule(verilog, MODULE, seed=seed + 1, interface=interface) as compressor:
        for params, (idle, back_pressure) in zip(settings, mixes * 2, strict=True):
            compressor.set(cfg_e0=params.e0, cfg_t=params.t, cfg_b=params.b)
            counts = [blocks.some_length(source) for _ in range(20)]
            counts += [source.choice(blocks.LENGTHS), source.randint(MAX_LANES - 8, MAX_LANES + 8)]
            source.shuffle(counts)
            sent = [blocks.some_lanes(count, params, source) for count in counts]
            packets = [values.astype("<u4").tobytes() for values in sent]
            with suppress(HangError):
                compressor.run(packets, idle=idle, cycle_limit=source.randrange(1, 1500))
            compressor.reset(source.choice((1, 1, 2, source.randint(1, 16))), strict=True)
            (out,) = compressor.run(packets, idle=idle, back_pressure=back_pressure)
            assert len(out) == len(sent)
            for values, result in zip(sent, out, strict=True):
                expected = blocks.block_of(values[:MAX_LANES], params)
                assert result.data == expected, f"{len(values)} lanes with {params}"
                assert result.bad == (len(values) > MAX_LANES)
