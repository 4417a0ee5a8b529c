# SPDX-License-Identifier: BSD-2-Clause
"""The width adapters in simulation, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from inceptionn.hdl.width_adapter import Narrower, Widener
from inceptionn.sim.runner import run_bench

BENCH = Path(__file__).with_name("bench_width_adapter.py")


@pytest.mark.parametrize("widens", [True, False])
@pytest.mark.parametrize(("narrow", "wide"), [(8, 32)])
def test_bench(narrow: int, wide: int, widens: bool) -> None:
    adapter = Widener(narrow, wide) if widens else Narrower(wide, narrow)
    parameters = {"narrow": narrow, "wide": wide, "widens": widens}
    run_bench(adapter, "width_adapter", BENCH, parameters=parameters)


@pytest.mark.parametrize(("narrow", "wide"), [(8, 8), (32, 8), (8, 20), (8, 24), (0, 8)])
def test_widths_refused(narrow: int, wide: int) -> None:
    with pytest.raises(ValueError, match=rf"not \({narrow}, {wide}\)$"):
        Widener(narrow, wide)
    with pytest.raises(ValueError, match=rf"not \({narrow}, {wide}\)$"):
        Narrower(wide, narrow)
