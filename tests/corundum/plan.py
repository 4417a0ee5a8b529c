# SPDX-License-Identifier: BSD-2-Clause
"""What the bench inside Corundum sends and expects: the golden model's answers, worked out beforehand."""

import random
from collections import Counter
from typing import Any

from inceptionn.hdl.control.registers import REGISTERS
from inceptionn.sim.golden import EngineConfig, FlowTable, Result, receive, transmit
from inceptionn.sim.golden.packets import SYN, tcp, udp
from inceptionn.sim.golden.values import payload
from inceptionn.wire import DEFAULT_TOS

LANES = (15, 16, 17, 90, 359, 362, 2000)
"""Values of the frames' payloads: at a group's edges, at those of an MTU of 1,500 bytes, and a jumbo one."""
LINE_RATE = ((60, 64), (64, 64), (65, 64), (1514, 24), (9014, 16))
"""Size of untagged frames in bytes, and how many follow each other."""
_HELD = ("CONTROL", "TOS")
"""Registers of which every bit that exists keeps what is written."""


def _frames(source: random.Random) -> list[bytes]:
    """Tagged and untagged ones, TCP and UDP, with gradients and with other values."""
    sequence = 4 * source.getrandbits(20)
    frames = [tcp(b"", sequence=sequence - 1, flags=SYN, tos=DEFAULT_TOS)]
    for count in LANES:
        for kind in ("gradients", "fractions", "noise"):
            data = payload(kind, count, source.getrandbits(20))
            frames.append(tcp(data, sequence=sequence, tos=DEFAULT_TOS))
            sequence += len(data)
        frames.append(udp(data, tos=DEFAULT_TOS))
        frames.append(udp(data, tos=0))
    return frames


def _step(sent: bytes, result: Result) -> dict[str, Any]:
    sure = len(result.frame) if result.unspecified_from is None else result.unspecified_from
    return {"sent": sent.hex(), "frame": result.frame.hex(), "sure": sure}


def make(seed: int = 1) -> dict[str, Any]:
    """Make the bench's plan, of JSON values.

    Its keys are ``tx`` and ``rx``, which are lists of steps, ``registers``, ``counters`` and ``line_rate``.
    """
    config, flows, counted = EngineConfig(), FlowTable(), Counter[str]()
    tx, rx = [], []
    for frame in _frames(random.Random(seed)):
        out = transmit(frame, config, flows)
        back = receive(out.frame, config)
        counted[f"TX_{out.verdict.name}"] += 1
        counted[f"RX_{back.verdict.name}"] += 1
        tx.append(_step(frame, out))
        rx.append(_step(out.frame, back))
    for way in ("TX", "RX"):
        counted |= {f"{way}_FRAMES_IN": len(tx), f"{way}_FRAMES_OUT": len(tx)}
    registers = [
        {"name": r.name, "offset": r.offset, "reset": r.reset, "mask": r.mask, "held": r.name in _HELD}
        for r in REGISTERS
    ]
    counters = {name: (REGISTERS[name].offset, number) for name, number in sorted(counted.items())}
    return {"tx": tx, "rx": rx, "registers": registers, "counters": counters, "line_rate": LINE_RATE}
