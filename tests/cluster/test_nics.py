# SPDX-License-Identifier: BSD-2-Clause
"""The three kinds of NIC: the golden one and the RTL do the same, frames and every register."""

from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refused

from inceptionn.hdl.control.registers import REGISTERS
from inceptionn.sim.capture import read_pcap
from inceptionn.sim.cluster.nics import GoldenNic, PlainNic, RtlNic, parse_codecs, parse_kinds, set_bound
from inceptionn.sim.nic_options import variants

VECTORS = Path(__file__).parent.parent / "vectors"


@pytest.mark.parametrize(
    ("codec", "prefix"),
    [
        ("paper", ""),
        pytest.param("planes", "planes_", marks=pytest.mark.slow),
        pytest.param("planes-bf16", "bf16_", marks=pytest.mark.slow),
    ],
)
def test_golden_and_rtl_agree_frame_by_frame_and_in_every_counter(
    verilog_of: Callable[[str], Path], codec: str, prefix: str
) -> None:
    transmit = [f for f in read_pcap(VECTORS / f"{prefix}transmit_in.pcap") if len(f) < 9300][:150]
    receive = [(f, n % 7 == 0) for n, f in enumerate(read_pcap(VECTORS / f"{prefix}receive_in.pcap")[:150])]
    rtl, golden = RtlNic(verilog_of(codec), 1), GoldenNic(codec)
    for nic in (rtl, golden):
        assert nic.codec.variant == codec
        assert nic.read("ID") == REGISTERS["ID"].reset
    for step, k in enumerate((10, 10, 7, 10)):
        answers = []
        for nic in (rtl, golden):
            if k != 10:
                set_bound(nic, k, "literal")
            if step == 3:
                nic.write("CONTROL", 0)
            batch = slice(step * 40, step * 40 + 40)
            answers.append(nic.exchange(transmit[batch], receive[batch]))
        assert answers[0][0] == answers[1][0]
        for (frame, bad), (expected, marked) in zip(answers[0][1], answers[1][1], strict=True):
            assert (len(frame), bad) == (len(expected), marked)
            assert bad or frame == expected
        assert rtl.read_all() == golden.read_all()
    assert rtl.read("TX_COMPRESSED") > 10
    assert rtl.read("TX_DISABLED") == len(transmit[120:])
    assert rtl.cycles > 0 == golden.cycles
    rtl.write("COMMAND", 1)
    golden.write("COMMAND", 1)
    assert rtl.read_all() == golden.read_all() == dict.fromkeys(rtl.read_all(), 0)
    rtl.close()


def test_a_plain_nic_is_a_wire() -> None:
    nic = PlainNic()
    assert nic.exchange([b"a" * 60], [(b"b" * 60, True)]) == ([b"a" * 60], [(b"b" * 60, True)])
    assert nic.read_all() == {}
    refused(ValueError, "register CONTROL cannot be written at a NIC of kind 'none'", nic.write, "CONTROL", 0)


def test_read_only_registers_stay() -> None:
    refused(ValueError, "register ID cannot be written at a NIC of kind 'golden'", GoldenNic().write, "ID", 0)


def test_bf16_lanes_by_option() -> None:
    assert variants(["planes", "planes-bf16", "planes"], True) == ["planes-bf16"] * 3
    assert variants(["planes-bf16", "paper"], False) == ["planes-bf16", "paper"]


def test_codecs() -> None:
    assert parse_codecs("planes", 2) == ["planes"] * 2
    assert parse_codecs("paper, planes-bf16", 2) == ["paper", "planes-bf16"]
    with pytest.raises(ValueError, match="codec must be one of paper, planes, planes-bf16, not 'gzip'"):
        parse_codecs("gzip", 2)
    nic = GoldenNic("planes")
    assert nic.read("VERSION") & 0xFF == 2
    set_bound(nic, 7, "literal")  # a mode is for NICs with the paper's codec
    assert nic.read("PARAMETERS") == 120
    refused(ValueError, "k in 1..14, not k = 15", set_bound, nic, 15)


def test_kinds() -> None:
    assert parse_kinds("golden", 3) == ["golden"] * 3
    assert parse_kinds("rtl, none", 2) == ["rtl", "none"]
    with pytest.raises(ValueError, match="NIC must be one of rtl, inline, golden, none, not 'fpga'"):
        parse_kinds("rtl,fpga", 2)
    refused(ValueError, "one for each of the 3 hosts, not 'rtl,none'", parse_kinds, "rtl,none", 3)
