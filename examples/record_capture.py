# SPDX-License-Identifier: BSD-2-Clause
"""Records real TCP and UDP traffic that carries the gradients of a network while it is trained.

    sudo python examples/record_capture.py [--out examples/captures/digits.pcap]

Linux only, as root. Two network namespaces stand for two hosts, joined by a veth pair with every
offload switched off, so that the frames recorded are those that a NIC would get: MTU-sized,
with real checksums. Nothing leaves the namespaces. The two hosts train one multi-layer perceptron
(`digits.py`), data-parallel; both really need the other's gradients, which travel as raw
little-endian fp32 over connections marked with ``setsockopt(IP_TOS, 0x28)``, following the rules for
a tagged connection: floats only, writes of a multiple of 4 bytes, a maximum segment size that is a
multiple of 4. Two untagged connections accompany it: one for the weights at the start, one for a
line of JSON per iteration.

The training runs through the phases of `PHASES`, which differ in MTU, TCP timestamps (a payload at
byte 66 of the frame, or 54), ECN and protocol. Of each phase the first few iterations are recorded,
connection set-up and tear-down included, on the first host's interface: what ``02:00:00:00:00:01``
sends is its transmit side, what ``02:00:00:00:00:02`` sends is its receive side. In one phase the
second host drops packets for a moment, so that segments are retransmitted.

A manifest, ``.json``, accompanies the pcap (nanosecond time stamps, Ethernet): seeds, kernel, every
connection, every gradient's iteration and digest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import socket
import sys
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import digits
import numpy as np
from link import Frame, Host, Link, Recorder, write_pcap

TOS = 0x28
SEED, BATCH, EPOCHS_PER_PHASE = 20181020, 64, 2
DATA_PORT, CONTROL_PORT, WEIGHTS_PORT = 5001, 5000, 5002
DEAF_SECONDS = 0.05


@dataclass(frozen=True)
class Phase:
    """A stretch of the training: how its gradients travel, and how much of it is recorded."""

    name: str
    mtu: int
    transport: str
    """``tcp`` or ``udp``."""
    timestamps: bool
    """TCP timestamps (RFC 7323): 12 bytes of options in every segment."""
    ecn: bool
    """Explicit congestion notification (RFC 3168): the ToS byte reads 0x2A where ECT(0) is set."""
    recorded: int
    """Iterations in the capture."""
    deaf: int | None = None
    """Iteration of the phase in which the second host loses what reaches it for a moment."""

    @property
    def segment(self) -> int:
        """Largest TCP segment to announce, or UDP payload to send, a multiple of 4."""
        return (self.mtu - (40 if self.transport == "tcp" else 28)) & ~3


PHASES = (
    Phase("mtu1500-timestamps", 1500, "tcp", timestamps=True, ecn=False, recorded=9, deaf=4),
    Phase("mtu1500", 1500, "tcp", timestamps=False, ecn=False, recorded=8),
    Phase("mtu1500-udp", 1500, "udp", timestamps=False, ecn=False, recorded=3),
    Phase("mtu9000-timestamps", 9000, "tcp", timestamps=True, ecn=False, recorded=9),
    Phase("mtu9000-ecn", 9000, "tcp", timestamps=False, ecn=True, recorded=8),
)


class Peer:
    """The way to the other rank for one part of a phase: data, control and weights."""

    def __init__(self, rank: int, phase: Phase, barrier: Barrier, addresses: tuple[str, str]):
        self.rank, self.phase, self.barrier, self.addresses = rank, phase, barrier, addresses
        self.control = self._tcp(CONTROL_PORT, tos=0)
        self.data = self._tcp(DATA_PORT, TOS) if phase.transport == "tcp" else self._udp()
        self.sent = hashlib.sha256()
        self.port = self.data.getsockname()[1]

    def _tcp(self, port: int, tos: int) -> socket.socket:
        """One connection, from the first rank to the second."""
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, self.phase.segment)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.rank == 1:
            s.bind((self.addresses[1], port))
            s.listen(1)
            self.barrier.wait()
            connection, _ = s.accept()
            s.close()
            return connection
        self.barrier.wait()
        s.connect((self.addresses[1], port))
        return s

    def _udp(self) -> socket.socket:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, TOS)
        s.bind((self.addresses[self.rank], DATA_PORT))
        s.connect((self.addresses[1 - self.rank], DATA_PORT))
        self.barrier.wait()
        return s

    def send(self, gradient: digits.Floats) -> None:
        """Sends a gradient, float32[SIZE], as it is in memory."""
        payload = gradient.astype("<f4").tobytes()
        self.sent.update(payload)
        if self.phase.transport == "udp":
            self.barrier.wait()  # datagrams are not held back: both sockets' buffers are known to be empty
            for start in range(0, len(payload), self.phase.segment):
                self.data.send(payload[start : start + self.phase.segment])
        else:
            self.data.sendall(payload)

    def receive(self) -> digits.Floats:
        """The other rank's gradient, float32[SIZE]."""
        return self._floats(self.data)

    def tell(self, **facts: Any) -> None:
        """One line of JSON over the untagged control connection, answered by a line."""
        self.control.sendall(json.dumps({"rank": self.rank, **facts}).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            line += self._receive(4096, self.control)

    def share_weights(self, weights: digits.Floats) -> digits.Floats:
        """The first rank's weights on both ranks: exact, so the connection is not tagged."""
        with self._tcp(WEIGHTS_PORT, tos=0) as s:
            if self.rank == 0:
                s.sendall(weights.astype("<f4").tobytes())
                return weights
            return self._floats(s)

    def _floats(self, s: socket.socket) -> digits.Floats:
        data = bytearray()
        while len(data) < 4 * digits.SIZE:
            data += self._receive(4 * digits.SIZE - len(data), s)
        return np.frombuffer(data, "<f4")

    @staticmethod
    def _receive(most: int, s: socket.socket) -> bytes:
        data = s.recv(min(most, 65536))
        if not data:
            raise ConnectionError("the other rank closed its connection early")
        return data

    def close(self) -> None:
        """Closes the connections in order, the first rank first."""
        for s in (self.data, self.control):
            if self.rank == 0:
                s.close()
            elif s.type == socket.SOCK_STREAM:
                s.recv(1)
                s.close()
            else:
                s.close()


def train(rank: int, hosts: tuple[Host, Host], barrier: Barrier, orders: Connection) -> None:
    """One rank's whole training.

    Every order is ``(phase, iterations, deaf)``: connect, iterate, disconnect; the answer is a dictionary
    of what was sent. ``None`` ends the training.
    """
    host = hosts[rank]
    host.enter()
    x, labels, test_x, test_labels = digits.load()
    weights = digits.initial_weights(SEED + rank)  # the second rank's are replaced by the first's
    optimiser = digits.Momentum()
    indices = digits.batches(SEED, len(labels), BATCH, rank, 2)
    iteration = 0
    while (order := orders.recv()) is not None:
        phase, iterations, deaf = order
        peer = Peer(rank, phase, barrier, (hosts[0].address, hosts[1].address))
        if iteration == 0:
            weights = peer.share_weights(weights)
        gradients = []
        for i in range(iterations):
            batch = next(indices)
            loss, mine = digits.gradient(weights, x[batch], labels[batch])
            if i == deaf:
                if rank == 1:
                    host.deafen()
                barrier.wait()
            peer.send(mine)
            if i == deaf:
                barrier.wait()  # what the first rank sent is lost
                time.sleep(DEAF_SECONDS)
                if rank == 1:
                    host.hear()
            theirs = peer.receive()
            optimiser.step(weights, (mine + theirs) / 2)
            peer.tell(iteration=iteration, loss=round(loss, 6))
            gradients.append({"iteration": iteration, "sha256": hashlib.sha256(mine.tobytes()).hexdigest()})
            iteration += 1
        peer.close()
        orders.send(
            {
                "port": peer.port,
                "stream_sha256": peer.sent.hexdigest(),
                "gradients": gradients,
                "weights_sha256": hashlib.sha256(weights.tobytes()).hexdigest(),
                "test_accuracy": round(digits.accuracy(weights, test_x, test_labels), 4),
            }
        )


def record(link: Link) -> tuple[list[Frame], list[dict[str, Any]]]:
    """Trains through all phases; returns the frames recorded and a manifest entry per phase."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2, timeout=60)
    ranks = []
    for rank in range(2):
        ours, theirs = context.Pipe()
        context.Process(target=train, args=(rank, link.hosts, barrier, theirs), daemon=True).start()
        ranks.append(ours)

    def run(*order: Any) -> list[dict[str, Any]]:
        for orders in ranks:
            orders.send(order)
        return [orders.recv() for orders in ranks]

    frames: list[Frame] = []
    entries = []
    for phase in PHASES:
        link.configure(mtu=phase.mtu, timestamps=phase.timestamps, ecn=phase.ecn)
        recorder = Recorder(link.hosts[0])
        results = run(phase, phase.recorded, phase.deaf)
        recorded = recorder.stop()
        entries.append(
            {
                **asdict(phase),
                "segment": phase.segment,
                "first_frame": len(frames),
                "frames": len(recorded),
                "ranks": results,
            }
        )
        frames += recorded
        per_phase = EPOCHS_PER_PHASE * (len(digits.load()[1]) // BATCH)
        final = run(phase, per_phase - phase.recorded, None)
        if final[0]["weights_sha256"] != final[1]["weights_sha256"]:
            raise RuntimeError(f"the two copies of the network differ after phase {phase.name!r}")
        entries[-1]["test_accuracy_after"] = final[0]["test_accuracy"]
        print(f"{phase.name}: {len(recorded)} frames, test accuracy {final[0]['test_accuracy']:.3f}")
    for orders in ranks:
        orders.send(None)
    return frames, entries


def main() -> None:
    """Records, and writes the pcap and its manifest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(__file__).parent / "captures" / "digits.pcap"
    parser.add_argument(
        "--out", type=Path, default=default, help="pcap to write; the manifest is written next to it"
    )
    out = parser.parse_args().out
    if os.geteuid() != 0:
        sys.exit("record_capture: network namespaces need root")
    with Link(("192.0.2.1", "192.0.2.2")) as link:
        frames, phases = record(link)
        macs = [host.mac for host in link.hosts]
    write_pcap(out, frames)
    manifest = {
        "pcap": out.name,
        "sha256": hashlib.sha256(out.read_bytes()).hexdigest(),
        "frames": len(frames),
        "bytes": sum(len(frame.data) for frame in frames),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "seed": SEED,
        "batch": BATCH,
        "network": [digits.INPUTS, digits.HIDDEN, digits.CLASSES],
        "tos": TOS,
        "ports": {"data": DATA_PORT, "control": CONTROL_PORT, "weights": WEIGHTS_PORT},
        "hosts": [{"mac": mac, "address": a} for mac, a in zip(macs, link.addresses, strict=True)],
        "recorded_at": "the first host: its own frames are transmit, the other's are receive",
        "phases": phases,
    }
    out.with_suffix(".json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{out}: {len(frames)} frames, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
