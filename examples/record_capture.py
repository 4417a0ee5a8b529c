# SPDX-License-Identifier: BSD-2-Clause
"""Records real TCP and UDP traffic that carries the gradients of a network while it is trained.

    sudo python examples/record_capture.py [--bf16] [--out examples/captures/digits.pcap]

Linux only, as root. Two network namespaces stand for two hosts, joined by a veth pair with every
offload switched off, so that the frames recorded are those that a NIC would get: MTU-sized,
with real checksums. Nothing leaves the namespaces. The two hosts train one multi-layer perceptron
(`digits.py`), data-parallel; both really need the other's gradients, which travel as raw
little-endian fp32 over connections marked with ``setsockopt(IP_TOS, 0x28)``, following the rules for
a tagged connection: floats only, writes of a multiple of 4 bytes, a maximum segment size that is a
multiple of 4. With ``--bf16`` most gradients travel as bfloat16, marked with 0x2C. Two untagged
connections accompany it: one for the weights at the start, one for a line of JSON per iteration.

The training runs through the phases of `PHASES`, which differ in MTU, TCP timestamps (a payload at
byte 66 of the frame, or 54), ECN and protocol. Of each phase the first few iterations are recorded,
connection set-up and tear-down included, on the first host's interface: what ``02:00:00:00:00:01``
sends is its transmit side, what ``02:00:00:00:00:02`` sends is its receive side. In one phase the
second host drops packets for a moment, so that segments are retransmitted.

A manifest, ``.json``, accompanies the pcap (nanosecond timestamps, Ethernet): seeds, kernel, every
connection, every gradient's iteration and digest.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import digits
import numpy as np
from link import Frame, Host, Link, Recorder, write_pcap
from peer import BF16_TOS, CONTROL_PORT, DATA_PORT, TOS, WEIGHTS_PORT, Peer, Phase

SEED, BATCH, EPOCHS_PER_PHASE = 20181020, 64, 2
DEAF_SECONDS = 0.05

PHASES = (
    Phase("mtu1500-timestamps", 1500, "tcp", timestamps=True, ecn=False, recorded=9, deaf=4),
    Phase("mtu1500", 1500, "tcp", timestamps=False, ecn=False, recorded=8),
    Phase("mtu1500-udp", 1500, "udp", timestamps=False, ecn=False, recorded=3),
    Phase("mtu9000-timestamps", 9000, "tcp", timestamps=True, ecn=False, recorded=9),
    Phase("mtu9000-ecn", 9000, "tcp", timestamps=False, ecn=True, recorded=8),
)
BF16_PHASES = (
    Phase("mtu1500-timestamps-bf16", 1500, "tcp", timestamps=True, ecn=False, recorded=6, deaf=3, bf16=True),
    Phase("mtu1500", 1500, "tcp", timestamps=False, ecn=False, recorded=3),
    Phase("mtu1500-udp-bf16", 1500, "udp", timestamps=False, ecn=False, recorded=3, bf16=True),
    Phase("mtu9000-ecn-bf16", 9000, "tcp", timestamps=False, ecn=True, recorded=6, bf16=True),
)
"""Those of ``--bf16``: both types, with both MTUs."""


def train(rank: int, hosts: tuple[Host, Host], barrier: Barrier, orders: Connection) -> None:
    """Run one rank's whole training.

    Every order is ``(phase, iterations, deaf)``: connect, iterate, disconnect; the answer is a dictionary
    of what was sent. ``None`` ends the training.
    """
    host = hosts[rank]
    host.enter()
    x, labels, test_x, test_labels = digits.load()
    weights = digits.initial_weights(SEED + rank)  # the second rank's are replaced by the first's
    optimizer = digits.Momentum()
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
            mine = peer.rounded(mine)
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
            optimizer.step(weights, (mine + theirs) / 2)
            peer.tell(iteration=iteration, loss=round(loss, 6))
            digest = hashlib.sha256(peer.payload(mine)).hexdigest()
            gradients.append({"iteration": iteration, "sha256": digest})
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


def record(link: Link, phases: Sequence[Phase]) -> tuple[list[Frame], list[dict[str, Any]]]:
    """Train through all phases; return the frames recorded and a manifest entry per phase."""
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
    for phase in phases:
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
    """Record, and write the pcap and its manifest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    captures = Path(__file__).parent / "captures"
    parser.add_argument("--bf16", action="store_true", help="most gradients as bfloat16, ToS 0x2C")
    parser.add_argument(
        "--out", type=Path, help="pcap to write, the manifest next to it (captures/digits.pcap, or bf16.pcap)"
    )
    arguments = parser.parse_args()
    out = arguments.out or captures / ("bf16.pcap" if arguments.bf16 else "digits.pcap")
    if os.geteuid() != 0:
        sys.exit("record_capture: network namespaces need root")
    with Link(("192.0.2.1", "192.0.2.2")) as link:
        frames, phases = record(link, BF16_PHASES if arguments.bf16 else PHASES)
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
        **({"bf16_tos": BF16_TOS} if arguments.bf16 else {}),
        "ports": {"data": DATA_PORT, "control": CONTROL_PORT, "weights": WEIGHTS_PORT},
        "hosts": [{"mac": mac, "address": a} for mac, a in zip(macs, link.addresses, strict=True)],
        "recorded_at": "the first host: its own frames are transmit, the other's are receive",
        "phases": phases,
    }
    out.with_suffix(".json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{out}: {len(frames)} frames, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
