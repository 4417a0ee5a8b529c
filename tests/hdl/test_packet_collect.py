# SPDX-License-Identifier: BSD-2-Clause
"""The collector in simulation."""

from pathlib import Path

from inceptionn.hdl.packet_collect import PacketCollect
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    bench = Path(__file__).with_name("bench_packet_collect.py")
    run_bench(lambda: PacketCollect(2), "packet_collect", bench, parameters={"engines": 2})
