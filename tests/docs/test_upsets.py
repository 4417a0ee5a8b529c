# SPDX-License-Identifier: BSD-2-Clause
"""The counts of docs/upsets.md, on the golden model: no frame with one flipped bit brings wrong values."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from inceptionn import wire
from inceptionn.sim.golden import checksum, packets, values
from inceptionn.sim.golden.cases import alone
from inceptionn.sim.golden.frame import EngineConfig, receive
from inceptionn.wire import PROTOCOL_TCP, Verdict

PAGE = (Path(__file__).parents[2] / "docs" / "upsets.md").read_text(encoding="utf-8")
IP, TCP, PAYLOAD = 14, 34, 54
CODECS = {
    "paper": EngineConfig(),
    "planes": EngineConfig(parameters=wire.PlanesParameters(117)),
}
PAIRS = 1000
FRAMES = [packets.tcp(values.payload("gradients", 48, seed)) for seed in range(6)]


def accepted(frame: bytes) -> bool:
    """Return whether a host's checksum tests pass."""
    length = int.from_bytes(frame[IP + 2 : IP + 4], "big") - 20
    addresses = packets.SOURCE, packets.DESTINATION
    total = checksum.pseudo_header_sum(*addresses, PROTOCOL_TCP, length) + checksum.word_sum(frame[TCP:])
    sums = checksum.fold(checksum.word_sum(frame[IP:TCP])), checksum.fold(total)
    return sums == (0xFFFF, 0xFFFF)


def flipped(frame: bytes, bit: int) -> bytes:
    return frame[: bit // 8] + bytes([frame[bit // 8] ^ 1 << bit % 8]) + frame[bit // 8 + 1 :]


@pytest.mark.parametrize("codec", CODECS)
def test_flips_of_shim_and_block(codec: str) -> None:
    config = CODECS[codec]
    found: Counter[str] = Counter()
    for frame in FRAMES:
        on_wire = alone(frame, config).frame
        right = receive(on_wire, config).frame
        assert accepted(right)
        for bit in range(8 * PAYLOAD, 8 * len(on_wire)):
            got = receive(flipped(on_wire, bit), config)
            assert got.bad == (got.verdict == Verdict.MALFORMED)
            if got.bad:
                found["marked bad"] += 1
                found["of these"] += got.frame != right and accepted(got.frame)
            else:
                assert not accepted(got.frame)
                found["restored" if got.verdict == Verdict.RESTORED else "not restored"] += 1
    column = 1 + list(CODECS).index(codec)
    for name, count in found.items():
        (row,) = re.findall(rf"^\| {name}\b.*", PAGE, re.MULTILINE)
        assert row.strip("|").split("|")[column] == f" {count:,} ", row


@pytest.mark.parametrize("codec", CODECS)
def test_pairs_of_flips_pass_less_often_than_in_raw_frames(codec: str) -> None:
    config, source = CODECS[codec], random.Random(1)
    on_wire = alone(packets.tcp(values.payload("gradients", 365)), config).frame
    right = receive(on_wire, config).frame
    wrong = 0
    for _ in range(PAIRS):
        first, second = source.sample(range(8 * (PAYLOAD + wire.SHIM_BYTES), 8 * len(on_wire)), 2)
        got = receive(flipped(flipped(on_wire, first), second), config)
        wrong += not got.bad and got.frame != right and accepted(got.frame)
    assert wrong < PAIRS / 32


@pytest.mark.parametrize("codec", CODECS)
def test_flips_of_the_payload_before_and_after_the_engines(codec: str) -> None:
    config, frame = CODECS[codec], FRAMES[0]
    right = receive(alone(frame, config).frame, config).frame
    for bit in range(8 * PAYLOAD, 8 * len(frame)):
        assert not accepted(receive(alone(flipped(frame, bit), config).frame, config).frame)
        assert not accepted(flipped(right, bit))
