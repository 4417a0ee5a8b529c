# SPDX-License-Identifier: BSD-2-Clause
"""A NIC whose empty engines are held does the same as one whose engines always run, cycle for cycle."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from inceptionn.hdl.control.registers import parameters_word
from inceptionn.sim.golden import packets
from inceptionn.sim.nic_codec import NIC_CODECS
from inceptionn.sim.replay.payloads import gradients
from inceptionn.sim.replay.performance import segments
from inceptionn.sim.verilated import Output, VerilatedNic
from inceptionn.sim.verilated.gated import gate

pytestmark = pytest.mark.slow  # it builds two more models of the NIC


@pytest.fixture
def pair(nic_verilog: Path) -> Iterator[list[VerilatedNic]]:
    with VerilatedNic(nic_verilog) as free, VerilatedNic(nic_verilog, gated=True) as held:
        assert held.interface.clocks, "the NIC's Verilog is not built as sim/verilated/gated.py expects"
        yield [free, held]


def test_same_frames_in_the_same_cycles(pair: list[VerilatedNic], codec: str) -> None:
    """Calls of one direction, of both, with pauses of thousands of cycles and new settings in between."""
    assert pair[0].cycle == pair[1].cycle
    registers, settings = NIC_CODECS[codec].registers, NIC_CODECS[codec].spec.parameters(7)
    tagged = [frame for mtu in (1500, 700, 200) for frame in segments(gradients, mtu, 9)]
    mixed = [*tagged, *segments(gradients, 1500, 3, tos=0), packets.tcp(bytes(80), sequence=2)]
    out, back = [packets.OPENING, *random.Random(1).sample(mixed, len(mixed))], []
    for number, transmit, receive in (
        (0, out[:10], 0), (1, [], 10), (2, out[10:11], 0), (3, out[11:20], 3), (4, [], 0), (5, out[20:], 7),
    ):  # fmt: skip
        answers: list[tuple[list[Output], list[Output]]] = []
        for nic in pair:
            if number == 3:  # bound 2^-7 from here on
                nic.write(registers["PARAMETERS"].offset, parameters_word(settings))
            if number == 4:  # long enough for both engines to fall asleep
                for _ in range(100):
                    assert nic.read(registers["ID"].offset) == registers["ID"].reset
            answers.append(nic.exchange(transmit, back[:receive], quiet=number % 2 * 500))
        assert answers[0] == answers[1]
        assert pair[0].cycle == pair[1].cycle
        back = [frame.data for frame in answers[0][0]] + back
    words = [register.offset + word for register in registers if register.width == 64 for word in (0, 4)]
    counts = [[nic.read(word) for word in words] for nic in pair]
    assert counts[0] == counts[1]
    assert sum(counts[0]) > 10_000
    assert pair[0].read(registers["TX_COMPRESSED"].offset) > 10


def test_foreign_verilog_is_left_alone() -> None:
    assert gate("module inceptionn_nic(aclk);\n  input aclk;\nendmodule\n") is None
    text = "module inceptionn_nic(aclk);\n  c core (\n    .clk(aclk)\n  );\nendmodule\n"
    assert gate(text) is None
    assert gate(text + "module c(clk);\n  input clk;\nendmodule\n") is None


def test_no_waveform(nic_verilog: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a gated model writes no waveform: '.*x\.vcd'"):
        VerilatedNic(nic_verilog, gated=True, waves=tmp_path / "x.vcd")
