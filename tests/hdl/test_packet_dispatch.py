# SPDX-License-Identifier: BSD-2-Clause
"""The dispatcher in simulation, and what it refuses."""

from pathlib import Path

import pytest

from inceptionn.hdl.packet_dispatch import PacketDispatch
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(
        lambda: PacketDispatch(2, flows=True), "packet_dispatch",
        Path(__file__).with_name("bench_packet_dispatch.py"), parameters={"engines": 2, "flows": True},
    )  # fmt: skip


@pytest.mark.parametrize("engines", [0, 1, 3, 8, "2"])
def test_engines_are_checked(engines: int) -> None:
    with pytest.raises(ValueError, match=f"engines side by side must be 2 or 4, not {engines!r}"):
        PacketDispatch(engines, flows=False)
