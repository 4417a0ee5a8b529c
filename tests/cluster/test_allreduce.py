# SPDX-License-Identifier: BSD-2-Clause
"""A ring all-reduce of 4 MB over four hosts whose NICs are the RTL, predicted bit for bit."""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cluster_hosts import BOUND, Floats, MakeCluster, no_checksum_errors, result, seen, start, total
from host_programs import gradients

from inceptionn.sim.capture import read_pcap
from inceptionn.sim.golden import EngineConfig, FlowTable, receive, transmit
from inceptionn.wire import SHIM_MAGIC, Verdict

RANKS, COUNT = 4, 1 << 20
PROBE_BYTES = 9216
"""Floats that the host library sends first, to ask for NICs (`inceptionn.transport.probe`)."""


def tagged_segments(frames: list[bytes], mac_end: int) -> Iterator[tuple[tuple[int, ...], int, bytes, bool]]:
    """Yield each marked TCP segment that a host sent: connection, sequence number, payload, SYN.

    The payload is as the frames contain it, compressed or not.
    """
    for frame in frames:
        if frame[11] != mac_end or frame[12:14] != b"\x08\x00" or frame[15] & 0xFC != 0x28 or frame[23] != 6:
            continue
        length, at = struct.unpack_from(">H", frame, 16)[0], 34 + 4 * (frame[46] >> 4)
        ports = struct.unpack_from(">HH", frame, 34)
        yield (
            (frame[33], *ports),
            struct.unpack_from(">I", frame, 38)[0],
            frame[at : 14 + length],
            bool(frame[47] & 2),
        )


def raw_ranges(wire: Path, rank: int) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """By connection, the bytes of its stream on the wire, from the first copy of each.

    Nothing is lost here, so the receiver gets the first copy, even if TCP retransmits.
    """
    begins: dict[tuple[int, ...], int] = {}
    ends: dict[tuple[int, ...], int] = {}
    raw: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for connection, sequence, payload, syn in tagged_segments(read_pcap(wire), rank + 1):
        if syn:
            begins[connection], ends[connection], raw[connection] = sequence + 1, 0, []
        elif payload:
            at = (sequence - begins[connection]) % 2**32
            magic, _, length = struct.unpack_from(">HHH", payload + bytes(6))
            end = at + (length if magic == SHIM_MAGIC else len(payload))
            if magic != SHIM_MAGIC and end > ends[connection]:
                raw[connection].append((max(at, ends[connection]), end))
            ends[connection] = max(end, ends[connection])
    return raw


def block(number: int) -> slice:
    """Return the lanes of a rank's block.

    They are a quarter, since 2^20 is a multiple of all that `Parts` aligns to.
    """
    return slice(number * COUNT // RANKS, (number + 1) * COUNT // RANKS)


def predicted(raw: list[list[tuple[int, int]]]) -> Floats:
    """Algorithm 1 with the golden codec between ranks, but where ``raw[rank]`` says that floats went raw."""
    values = [gradients(rank, COUNT) for rank in range(RANKS)]
    sums = np.empty(COUNT, np.float32)
    for owned in range(RANKS):
        running = values[owned][block(owned)]
        for step in range(RANKS - 1):
            sender = (owned + step) % RANKS
            arrived = seen(running)
            begin = PROBE_BYTES + step * 4 * COUNT // RANKS
            for start_at, end_at in raw[sender]:
                low, high = max(0, start_at - begin), min(running.nbytes, end_at - begin)
                if low < high:
                    assert low % 4 == high % 4 == 0
                    arrived[low // 4 : high // 4] = running[low // 4 : high // 4]
            running = values[(owned + step + 1) % RANKS][block(owned)] + arrived
        sums[block(owned)] = seen(running)
    return sums


@pytest.mark.slow
def test_bit_equal_to_the_golden_prediction(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(RANKS, pcap=tmp_path)
    ranks = [start(cluster, rank, "allreduce", COUNT, "nic", tmp_path) for rank in range(RANKS)]
    told = {"nic": True, "bound": BOUND, "mode": "bounded", "bf16": False}
    assert [result(rank) for rank in ranks] == [told] * RANKS
    assert cluster.drain()
    reports = cluster.host_reports()
    cluster.close()

    results = [np.load(tmp_path / f"{rank}.npy") for rank in range(RANKS)]
    for other in results[1:]:
        assert results[0].tobytes() == other.tobytes()
    raw = []
    for rank in range(RANKS):
        to_next = [
            ranges
            for (host, *_), ranges in raw_ranges(tmp_path / f"wire-host{rank}.pcap", rank).items()
            if host == (rank + 1) % RANKS + 1
        ]
        assert len(to_next) == 1
        raw.append(to_next[0])
    assert sum(end - begin for ranges in raw for begin, end in ranges) < 0.01 * RANKS * 6 * COUNT
    assert results[0].tobytes() == predicted(raw).tobytes()

    exact = np.sum([gradients(rank, COUNT).astype(np.float64) for rank in range(RANKS)], axis=0)
    error = np.abs(results[0] - exact).max()
    assert BOUND / 2 < error < RANKS * BOUND, "the values have not been through the codec, or not within it"

    # The wire: 2 (N - 1) / N of the values leave each host, 3.5 times smaller; nothing is lost on the way.
    assert no_checksum_errors(reports)
    for host in reports:
        assert host.tagged_bytes > 0.99 * 6 * COUNT
        assert host.bytes_wire < host.bytes_in / 2.5
        assert 3 < (host.payload_ratio or 0) < 4
        assert host.mac["tx_frames"] == host.registers["TX_FRAMES_IN"] == host.registers["TX_FRAMES_OUT"]
        assert host.mac["wire_bytes"] == host.registers["TX_BYTES_OUT"] + host.mac["padding"]
        assert not host.malformed
        assert not host.mac.get("bad")
    assert total(reports, "TX_COMPRESSED") == total(reports, "RX_RESTORED") > 10_000
    assert sum(host.switch["bytes"] for host in reports) == total(reports, "RX_BYTES_IN")

    # The frames themselves, a sample: what the golden engines make of what the host sent is what was there.
    inside, outside = read_pcap(tmp_path / "host0.pcap"), read_pcap(tmp_path / "wire-host0.pcap")
    flows, sent = FlowTable(), [frame for frame in inside if frame[6:12] == b"\2\0\0\0\0\1"][:200]
    results_of = [transmit(frame, EngineConfig(), flows) for frame in sent]
    left = [frame for frame in outside if frame[6:12] == b"\2\0\0\0\0\1"][:200]
    assert left == [each.frame.ljust(60, b"\0") for each in results_of]
    assert [each.verdict for each in results_of].count(Verdict.COMPRESSED) > 50
    came = [frame for frame in outside if frame[6:12] != b"\2\0\0\0\0\1"][:200]
    got = [frame for frame in inside if frame[6:12] != b"\2\0\0\0\0\1"][:200]
    assert got == [receive(frame, EngineConfig()).frame for frame in came]
