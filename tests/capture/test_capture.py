# SPDX-License-Identifier: BSD-2-Clause
"""The recorded capture holds what its manifest promises, with scapy as the referee."""

import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scapy")
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import rdpcap

EXAMPLES = Path(__file__).parents[2] / "examples"
PCAP = EXAMPLES / "captures" / "digits.pcap"
ECN_BITS = 0x03


def read(pcap: Path) -> tuple[dict[str, Any], list[Packet]]:
    return json.loads(pcap.with_suffix(".json").read_text()), list(rdpcap(str(pcap)))


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return read(PCAP)[0]


@pytest.fixture(scope="module")
def frames() -> list[Packet]:
    return read(PCAP)[1]


def phase_frames(manifest: dict[str, Any], frames: list[Packet], number: int) -> list[Packet]:
    phase = manifest["phases"][number]
    return frames[phase["first_frame"] : phase["first_frame"] + phase["frames"]]


def is_tagged(frame: Packet) -> bool:
    return IP in frame and frame[IP].tos & ~ECN_BITS == 0x28


def payload(frame: Packet) -> bytes:
    """TCP or UDP payload, without Ethernet padding."""
    ip = frame[IP]
    header = 4 * ip[TCP].dataofs if TCP in frame else 8
    return bytes(ip)[4 * ip.ihl + header : ip.len]


def streams(frames: list[Packet]) -> dict[tuple[str, int, str, int], bytes]:
    """Payload bytes of every TCP direction in sequence order, later copies of the same bytes ignored."""
    starts: dict[tuple[str, int, str, int], int] = {}
    parts: dict[tuple[str, int, str, int], bytearray] = defaultdict(bytearray)
    for frame in frames:
        if TCP not in frame:
            continue
        key = (frame[IP].src, frame[TCP].sport, frame[IP].dst, frame[TCP].dport)
        if "S" in frame[TCP].flags:
            starts[key] = frame[TCP].seq + 1
            continue
        data, offset = payload(frame), (frame[TCP].seq - starts[key]) & 0xFFFF_FFFF
        if data and offset < 1 << 31:
            assert offset <= len(parts[key]), "a gap in the recording"
            parts[key][offset : offset + len(data)] = data
    return {key: bytes(data) for key, data in parts.items()}


def check_content(manifest: dict[str, Any], frames: list[Packet]) -> None:
    """Every connection's bytes are the gradients of the manifest, and nothing but floats."""
    first, second = (host["address"] for host in manifest["hosts"])
    for number, phase in enumerate(manifest["phases"]):
        recorded = phase_frames(manifest, frames, number)
        ports = [rank["port"] for rank in phase["ranks"]]
        for rank, (source, destination) in enumerate(((first, second), (second, first))):
            if phase["transport"] == "tcp":
                stream = streams(recorded)[source, ports[rank], destination, ports[1 - rank]]
            else:
                stream = b"".join(payload(f) for f in recorded if UDP in f and f[IP].src == source)
            expected = phase["ranks"][rank]
            assert hashlib.sha256(stream).hexdigest() == expected["stream_sha256"]
            assert len(expected["gradients"]) == phase["recorded"]
            size = len(stream) // phase["recorded"]
            for i, gradient in enumerate(expected["gradients"]):
                part = stream[i * size : (i + 1) * size]
                assert hashlib.sha256(part).hexdigest() == gradient["sha256"]


def test_manifest_describes_this_file(manifest: dict[str, Any], frames: list[Packet]) -> None:
    assert hashlib.sha256(PCAP.read_bytes()).hexdigest() == manifest["sha256"]
    assert manifest["frames"] == len(frames) == sum(phase["frames"] for phase in manifest["phases"])
    assert manifest["bytes"] == sum(len(frame) for frame in frames)
    assert PCAP.stat().st_size <= 1_500_000
    assert {phase["mtu"] for phase in manifest["phases"]} == {1500, 9000}


def test_streams_are_the_gradients(manifest: dict[str, Any], frames: list[Packet]) -> None:
    check_content(manifest, frames)


def test_bf16_capture() -> None:
    """Both types of gradients, each with its own mark; the same bytes when segments are lost."""
    pcap = PCAP.with_name("bf16.pcap")
    manifest, frames = read(pcap)
    assert hashlib.sha256(pcap.read_bytes()).hexdigest() == manifest["sha256"]
    check_content(manifest, frames)
    for number, phase in enumerate(manifest["phases"]):
        recorded = [f for f in phase_frames(manifest, frames, number) if IP in f and payload(f)]
        data = [f for f in recorded if f[IP].tos & ~ECN_BITS]
        assert len(data) > 10
        assert {f[IP].tos & ~ECN_BITS for f in data} == {0x2C if phase["bf16"] else 0x28}
        assert all(len(payload(f)) % 4 == 0 for f in data)
    assert {phase["bf16"] for phase in manifest["phases"]} == {False, True}
    assert manifest["phases"][-1]["test_accuracy_after"] > 0.95


