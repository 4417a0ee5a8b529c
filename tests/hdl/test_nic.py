# SPDX-License-Identifier: BSD-2-Clause
"""The whole NIC in simulation; with ``EXHAUSTIVE=1`` also on Icarus, which takes minutes."""

from pathlib import Path

import pytest

from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.nic import Nic
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_nic.py")


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["verilator", pytest.param("icarus", marks=pytest.mark.exhaustive)])
def test_bench(simulator: str) -> None:
    run_bench(Nic, "inceptionn_nic", BENCH, simulator=simulator, parameters={"brief": simulator == "icarus"})


@pytest.mark.slow
def test_bench_of_one_lane() -> None:
    run_bench(lambda: Nic(EngineShape.of(1)), "inceptionn_nic", BENCH, parameters={"lanes": 1})


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("engines", [2, 4])
def test_bench_of_several_engines(engines: int) -> None:
    run_bench(lambda: Nic(engines=engines), "inceptionn_nic", BENCH, parameters={"engines": engines})
