# SPDX-License-Identifier: BSD-2-Clause
"""The payload realigner in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.payload_realigner import PayloadRealigner
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_payload_realigner.py")
    run_bench(PayloadRealigner(lanes=lanes), "payload_realigner", bench, parameters={"lanes": lanes})