def test_first_gradient_is_reproducible(manifest: dict[str, Any], frames: list[Packet]) -> None:
    """The first exchange equals the gradient computed here from the manifest's seed."""
    pytest.importorskip("sklearn")
    digits = SimpleNamespace(**run_path(str(EXAMPLES / "digits.py")))
    x, labels, _, _ = digits.load()
    recorded = streams(phase_frames(manifest, frames, 0))
    ports = [rank["port"] for rank in manifest["phases"][0]["ranks"]]
    addresses = [host["address"] for host in manifest["hosts"]]
    for rank in range(2):
        batch = next(digits.batches(manifest["seed"], len(labels), manifest["batch"], rank, 2))
        _, expected = digits.gradient(digits.initial_weights(manifest["seed"]), x[batch], labels[batch])
        stream = recorded[addresses[rank], ports[rank], addresses[1 - rank], ports[1 - rank]]
        sent = np.frombuffer(stream[: 4 * digits.SIZE], "<f4")
        np.testing.assert_allclose(sent, expected, rtol=1e-3, atol=1e-6)
        assert np.count_nonzero(sent) > digits.SIZE // 2


def test_training_learns(manifest: dict[str, Any]) -> None:
    accuracies = [phase["test_accuracy_after"] for phase in manifest["phases"]]
    assert accuracies[0] > 0.85
    assert accuracies[-1] > 0.95


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_mtu_is_used_and_kept(manifest: dict[str, Any], frames: list[Packet], mtu: int) -> None:
    for number, phase in enumerate(manifest["phases"]):
        if phase["mtu"] != mtu:
            continue
        tagged = [len(f) - 14 for f in phase_frames(manifest, frames, number) if is_tagged(f)]
        assert max(tagged) == mtu


def test_all_checksums_are_real(frames: list[Packet]) -> None:
    """No offload was on: every IP, TCP and UDP checksum is the one that scapy computes."""
    checked = 0
    for frame in frames:
        if IP not in frame:
            continue
        ip = IP(bytes(frame[IP]))
        again = ip.copy()
        del again.chksum
        del (again[TCP] if TCP in again else again[UDP]).chksum
        assert bytes(again) == bytes(ip)
        checked += 1
    assert checked > 500


def test_tagged_segments_obey_the_rules(manifest: dict[str, Any], frames: list[Packet]) -> None:
    """Whole floats only, on the stream's 4-byte grid, in every tagged data segment."""
    starts: dict[tuple[str, int], int] = {}
    tagged = 0
    for frame in frames:
        if not is_tagged(frame):
            continue
        if TCP in frame:
            flow = (frame[IP].src, frame[TCP].sport)
            if "S" in frame[TCP].flags:
                starts[flow] = frame[TCP].seq + 1
            elif payload(frame):
                assert (frame[TCP].seq - starts[flow]) % 4 == 0
        assert len(payload(frame)) % 4 == 0
        tagged += len(payload(frame)) >= 64
    assert tagged > 200


def test_kinds_of_traffic(manifest: dict[str, Any], frames: list[Packet]) -> None:
    """Tagged and untagged, SYN and ACK, both offsets of the payload, SACK, ECN, UDP, ARP, both directions."""
    ip = [f for f in frames if IP in f]
    tcp = [f for f in ip if TCP in f]
    assert sum(is_tagged(f) for f in ip) > 100
    assert sum(not is_tagged(f) and len(payload(f)) > 0 for f in ip) > 50
    assert sum(is_tagged(f) and "S" in f[TCP].flags for f in tcp) >= 2 * 4  # both ends of four connections
    assert sum(is_tagged(f) and not payload(f) and f[TCP].flags == "A" for f in tcp) > 50
    data = [f for f in tcp if is_tagged(f) and payload(f)]
    assert {f[TCP].dataofs for f in data} == {5, 8}
    assert any(name == "SAck" for f in tcp for name, _ in f[TCP].options)
    assert {f[IP].tos for f in data} == {0x28, 0x2A}
    assert any(is_tagged(f) and len(payload(f)) > 1400 for f in ip if UDP in f)
    assert any(f[Ether].type == 0x0806 for f in frames)
    macs = [host["mac"] for host in manifest["hosts"]]
    assert {f.src for f in data} == set(macs)


def test_retransmission(manifest: dict[str, Any], frames: list[Packet]) -> None:
    """In the phase with the deaf host tagged data go out again, and always with the same bytes.

    Elsewhere the kernel may send a tail-loss probe on its own.
    """
    for number, phase in enumerate(manifest["phases"]):
        seen: dict[tuple[str, int, int], bytes] = {}
        again = 0
        for frame in phase_frames(manifest, frames, number):
            if TCP in frame and is_tagged(frame) and payload(frame):
                key = (frame[IP].src, frame[TCP].sport, frame[TCP].seq)
                again += key in seen
                common = min(len(seen.get(key, b"")), len(payload(frame)))
                assert payload(frame)[:common] == seen.get(key, b"")[:common]
                seen[key] = payload(frame)
        assert again > 0 or phase["deaf"] is None


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="network namespaces need root")
def test_recording_works_here(tmp_path: Path) -> None:
    """The script that made the capture makes another one, with the same promises."""
    pytest.importorskip("sklearn")
    probe = ["ip", "netns", "exec", "inceptionn-probe", "true"]
    try:
        subprocess.run(["ip", "netns", "add", "inceptionn-probe"], check=True, capture_output=True)
        subprocess.run(probe, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network namespaces here")
    finally:
        subprocess.run(["ip", "netns", "delete", "inceptionn-probe"], check=False, capture_output=True)
    pcap = tmp_path / "again.pcap"
    script = EXAMPLES / "record_capture.py"
    subprocess.run([sys.executable, script, "--out", pcap], check=True, timeout=120, capture_output=True)
    manifest, frames = read(pcap)
    check_content(manifest, frames)
    test_retransmission(manifest, frames)
    test_all_checksums_are_real(frames)
