# SPDX-License-Identifier: BSD-2-Clause
"""The elastic register in simulation."""

from __future__ import annotations

from pathlib import Path

from inceptionn.hdl.elastic_register import ElasticRegister
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_elastic_register.py")


def test_bench() -> None:
    run_bench(ElasticRegister(33), "elastic_register", BENCH, parameters={"width": 33})
