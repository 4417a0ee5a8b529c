# SPDX-License-Identifier: BSD-2-Clause
"""The frame transform: every verdict, and what each does to a frame, with scapy as referee."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inceptionn import wire
from inceptionn.sim import golden
from inceptionn.sim.golden import EngineConfig, FlowTable, cases, cases_receive, packets, receive, transmit
from inceptionn.sim.golden.cases import CONFIG, GRADIENTS
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.values import payload
from inceptionn.wire import Verdict as V

TRANSMIT = cases.transmit_sequences()
RECEIVE = cases_receive.receive_sequences()
COMMON = {
    V.BAD,
    V.DISABLED,
    V.TRUNCATED,
    V.VLAN_STACK,
    V.IPV6,
    V.NOT_IPV4,
    V.UNTAGGED,
    V.IP_OPTIONS,
    V.FRAGMENT,
}
COMMON |= {V.PROTOCOL, V.LENGTHS, V.SYN, V.NO_CHECKSUM}
TRANSMIT_VERDICTS = {V.COMPRESSED, V.SHORT, V.LONG, V.ALIGNMENT, V.PHASE, V.EXPANDED, V.AMBIGUOUS}
RECEIVE_VERDICTS = {V.RESTORED, V.NO_SHIM, V.BAD_SHIM, V.MALFORMED}


def payload_of(frame: bytes) -> np.ndarray:
    """The payload of a frame without padding, as the receiving host reads it."""
    l3 = 18 if frame[12:14] == b"\x81\0" else 14
    start = l3 + 20 + (4 * (frame[l3 + 32] >> 4) if frame[l3 + 9] == 6 else 8)
    return np.frombuffer(frame[start:], "<f4")


def test_packets_are_what_they_say(referee) -> None:
    for frame in (
        tcp(GRADIENTS, sequence=7, tcp_options=cases.TIMESTAMP, identification=9),
        udp(GRADIENTS, vlan=3),
        tcp(b"", padding=bytes(6)),
        udp(b"odd"),
    ):
        assert referee.router_accepts(frame)
        assert referee.host_accepts(frame)
    assert referee.segment(tcp(GRADIENTS, sequence=7)).seq == 7
    assert bytes(referee.segment(tcp(GRADIENTS, tcp_options=cases.TIMESTAMP)).payload) == GRADIENTS
    assert referee.segment(udp(GRADIENTS)).len == 8 + len(GRADIENTS)


def test_every_verdict_has_a_case() -> None:
    assert {case.verdict for sequence in TRANSMIT for case in sequence.cases} == COMMON | TRANSMIT_VERDICTS
    assert {case.verdict for sequence in RECEIVE for case in sequence.cases} == COMMON | RECEIVE_VERDICTS
    assert COMMON | TRANSMIT_VERDICTS | RECEIVE_VERDICTS == set(V)


@pytest.mark.parametrize("sequence", TRANSMIT, ids=lambda sequence: sequence.name)
def test_transmit(sequence: cases.Sequence, referee) -> None:
    config, flows = sequence.config, FlowTable()
    for case in sequence.cases:
        result = transmit(case.frame, config, flows, case.bad)
        assert result.verdict is case.verdict, case.name
        assert result.bad == case.bad
        assert result.unspecified_from is None
        if result.verdict is not V.COMPRESSED:
            assert result.frame == case.frame, case.name
            assert result.tags == (0, 0, 0, 0)
            continue
        check_wire_form(case.frame, result, referee)
        check_restored(case.frame, result.frame, config, referee)


def check_wire_form(frame: bytes, result: golden.Result, referee) -> None:
    assert len(result.frame) < len(frame)
    assert referee.router_accepts(result.frame) == referee.router_accepts(frame)
    assert not referee.host_accepts(result.frame)
    packet = referee.ip(result.frame)
    assert packet.len == len(packet.original), "padding is gone"
    if packet.proto == wire.PROTOCOL_UDP:
        assert referee.segment(result.frame).len == packet.len - 20
        assert referee.segment(result.frame).chksum != 0


def check_restored(frame: bytes, sent: bytes, config: EngineConfig, referee) -> None:
    back = receive(sent, config)
    assert back.verdict is V.RESTORED
    assert not back.bad
    end = len(back.frame)
    assert referee.ip(frame).len == referee.ip(back.frame).len == len(referee.ip(back.frame).original)
    original, seen = payload_of(frame[:end]), payload_of(back.frame)
    assert seen.tobytes() == golden.lossy(original, params=config.parameters).tobytes()
    assert back.tags == tuple(golden.histogram(original, params=config.parameters).tolist())
    assert referee.router_accepts(back.frame) == referee.router_accepts(frame)
    assert referee.host_accepts(back.frame) == referee.host_accepts(frame)
    # Nothing but the payload and its checksum has changed.
    headers = bytearray(back.frame[: -4 * len(seen)])
    checksum_at = len(headers) - 2 if frame[23 + (4 if frame[12] == 0x81 else 0)] == 17 else None
    if checksum_at is None:
        checksum_at = (18 if frame[12] == 0x81 else 14) + 36
    headers[checksum_at : checksum_at + 2] = frame[checksum_at : checksum_at + 2]
    assert headers == frame[: len(headers)]


@pytest.mark.parametrize("sequence", RECEIVE, ids=lambda sequence: sequence.name)
def test_receive(sequence: cases.Sequence, referee) -> None:
    for case in sequence.cases:
        result = receive(case.frame, sequence.config, case.bad)
        assert result.verdict is case.verdict, case.name
        assert result.bad == (case.bad or case.verdict is V.MALFORMED)
        if case.verdict not in (V.RESTORED, V.MALFORMED, V.BAD):
            assert result.frame == case.frame
        if case.verdict is V.RESTORED:
            assert len(result.frame) > len(case.frame.rstrip(b"\0"))
            assert result.unspecified_from is None
            assert sum(result.tags) == len(payload_of(result.frame))
        else:
            assert result.tags == (0, 0, 0, 0)


def test_compressed_by_hand() -> None:
    """One frame, byte for byte: 2**-7 and fifteen zeros at a bound of 2**-10."""
    frame = tcp(bytes.fromhex("0000003c") + bytes(60))
    sent = transmit(frame, CONFIG, FlowTable()).frame
    assert sent[54:].hex() == "494e017a004000000100000020"
    assert sent[16:18].hex() == f"{20 + 20 + 8 + 5:04x}"
    assert int.from_bytes(sent[24:26], "big") == int.from_bytes(frame[24:26], "big") + (64 - 13)
    assert sent[50:52] == frame[50:52]  # nothing was lost, so the checksum is the same
    untouched = [i for i in range(54) if i not in (16, 17, 24, 25)]
    assert [sent[i] for i in untouched] == [frame[i] for i in untouched]
    assert receive(sent, CONFIG).frame == frame


def test_defaults_are_the_reset_values() -> None:
    assert EngineConfig() == EngineConfig(
        True, 0x28, 0xFC, wire.Parameters(e0=117, t=122, b=122), min_payload=64, max_payload=9216
    )


@pytest.mark.parametrize(
    ("name", "value"), [("tos", 256), ("tos_mask", -1), ("min_payload", 1 << 16), ("max_payload", 9217)]
)
def test_config_arguments(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be 0\.\.\d+, not {value}$"):
        replace(CONFIG, **{name: value})


# Checksums


def test_udp_checksum_that_becomes_0_is_sent_as_ffff(referee) -> None:
    frame = cases.udp_to_zero()
    assert referee.host_accepts(frame)
    sent = transmit(frame, CONFIG, FlowTable())
    assert referee.segment(sent.frame).chksum == 0xFFFF
    assert referee.host_accepts(receive(sent.frame, CONFIG).frame)


def test_ambiguous_wire_form_would_have_been_accepted(referee) -> None:
    """Only for want of the raw fallback: made by hand, its wire form passes scapy's test."""
    frame = cases.ambiguous()
    assert referee.host_accepts(frame)
    x = payload_of(frame)
    assert (golden.lossy(x) == x).all(), "so that the checksum field stays as it is"
    block = golden.compress_block(np.array(x, np.float32), CONFIG.parameters)
    shim = bytes.fromhex("494e017a") + (4 * len(x)).to_bytes(2, "big") + bytes(2)
    length = 40 + len(shim) + len(block)
    wire_form = frame[:16] + length.to_bytes(2, "big") + frame[18:54] + shim + block
    assert referee.host_accepts(wire_form)
    # The next best payload of the same shape is sent.
    other = x.copy()
    other[5] = 0.5
    assert transmit(tcp(other.tobytes()), CONFIG, FlowTable()).verdict is V.COMPRESSED


