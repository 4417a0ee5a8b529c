# SPDX-License-Identifier: BSD-2-Clause
"""The tables and figures that are made of registers, by hand."""

import io

import numpy as np
import pytest
from rich.console import Console

from inceptionn.sim.cluster import HostReport, Report
from inceptionn.sim.cluster.network.kernel_counters import checksum_errors, parse
from inceptionn.sim.cluster.nics import GoldenNic
from inceptionn.sim.cluster.report import end_table, live_table
from inceptionn.sim.golden.packets import OPENING, tcp


def text(table: object) -> list[str]:
    """Return a table's rows as people see them, with single blanks between cells."""
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(table)
    return [" ".join(line.replace("│", " ").split()) for line in console.export_text().splitlines()]


@pytest.fixture
def registers() -> dict[str, int]:
    """Of a NIC that has sent 100 zeros (13 tag words and a shim: 34 bytes), 100 ones, 60 bytes untagged.

    And has received a frame that is not IP.
    """
    nic = GoldenNic()
    ones = np.ones(100, np.float32).tobytes()
    nic.exchange([OPENING], [])
    nic.write("COMMAND", 1)
    nic.exchange([tcp(bytes(400)), tcp(ones), tcp(b"x" * 6, tos=0)], [(b"\xff" * 60, False)])
    return nic.read_all()


def test_figures_of_a_host(registers: dict[str, int]) -> None:
    host = HostReport("host0", "10.77.0.1", "golden", registers)
    assert (host.frames, host.bytes_in, host.bytes_wire) == (3, 454 + 454 + 60, 88 + 454 + 60)
    assert host.lanes == 100
    assert host.classes == {
        "TX_LANES_ZERO": 100,
        "TX_LANES_BITS8": 0,
        "TX_LANES_BITS16": 0,
        "TX_LANES_RAW": 0,
    }
    assert host.tagged_bytes == 400
    assert host.payload_ratio == pytest.approx(400 / 34)
    assert host.raw == {"UNTAGGED": 1, "EXPANDED": 1}
    assert host.passed == {"NOT_IPV4": 1}
    assert (host.malformed, host.beats_per_cycle) == (0, None)
    host = HostReport("host0", "10.77.0.1", "rtl", registers, cycles=200, tx_beats=90, rx_beats=30)
    assert host.beats_per_cycle == pytest.approx(0.6)


def test_figures_of_a_host_without_a_nic() -> None:
    host = HostReport("host0", "10.77.0.1", "none", mac={"tx_frames": 3, "tx_bytes": 300})
    assert (host.frames, host.bytes_in, host.bytes_wire, host.payload_ratio) == (3, 300, 300, None)
    assert (host.raw, host.malformed, host.lanes) == ({}, 0, 0)


@pytest.fixture
def planes() -> dict[str, int]:
    """Of a NIC with the planes codec that has sent 99 lanes: 12 groups of zeros and one of ones."""
    nic = GoldenNic("planes")
    nic.exchange([OPENING], [])
    nic.write("COMMAND", 1)
    nic.exchange([tcp(bytes(4 * 96) + np.ones(3, np.float32).tobytes())], [])
    return nic.read_all()


def test_figures_of_a_host_with_planes(planes: dict[str, int], registers: dict[str, int]) -> None:
    host = HostReport("host0", "10.77.0.1", "golden", planes)
    assert (host.codec.name, host.lanes, host.tagged_bytes) == ("planes", 99, 396)
    assert host.classes == {f"TX_GROUPS_CODE_{n}": {0: 12, 11: 1}.get(n, 0) for n in range(16)}
    block = 8 + 8 + 11
    assert (host.bytes_in, host.bytes_wire) == (54 + 396, 54 + block)
    assert host.payload_ratio == pytest.approx(396 / block)
    rows = text(end_table(Report([host, HostReport("host1", "", "golden", registers)], 1, 0)))
    assert "groups by codes 0/1-4/5-8/9-14/15 % 92 0 0 8 0" in rows
    assert "lanes by tags 00/01/10/11 % 100 0 0 0" in rows
    rows = text(live_table({"host0": planes, "host1": registers}, {"host0": "golden", "host1": "golden"}))
    assert "host0 1 450 81 5.56 92 0 0 8 0 0 0 0" in rows
    assert Report([host], 1, 0).as_dict()["hosts"][0]["codec"] == "planes"


def test_the_live_view_shows_registers(registers: dict[str, int]) -> None:
    rows = text(live_table({"host0": registers, "host1": {}}, {"host0": "golden", "host1": "none"}))
    assert "host0 3 968 602 1.61 100 0 0 0 2 0 0" in rows
    assert "host1 (none)" in rows


def test_the_end_report(registers: dict[str, int]) -> None:
    hosts = [
        HostReport("host0", "10.77.0.1", "golden", registers, checksum_errors={"tcp": 2, "udp": 1, "ip": 0},
                   mac={"bad": 1, "rx_bytes": 32}, switch={"lost": 4}, model_seconds=0.5),
        HostReport("host1", "10.77.0.2", "none"),
    ]  # fmt: skip
    report = Report(hosts, 1.5, 0)
    rows = text(end_table(report))
    for row in ("frames sent 3 0", "ratio of the compressed payloads 11.76", "sent raw: EXPANDED 1 0",
                "received unchanged: NOT_IPV4 1 0", "dropped by the MAC (marked bad) 1 0", "switch: lost 4 0",
                "kernel: wrong checksums 3 0"):  # fmt: skip
        assert row in rows
    assert report.tagged_bytes == 400
    assert report.model_rate == pytest.approx((968 + 32) / 0.5)
    facts = report.as_dict()
    assert facts["hosts"][0]["raw"] == {"UNTAGGED": 1, "EXPANDED": 1}
    assert facts["hosts"][0]["payload_ratio"] == pytest.approx(400 / 34)


def test_kernel_tables() -> None:
    found = parse("Tcp: OutSegs InCsumErrors\nTcp: 17 2\nUdp: InCsumErrors\nUdp: 1\n")
    assert found == {"TcpOutSegs": 17, "TcpInCsumErrors": 2, "UdpInCsumErrors": 1}
    assert checksum_errors(found) == {"tcp": 2, "udp": 1, "ip": 0}
