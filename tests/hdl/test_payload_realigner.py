# SPDX-License-Identifier: BSD-2-Clause
"""The payload realigner in simulation."""

from pathlib import Path

from inceptionn.hdl.payload_realigner import PayloadRealigner
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(PayloadRealigner, "payload_realigner", Path(__file__).with_name("bench_payload_realigner.py"))
