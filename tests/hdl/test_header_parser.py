# SPDX-License-Identifier: BSD-2-Clause
"""The header parser of both engines in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.header_parser import HeaderParser
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_header_parser.py")


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("transmit", [True, False], ids=["transmit", "receive"])
def test_bench(transmit: bool, lanes: int) -> None:
    parameters = {"transmit": transmit, "lanes": lanes}
    run_bench(HeaderParser(**parameters), "header_parser", BENCH, parameters=parameters)
