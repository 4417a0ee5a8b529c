# SPDX-License-Identifier: BSD-2-Clause
"""The example's bench of the NIC, on Icarus."""

import re
import subprocess
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
    """Three packets pass the NIC and come back. Another mark, another width and unknown bits are failures."""
    (tmp_path / "nic.v").write_text(emit(Nic(EngineShape.of(lanes, codec)), "inceptionn_nic"))
    model, bench = tmp_path / "tb", BENCH.read_text()

    def run(source: str, width: int = 4 * lanes) -> subprocess.CompletedProcess[str]:
        (tmp_path / "tb.v").write_text(source)
        parameters = ("-P", f"nic_tb.BYTES={width}", "-P", "nic_tb.VALUES=100")
        run_tool([find_icarus(), "-g2005", *parameters, "-o", model, tmp_path / "tb.v", tmp_path / "nic.v"])
        return subprocess.run([model], capture_output=True, text=True, check=False)

    def failure(source: str, width: int = 4 * lanes) -> str:
        done = run(source, width)
        assert done.returncode == 1
        (why,) = re.findall("^FATAL: .*: (.*)$", done.stdout + done.stderr, re.MULTILINE)
        return str(why)

    passed = run(bench)
    untagged, tagged, vlan, last = passed.stdout.splitlines()
    assert passed.returncode == 0
    assert untagged == "untagged: 442 bytes, 442 on the wire"
    assert re.fullmatch(r" *tagged: 442 bytes, (\d+) on the wire", tagged)
    assert re.fullmatch(r" *in a VLAN: 446 bytes, (\d+) on the wire", vlan)
    assert last == "PASS"
    marked = bench.replace("TAG = 8'h28", "TAG = 8'h68")
    assert failure(marked) == "the frame's length on the wire is wrong"
    assert failure(bench, 8 * lanes) == failure(bench, 2 * lanes) == "wrong BYTES for this NIC's width"
    unknown = bench.replace(".aresetn(aresetn)", ".aresetn(1'bx)").replace("(200000)", "(2000)")
    assert failure(unknown) == "a port does not answer"
    data = bench.replace(".m_axis_rx_tdata(rx_data)", ".m_axis_rx_tdata()")
    assert failure(data) == "a header has changed"
