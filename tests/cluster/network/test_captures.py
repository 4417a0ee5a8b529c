# SPDX-License-Identifier: BSD-2-Clause
"""The pcap files of a cluster, as tshark and scapy see them."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cluster_hosts import MakeCluster, result, start, wait_for_line
from host_programs import gradients
from scapy.layers.inet import IP, TCP
from scapy.utils import rdpcap

from inceptionn.sim.capture import read_pcap
from inceptionn.sim.golden import receive
from inceptionn.sim.nic_codec import NIC_VARIANTS
from inceptionn.wire import Verdict

DISSECTOR = Path(__file__).parents[3] / "examples" / "wireshark" / "inceptionn.lua"
CLASSES = {
    "paper": ["lanes.zero", "lanes.bits8", "lanes.bits16", "lanes.raw"],
    "planes": [f"groups.code{code}" for code in range(16)],
}
CLASSES["planes-bf16"] = CLASSES["planes"]


@pytest.fixture(params=NIC_VARIANTS)
def codec(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def captures(codec: str, make_cluster: MakeCluster, tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """Send 100,000 values from host 0 to host 1; return the captures' folder and host 0's registers.

    The values are bf16 where the NIC has bf16 lanes.
    """
    marked = "bf16" if NIC_VARIANTS[codec].bf16 else "1"
    cluster = make_cluster(2, "golden", codecs=codec, pcap=tmp_path)
    sink = start(cluster, 1, "receive", tmp_path, 6000, marked)
    wait_for_line(sink)
    result(start(cluster, 0, "send", "host1", 6000, 1, 100_000, marked))
    result(sink)
    cluster.drain()
    registers = cluster.host_reports()[0].registers
    cluster.close()
    return tmp_path, registers


def test_both_sides_of_the_nic_are_recorded(codec: str, captures: tuple[Path, dict[str, int]]) -> None:
    folder, registers = captures
    inside, wire = read_pcap(folder / "host0.pcap"), read_pcap(folder / "wire-host0.pcap")
    assert len(inside) == len(wire) == registers["TX_FRAMES_IN"] + registers["RX_FRAMES_IN"]
    assert sorted(len(frame) for frame in wire) == sorted(
        len(frame) for frame in read_pcap(folder / "wire-host1.pcap")
    )
    segments = [
        packet[TCP] for packet in rdpcap(str(folder / "host0.pcap"))
        if TCP in packet and packet[TCP].dport == 6000 and packet[IP].len > 60
    ]  # fmt: skip
    carried = bytearray()
    for segment in segments:  # some may have been sent twice
        at = (segment.seq - segments[0].seq) % 2**32
        assert at <= len(carried)
        carried[at : at + len(segment.payload)] = bytes(segment.payload)
    assert carried == gradients(1, 100_000, "bf16" if NIC_VARIANTS[codec].bf16 else "1").tobytes()


def test_the_dissector_reads_what_the_engines_wrote(
    codec: str, captures: tuple[Path, dict[str, int]]
) -> None:
    folder, registers = captures
    fields = ["length", "malformed", "b" if codec == "paper" else "e0", "type", "ratio", *CLASSES[codec]]
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed")
    wire = folder / "wire-host0.pcap"
    command = [tshark, "-X", f"lua_script:{DISSECTOR}", "-r", str(wire), "-Y", "inceptionn", "-T", "fields"]
    for field in fields:
        command += ["-e", f"inceptionn.{field}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "lua" not in done.stderr.lower(), done.stderr
    rows = [dict(zip(fields, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]
    assert len(rows) == registers["TX_COMPRESSED"] > 100
    for field, counter in zip(CLASSES[codec], NIC_VARIANTS[codec].counters, strict=True):
        assert sum(int(row[field]) for row in rows) == registers[counter]
    assert {row["malformed"] for row in rows} <= {"0", "False"}
    assert {row[fields[2]] for row in rows} == {"122" if codec == "paper" else "117"}
    assert {row["type"] for row in rows} == {"bf16" if NIC_VARIANTS[codec].bf16 else "fp32"}
    assert sum(int(row["length"]) for row in rows) == NIC_VARIANTS[codec].payload_bytes(registers)
    saved = registers["TX_BYTES_IN"] - registers["TX_BYTES_OUT"]
    wire_bytes = sum(round(int(row["length"]) / float(row["ratio"])) for row in rows)
    assert sum(int(row["length"]) for row in rows) - wire_bytes == saved
    config = NIC_VARIANTS[codec].config()
    restored = [receive(frame, config).verdict for frame in read_pcap(wire)]
    assert restored.count(Verdict.RESTORED) == len(rows)