def test_a_wrong_checksum_stays_as_wrong(referee) -> None:
    for frame, at in ((tcp(GRADIENTS), 50), (tcp(GRADIENTS), 24), (udp(GRADIENTS), 40)):
        right = int.from_bytes(frame[at : at + 2], "big")
        expected = receive(transmit(frame, CONFIG, FlowTable()).frame, CONFIG).frame
        for error in (1, 0x100, 0x8000):
            wrong = (right + error) % 0xFFFF
            spoilt = frame[:at] + wrong.to_bytes(2, "big") + frame[at + 2 :]
            back = receive(transmit(spoilt, CONFIG, FlowTable()).frame, CONFIG).frame
            difference = int.from_bytes(back[at : at + 2], "big") - int.from_bytes(
                expected[at : at + 2], "big"
            )
            assert difference % 0xFFFF == error
            assert not (referee.host_accepts(back) and referee.router_accepts(back))


# The receive engine


def test_marked_bad_is_restored_and_leaves_marked_bad() -> None:
    sent = transmit(tcp(GRADIENTS), CONFIG, FlowTable()).frame
    good, bad = receive(sent, CONFIG), receive(sent, CONFIG, bad=True)
    assert bad == replace(good, verdict=V.BAD, bad=True, tags=(0, 0, 0, 0))
    off = receive(sent, replace(CONFIG, enable=False), bad=True)
    assert (off.frame, off.verdict, off.bad) == (sent, V.BAD, True)


