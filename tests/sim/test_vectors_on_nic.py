# SPDX-License-Identifier: BSD-2-Clause
"""The published conformance vectors, frame by frame through the real NIC, with each verdict's own counter."""

import json
from pathlib import Path
from typing import Any

import pytest

from inceptionn.hdl.control.register_map import RegisterMap
from inceptionn.hdl.control.registers import registers_of
from inceptionn.sim.capture import read_pcap
from inceptionn.sim.nic_codec import NIC_CODECS
from inceptionn.sim.replay.registers import read_counter
from inceptionn.sim.verilated import VerilatedNic
from inceptionn.wire import SHIM_MAGIC

VECTORS = Path(__file__).parents[1] / "vectors"
FIELDS = {
    "CONTROL": {"TX_ENABLE": "enable", "RX_ENABLE": "enable", "LEARN_PHASES": "learn_phases"},
    "TOS": {"VALUE": "tos", "MASK": "tos_mask", "BF16": "bf16_tos"},
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
    check(nic, NIC_CODECS[codec].registers, PREFIXES[codec], engine, sequence, together=together)


BF16_REGISTERS = registers_of("planes", bf16=True)


def counter(nic: VerilatedNic, name: str) -> int:
    offset = BF16_REGISTERS[name].offset
    return nic.read(offset) | nic.read(offset + 4) << 32


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["transmit", "receive"])
def test_bf16_vectors(bf16_nic: VerilatedNic, engine: str) -> None:
    """Frames with bf16 lanes among others, on a NIC that has both types of lanes."""
    for sequence in sequences(f"bf16_{engine}"):
        bf16_nic.reset()
        check(bf16_nic, BF16_REGISTERS, "bf16_", engine, sequence, together=True)
        treated = "COMPRESSED" if engine == "transmit" else "RESTORED"
        forms = read_pcap(VECTORS / f"bf16_{engine}_{'out' if engine == 'transmit' else 'in'}.pcap")
        bf16 = 0
        for frame in sequence["frames"]:
            form = forms[frame["number"] - 1]
            at = form.find(SHIM_MAGIC.to_bytes(2, "big") + b"\x02")
            bf16 += frame["verdict"] == treated and form[at + 3] >= 128
        prefix = "TX" if engine == "transmit" else "RX"
        assert counter(bf16_nic, f"{prefix}_{treated}_BF16") == bf16, sequence["name"]
        if engine == "transmit":
            assert (counter(bf16_nic, "TX_LANES_BF16") > 0) == (bf16 > 0), sequence["name"]


def check(
    nic: VerilatedNic, registers: RegisterMap, files: str, engine: str, sequence: dict[str, Any],
    *, together: bool,
) -> None:  # fmt: skip
    """Send a sequence's frames, all at once or one by one; compare frames and counters."""
    ins, outs = (read_pcap(VECTORS / f"{files}{engine}_{side}.pcap") for side in ("in", "out"))
    prefix = {"transmit": "TX", "receive": "RX"}[engine]
    config = {"bf16_tos": sequence["config"]["tos"]} | sequence["config"]
    for name, fields in FIELDS.items():
        register = registers[name]
        known = {field.name for field in register.fields}
        values = {field: config[key] for field, key in fields.items() if key in config and field in known}
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
