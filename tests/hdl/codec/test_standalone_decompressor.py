# SPDX-License-Identifier: BSD-2-Clause
"""The decompressor alone: volume on a verilated model."""

import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from bench_modules import bench_module

from inceptionn.hdl.codec.codecs import codec_of
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.codec.standalone_decompressor import StandaloneDecompressor
from inceptionn.sim.models.in_process import INTERFACES
from inceptionn.sim.runner import emit
from inceptionn.sim.verilated import HangError, Pause, VerilatedModule
from inceptionn.wire import CODECS, LANE_BYTES

MODULE = "inceptionn_decompressor"
PAUSES = [Pause(), Pause(0.3, 1), Pause(0.5, 8), Pause(0.05, 200), Pause(0.9, 3)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("lanes", "seed"),
    [
        (8, 0),
        pytest.param(16, 4, marks=pytest.mark.slow),
        *(
            pytest.param(*more, marks=[pytest.mark.slow, pytest.mark.exhaustive])
            for more in ((8, 1), (16, 5))
        ),
    ],
)
def test_volume(lanes: int, seed: int, codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some thousand blocks of every kind through every mix of idle input and back-pressure.

    Before each mix, a reset of 1 to 16 cycles in the middle of others, of which nothing is left.
    """
    blocks = bench_module("support/decompressor_blocks.py", monkeypatch, codec=codec)
    source = random.Random(seed)
    verilog = tmp_path / f"{MODULE}.v"
    verilog.write_text(emit(StandaloneDecompressor(EngineShape.of(lanes, codec)), MODULE))
    interface = replace(INTERFACES[MODULE], data_bytes=LANE_BYTES * lanes)
    with VerilatedModule(verilog, MODULE, seed=seed + 1, interface=interface) as decompressor:
        for idle in PAUSES:
            for back_pressure in PAUSES:
                # `cfg_b` holds for a whole run here; the bench changes it with every block.
                accepted = codec_of(codec).spec.accepted
                base = source.choice([*accepted[:9], *accepted[-14:], source.choice(accepted)])
                decompressor.set(cfg_b=base)
                sent = blocks.mixture(40, base, 0.4, source)
                packets = [(block.data, block.count) for block in sent]
                with suppress(HangError):
                    decompressor.run(packets, idle=idle, cycle_limit=source.randrange(1, 1500))
                decompressor.reset(source.choice((1, 1, 2, source.randint(1, 16))), strict=True)
                (out,) = decompressor.run(packets, idle=idle, back_pressure=back_pressure)
                assert len(out) == len(sent)
                for block, result in zip(sent, out, strict=True):
                    block.check(result.data, result.bad, lanes * LANE_BYTES)
