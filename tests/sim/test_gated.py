# SPDX-License-Identifier: BSD-2-Clause
"""A NIC whose empty engines are held does the same as one whose engines always run, cycle for cycle."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from inceptionn.hdl.control.registers import parameters_word
from inceptionn.sim.golden import packets
from inceptionn.sim.nic_codec import NIC_CODECS
from inceptionn.sim.verilated import Output, VerilatedNic
from inceptionn.sim.verilated.gated import gate

pytestmark = pytest.mark.slow  # it builds two more models of the NIC


@pytest.fixture
def pair(nic_verilog: Path) -> Iterator[list[VerilatedNic]]:
    with VerilatedNic(nic_verilog) as free, VerilatedNic(nic_verilog, gated=True) as held:
        assert held.interface.clocks, "the NIC's Verilog is not built as sim/verilated/gated.py expects"
        yield [free, held]


def frames(seed: int, count: int, values: int) -> list[bytes]:
    """Tagged TCP frames of gradient-like values, some of them odd, and untagged ones."""
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether

    source, made = np.random.default_rng(seed), []
    for number in range(count):
        tos = 0x28 if source.random() < 0.8 else 0
        sequence = number * 4 * values + (source.random() < 0.1)
        head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(
            src="10.0.0.1", dst="10.0.0.2", tos=tos
        )
        payload = source.laplace(scale=3e-3, size=int(source.integers(0, values + 1))).astype("<f4").tobytes()
        made.append(bytes(head / TCP(sport=1, dport=2, flags="A", seq=sequence) / payload))
    return made


def test_same_frames_in_the_same_cycles(pair: list[VerilatedNic], codec: str) -> None:
    """Calls of one direction, of both, with pauses of thousands of cycles and new settings in between."""
    assert pair[0].cycle == pair[1].cycle
    registers, settings = NIC_CODECS[codec].registers, NIC_CODECS[codec].spec.parameters(7)
    opening = packets.tcp(b"", sequence=-1, source_port=1, destination_port=2, flags=packets.SYN)
    out, back = [opening, *frames(1, 30, 362)], []
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
    counts = [
        [
            nic.read(register.offset + word)
            for register in registers
            if register.width == 64
            for word in (0, 4)
        ]
        for nic in pair
    ]
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
