# SPDX-License-Identifier: BSD-2-Clause
"""The effects in docs/offloads.md, on the golden model: a NIC's work on the wrong side of an engine."""

from collections.abc import Callable, Iterator

import pytest

from inceptionn.sim.golden import checksum, packets, values
from inceptionn.sim.golden.cases import alone
from inceptionn.sim.golden.frame import EngineConfig, Result, receive
from inceptionn.wire import PROTOCOL_TCP, Verdict

IP, TCP, PAYLOAD = 14, 34, 54
SEGMENT = 1460
CONFIG = EngineConfig()


def pseudo_header(frame: bytes) -> int:
    length = int.from_bytes(frame[IP + 2 : IP + 4], "big") - 20
    return checksum.pseudo_header_sum(packets.SOURCE, packets.DESTINATION, PROTOCOL_TCP, length)


def with_field(frame: bytes, value: int) -> bytes:
    return frame[: TCP + 16] + value.to_bytes(2, "big") + frame[TCP + 18 :]


def accepted(frame: bytes) -> bool:
    """Return whether a host's checksum test passes."""
    return checksum.fold(pseudo_header(frame) + checksum.word_sum(frame[TCP:])) == 0xFFFF


def seeded(frame: bytes) -> bytes:
    """Return the frame as a stack gives it to a NIC with TX checksum offload."""
    return with_field(frame, checksum.fold(pseudo_header(frame)))


def inserted(frame: bytes) -> bytes:
    """Return the frame with the checksum that a NIC makes of it and its seed."""
    return with_field(frame, 0xFFFF ^ checksum.fold(checksum.word_sum(frame[TCP:])))


def computed(frame: bytes) -> bytes:
    """Return the frame with the checksum of a NIC that computes the pseudo header by itself."""
    return inserted(seeded(frame))


def sent(frame: bytes) -> Result:
    return alone(frame, CONFIG)


def cut(frame: bytes) -> Iterator[bytes]:
    """Yield the segments that TSO makes of a frame."""
    for at in range(PAYLOAD, len(frame), SEGMENT):
        piece = frame[at : at + SEGMENT]
        sequence = int.from_bytes(frame[TCP + 4 : TCP + 8], "big") + at - PAYLOAD
        head = frame[: IP + 2] + (40 + len(piece)).to_bytes(2, "big") + frame[IP + 4 : TCP + 4]
        yield computed(head + sequence.to_bytes(4, "big") + frame[TCP + 8 : PAYLOAD] + piece)


@pytest.mark.parametrize("nic", [inserted, computed])
def test_checksum_inserted_after_the_engine_loses_every_compressed_packet(
    nic: Callable[[bytes], bytes],
) -> None:
    for seed in range(20):
        frame = packets.tcp(values.payload("gradients", 365, seed))
        assert inserted(seeded(frame)) == frame  # the right order
        result = sent(seeded(frame))
        restored = receive(nic(result.frame), CONFIG)
        assert (result.verdict, restored.verdict) == (Verdict.COMPRESSED, Verdict.RESTORED)
        assert not accepted(restored.frame)
        right = receive(sent(frame).frame, CONFIG)
        assert restored.frame[PAYLOAD:] == right.frame[PAYLOAD:]


def test_checksum_inserted_after_the_engine_fits_raw_packets() -> None:
    frame = packets.tcp(values.payload("large", 365))
    result = sent(seeded(frame))
    assert result.verdict == Verdict.EXPANDED
    assert inserted(result.frame) == frame


def test_super_frame_that_shrinks_to_one_segment_is_lost() -> None:
    result = sent(seeded(packets.tcp(values.payload("gradients", 2304))))
    assert result.verdict == Verdict.COMPRESSED
    (segment,) = cut(result.frame)
    assert not accepted(receive(segment, CONFIG).frame)


def test_super_frame_is_cut_through_its_block() -> None:
    result = sent(seeded(packets.tcp(values.payload("noise", 2304))))
    assert result.verdict == Verdict.COMPRESSED
    first, *others = (receive(segment, CONFIG) for segment in cut(result.frame))
    assert first.verdict == Verdict.MALFORMED
    assert first.bad
    assert {other.verdict for other in others} == {Verdict.NO_SHIM}
    assert all(accepted(other.frame) for other in others)  # the danger


@pytest.mark.parametrize("lanes", [2305, 4083, 4084, 16000])
def test_longer_super_frame_passes_raw(lanes: int) -> None:
    frame = seeded(packets.tcp(values.payload("gradients", lanes)))
    result = sent(frame)
    assert result.verdict == Verdict.LONG
    assert result.frame == frame


def test_tag_inserted_after_the_engine_does_no_harm() -> None:
    frame = sent(packets.tcp(values.payload("gradients", 365))).frame
    tag = bytes.fromhex("81000005")
    once, twice = (frame[:12] + number * tag + frame[12:] for number in (1, 2))
    assert receive(once, CONFIG).verdict == Verdict.RESTORED
    assert receive(twice, CONFIG).verdict == Verdict.VLAN_STACK


def test_ip_checksum_inserted_after_the_engine_does_no_harm() -> None:
    frame = packets.tcp(values.payload("gradients", 365))
    right = sent(frame).frame
    wrong = sent(frame[: IP + 10] + bytes(2) + frame[IP + 12 :]).frame
    at = slice(IP + 10, IP + 12)
    assert wrong[: at.start] == right[: at.start]
    assert wrong[at.stop :] == right[at.stop :]
    expected = 0xFFFF ^ checksum.fold(checksum.word_sum(right[IP : at.start] + right[at.stop : TCP]))
    assert int.from_bytes(right[at], "big") == expected
