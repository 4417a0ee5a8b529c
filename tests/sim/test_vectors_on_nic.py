# SPDX-License-Identifier: BSD-2-Clause
"""The published conformance vectors, frame by frame through the real NIC, with each verdict's own counter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inceptionn.sim.capture import read_pcap
from inceptionn.sim.nic_codec import NIC_CODECS
from inceptionn.sim.replay.registers import read_counter
from inceptionn.sim.verilated import VerilatedNic

VECTORS = Path(__file__).parents[1] / "vectors"
FIELDS = {
    "CONTROL": {"TX_ENABLE": "enable", "RX_ENABLE": "enable"},
    "TOS": {"VALUE": "tos", "MASK": "tos_mask"},
    "PARAMETERS": {"E0": "e0", "T": "t", "B": "b"},
    "PAYLOAD": {"MIN": "min_payload", "MAX": "max_payload"},
}


def sequences(name: str) -> list[Any]:
    found: list[Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return found


PREFIXES = {"paper": "", "planes": "planes_"}
CASES = [
    pytest.param(codec, engine, sequence, id=f"{codec}-{engine}-{sequence['name']}")
    for codec, prefix in PREFIXES.items()
    for engine in ("transmit", "receive")
    for sequence in sequences(prefix + engine)
]


@pytest.mark.parametrize("together", [True, False], ids=["back to back", "one by one"])
@pytest.mark.parametrize(("codec", "engine", "sequence"), CASES, indirect=["codec"], scope="session")
def test_vectors(
    nic: VerilatedNic, codec: str, engine: str, sequence: dict[str, Any], together: bool
) -> None:
    ins, outs = (read_pcap(VECTORS / f"{PREFIXES[codec]}{engine}_{side}.pcap") for side in ("in", "out"))
    prefix = {"transmit": "TX", "receive": "RX"}[engine]
    config, registers = sequence["config"], NIC_CODECS[codec].registers
    for name, fields in FIELDS.items():
        register = registers[name]
        values = {field: config[key] for field, key in fields.items() if key in config}
        nic.write(register.offset, sum(register[field].put(int(value)) for field, value in values.items()))
    drive = nic.transmit if engine == "transmit" else nic.receive
    frames = sequence["frames"]
    sent = [(ins[frame["number"] - 1], frame["bad"]) for frame in frames]
    counted: dict[str, int] = {}
    came = drive(sent) if together else []
    for i, frame in enumerate(frames):
        counted[frame["verdict"]] = counted.get(frame["verdict"], 0) + 1
        if not together:
            came += drive([sent[i]])
            assert read_counter(nic, f"{prefix}_{frame['verdict']}") == counted[frame["verdict"]], frame[
                "name"
            ]
        expected, limit = outs[frame["number"] - 1], frame["unspecified_from"]
        assert len(came[i].data) == len(expected), frame["name"]
        assert came[i].data[:limit] == expected[:limit], frame["name"]
        assert came[i].bad == frame["out_bad"], frame["name"]
    assert {verdict: read_counter(nic, f"{prefix}_{verdict}") for verdict in counted} == counted
