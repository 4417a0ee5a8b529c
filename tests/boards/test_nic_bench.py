# SPDX-License-Identifier: BSD-2-Clause
"""The example's bench of the NIC, on Icarus."""

import re
from pathlib import Path

import pytest

from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.nic import Nic
from inceptionn.sim.models.tools import find_icarus, run_tool
from inceptionn.sim.runner import emit

BENCH = Path(__file__).parents[2] / "examples" / "verilog" / "nic_tb.v"


@pytest.mark.parametrize(
    ("codec", "lanes"), [("paper", 8), pytest.param("planes", 1, marks=pytest.mark.slow)]
)
def test_example_bench_of_the_nic_on_icarus(codec: str, lanes: int, tmp_path: Path) -> None:
    """Three packets pass the NIC and come back; a bench that expects another mark of them says so."""
    (tmp_path / "nic.v").write_text(emit(Nic(EngineShape.of(lanes, codec)), "inceptionn_nic"))

    def run(source: Path) -> list[str]:
        model = tmp_path / "tb"
        width = ("-P", f"nic_tb.BYTES={4 * lanes}", "-P", "nic_tb.VALUES=100")
        run_tool([find_icarus(), "-g2005", *width, "-o", model, source, tmp_path / "nic.v"])
        return run_tool([model]).splitlines()

    untagged, tagged, vlan, last = run(BENCH)
    assert untagged == "untagged: 442 bytes, 442 on the wire"
    assert re.fullmatch(r" *tagged: 442 bytes, (\d+) on the wire", tagged)
    assert re.fullmatch(r" *in a VLAN: 446 bytes, (\d+) on the wire", vlan)
    assert last == "PASS"
    other = tmp_path / "other.v"
    other.write_text(BENCH.read_text().replace("TAG = 8'h28", "TAG = 8'h68"))
    assert run(other)[-1] == "FAIL: the frame's length on the wire is wrong"