def test_cut_anywhere() -> None:
    """A compressed frame cut at every length: whatever is not malformed passes as it is."""
    frame = tcp(payload("edges", 61))
    sent = transmit(frame, CONFIG, FlowTable()).frame
    whole = receive(sent, CONFIG).frame
    for size in range(len(sent)):
        result = receive(sent[:size], CONFIG)
        if size < 54 + 8:
            assert result.verdict is (V.TRUNCATED if size < 54 else V.LENGTHS)
            assert result.frame == sent[:size]
            continue
        assert result.verdict is V.MALFORMED
        assert result.bad
        assert len(result.frame) == len(whole)
        assert result.unspecified_from is not None
        assert result.unspecified_from % 32 == 54 % 32
        assert result.frame[: result.unspecified_from] == whole[: result.unspecified_from]


@pytest.mark.parametrize(
    ("name", "unspecified_from"),
    [
        ("no block", 54),
        ("frame ends inside the tag plane", 54),
        ("frame ends inside a vector of the second group", 54 + 32),
        ("data one byte short", 54),
        ("one byte left over", None),
        ("absent lane with tag 01", 54 + 32),
        ("exponent -6", 54 + 32),
        ("impossible vector in the third group", 54 + 64),
    ],
)
def test_first_unspecified_byte(name: str, unspecified_from: int | None) -> None:
    (case,) = (case for case in cases_receive.malformed().cases if case.name == name)
    result = receive(case.frame, CONFIG)
    length = int.from_bytes(case.frame[58:60], "big")
    assert len(result.frame) == 54 + length
    assert int.from_bytes(result.frame[16:18], "big") == 40 + length
    assert result.unspecified_from == unspecified_from


def test_no_gradient_looks_like_a_shim() -> None:
    """Magic, version and the base of either mode, read as a float, are beyond any gradient."""
    bounds = range(wire.MIN_K, wire.MAX_K + 1)
    bases = {wire.parameters(k, mode).b for k in bounds for mode in wire.PAPER_MODES}
    assert bases == set(range(120, 128))
    for base in bases:
        assert np.frombuffer(bytes([0x49, 0x4E, 1, base]), "<f4")[0] > 1e34


def test_minimum_frames() -> None:
    """A compressed frame may be shorter than Ethernet's minimum; the padding that the MAC adds is dropped."""
    frame = udp(bytes(64))
    sent = transmit(frame, CONFIG, FlowTable()).frame
    assert len(sent) < packets.MINIMUM_FRAME
    assert receive(sent.ljust(packets.MINIMUM_FRAME, b"\xaa"), CONFIG).frame == frame
