# SPDX-License-Identifier: BSD-2-Clause
"""The frame transform: every verdict, and what each does to a frame, with scapy as referee."""

from dataclasses import replace

import numpy as np
import pytest

from inceptionn import wire
from inceptionn.sim import golden
from inceptionn.sim.golden import EngineConfig, Flow, FlowTable, cases, packets, planes, receive, transmit
from inceptionn.sim.golden.cases import CODECS, GRADIENTS, alone
from inceptionn.sim.golden.cases.bf16 import CONFIG as BF16
from inceptionn.sim.golden.cases.checksums import ambiguous, udp_to_zero
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.values import payload
from inceptionn.wire import Verdict as V

CONFIG = EngineConfig()
PLANES = CODECS["planes"].CONFIG
TRANSMIT = {name: cases.transmit_sequences(name) for name in (*CODECS, "bf16")}
RECEIVE = {name: cases.receive_sequences(name) for name in (*CODECS, "bf16")}


def every(sequences: dict[str, list[cases.Sequence]]) -> pytest.MarkDecorator:
    """Make a test for each sequence of each codec."""
    found = [
        pytest.param(each, id=f"{codec}-{each.name}") for codec, list_ in sequences.items() for each in list_
    ]
    return pytest.mark.parametrize("sequence", found)


COMMON = {V.BAD, V.DISABLED, V.TRUNCATED, V.VLAN_STACK, V.IPV6, V.NOT_IPV4, V.UNTAGGED}
COMMON |= {V.IP_OPTIONS, V.FRAGMENT, V.PROTOCOL, V.LENGTHS, V.SYN, V.NO_CHECKSUM}
TRANSMIT_VERDICTS = {V.COMPRESSED, V.SHORT, V.LONG, V.ALIGNMENT, V.UNKNOWN_FLOW, V.PHASE, V.EXPANDED}
TRANSMIT_VERDICTS |= {V.AMBIGUOUS}
RECEIVE_VERDICTS = {V.RESTORED, V.NO_SHIM, V.BAD_SHIM, V.MALFORMED}


def payload_of(frame: bytes, kind: str = "<f4") -> np.ndarray:
    """Return the payload of a frame without padding, as the receiving host reads it."""
    l3 = 18 if frame[12:14] == b"\x81\0" else 14
    start = l3 + 20 + (4 * (frame[l3 + 32] >> 4) if frame[l3 + 9] == 6 else 8)
    return np.frombuffer(frame[start:], kind)


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


@pytest.mark.parametrize("codec", CODECS)
def test_every_verdict_has_a_case(codec: str) -> None:
    for sequences, own in ((TRANSMIT, TRANSMIT_VERDICTS), (RECEIVE, RECEIVE_VERDICTS)):
        assert {case.verdict for sequence in sequences[codec] for case in sequence.cases} == COMMON | own
    assert COMMON | TRANSMIT_VERDICTS | RECEIVE_VERDICTS == set(V)


@every(TRANSMIT)
def test_transmit(sequence: cases.Sequence, referee) -> None:
    config, flows = sequence.config, FlowTable()
    for case in sequence.cases:
        result = transmit(case.frame, config, flows, case.bad)
        assert result.verdict is case.verdict, case.name
        assert result.bad == case.bad
        assert result.unspecified_from is None
        if result.verdict is not V.COMPRESSED:
            assert result.frame == case.frame, case.name
            assert result.counts == ()
            continue
        check_wire_form(case.frame, result, referee)
        check_restored(case.frame, result.frame, config, referee)


@pytest.mark.parametrize(
    "sleeping", [replace(CONFIG, enable=False), replace(CONFIG, parameters=wire.Parameters(0, 0, 0))]
)
def test_the_flow_table_does_not_sleep(sleeping: EngineConfig) -> None:
    """An engine that is off, or has no valid numbers, takes note of SYN, FIN and RST all the same."""
    values, flows = tcp(GRADIENTS, sequence=3), FlowTable()
    for frame, after in (
        (tcp(b"", sequence=2, flags=packets.SYN), V.COMPRESSED),
        (tcp(b"", sequence=3, flags=packets.SYN), V.PHASE),
        (tcp(b"", flags=packets.FIN, tos=0), V.UNKNOWN_FLOW),
        (tcp(b"", sequence=2, flags=packets.SYN), V.COMPRESSED),
        (tcp(b"", flags=packets.RST), V.UNKNOWN_FLOW),
    ):
        assert transmit(frame, sleeping, flows).verdict is V.DISABLED
        assert transmit(values, sleeping, flows).verdict is V.DISABLED
        assert transmit(values, CONFIG, flows).verdict is after


@pytest.mark.parametrize(("size", "stored"), [(wire.MAX_TRANSMIT_FRAME, 1), (wire.MAX_TRANSMIT_FRAME + 1, 0)])
def test_longest_frame_that_reaches_the_flow_table(size: int, stored: int) -> None:
    flows = FlowTable()
    for flags, held in ((packets.SYN, stored), (packets.RST, 0)):
        transmit(tcp(b"", flags=flags, padding=bytes(size - 54)), CONFIG, flows)
        assert len(flows) == held


@pytest.mark.parametrize("config", [each.CONFIG for each in CODECS.values()], ids=CODECS)
def test_every_value_keeps_the_bound_however_segments_are_cut(config: EngineConfig) -> None:
    """SYN of A, 1000 bytes, 402 bytes, SYNs of flows of A's set, 1400 bytes from 1402: no value is off."""
    stream = np.random.default_rng(1).normal(0, 0.1, 1000).astype("<f4")
    data, flows, came = stream.tobytes(), FlowTable(), bytearray()
    transmit(tcp(b"", sequence=7, flags=packets.SYN), config, flows)
    flow = Flow(packets.SOURCE, packets.DESTINATION, 40000, 5000)
    others = [port for port in range(1, 40000) if flow._replace(source_port=port).slot == flow.slot]
    for start, end in ((0, 1000), (1000, 1402), (1402, 2802), (2802, 4000)):
        segment = tcp(data[start:end], sequence=8 + start)
        came += receive(transmit(segment, config, flows).frame, config).frame[54:]
        for port in others[:2]:
            transmit(tcp(b"", sequence=1, source_port=port, flags=packets.SYN), config, flows)
    assert flows.phase(flow) is None
    assert np.abs(np.frombuffer(came, "<f4") - stream).max() <= 2.0**-10


def check_wire_form(frame: bytes, result: golden.Result, referee) -> None:
    assert len(result.frame) < len(frame)
    assert referee.router_accepts(result.frame) == referee.router_accepts(frame)
    assert not referee.host_accepts(result.frame)
    packet = referee.ip(result.frame)
    assert packet.len == len(packet.original), "padding is gone"
    if packet.proto == wire.PROTOCOL_UDP:
        assert referee.segment(result.frame).len == packet.len - 20
        assert referee.segment(result.frame).chksum != 0


def lossy_and_counts(x: np.ndarray, config: EngineConfig) -> tuple[np.ndarray, tuple[int, ...]]:
    """By the functions for streams of the golden codec."""
    if isinstance(config.parameters, wire.Parameters):
        params = config.parameters
        return golden.lossy(x, params=params), tuple(golden.histogram(x, params=params).tolist())
    bound = 2.0 ** (config.parameters.e0 - wire.EXPONENT_BIAS)
    kind = wire.FP32_LANES if x.dtype == np.float32 else wire.BF16_LANES
    return planes.lossy(x, bound, kind), tuple(planes.histogram(x, bound, kind).tolist())


def check_restored(frame: bytes, sent: bytes, config: EngineConfig, referee) -> None:
    back = receive(sent, config)
    assert back.verdict is V.RESTORED
    assert not back.bad
    end = len(back.frame)
    assert referee.ip(frame).len == referee.ip(back.frame).len == len(referee.ip(back.frame).original)
    tags = {(config.bf16_tos or 0) & 0xFC: "<u2", config.tos & 0xFC: "<f4"}
    kind = tags.get(referee.ip(frame).tos & 0xFC, "<f4") if config.bf16_tos is not None else "<f4"
    original, seen = payload_of(frame[:end], kind), payload_of(back.frame, kind)
    lossy, counts = lossy_and_counts(original, config)
    assert seen.tobytes() == lossy.tobytes()
    assert back.counts == counts
    assert referee.router_accepts(back.frame) == referee.router_accepts(frame)
    assert referee.host_accepts(back.frame) == referee.host_accepts(frame)
    # Nothing but the payload and its checksum has changed.
    headers = bytearray(back.frame[: -seen.nbytes])
    checksum_at = len(headers) - 2 if frame[23 + (4 if frame[12] == 0x81 else 0)] == 17 else None
    if checksum_at is None:
        checksum_at = (18 if frame[12] == 0x81 else 14) + 36
    headers[checksum_at : checksum_at + 2] = frame[checksum_at : checksum_at + 2]
    assert headers == frame[: len(headers)]


@every(RECEIVE)
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
            bf16 = sequence.config.bf16_tos is not None and case.frame[case.frame.index(b"IN") + 3] > 128
            lanes = len(payload_of(result.frame, "<u2" if bf16 else "<f4"))
            paper = isinstance(sequence.config.parameters, wire.Parameters)
            assert sum(result.counts) == (lanes if paper else -(-lanes // (16 if bf16 else 8)))
            assert result.lanes == lanes
        else:
            assert result.lanes == 0
            assert result.counts == ()


def test_compressed_by_hand() -> None:
    """One frame, byte for byte: 2**-7 and fifteen zeros at a bound of 2**-10."""
    frame = tcp(bytes.fromhex("0000003c") + bytes(60))
    sent = cases.sent(frame, CONFIG)
    assert sent[54:].hex() == "494e017a004000000100000020"
    assert sent[16:18].hex() == f"{20 + 20 + 8 + 5:04x}"
    assert int.from_bytes(sent[24:26], "big") == int.from_bytes(frame[24:26], "big") + (64 - 13)
    assert sent[50:52] == frame[50:52]  # nothing was lost, so the checksum is the same
    untouched = [i for i in range(54) if i not in (16, 17, 24, 25)]
    assert [sent[i] for i in untouched] == [frame[i] for i in untouched]
    assert receive(sent, CONFIG).frame == frame


def test_planes_compressed_by_hand() -> None:
    """The example of planes.md in a frame: at a bound of 2**-10, one group, and one of zeros."""
    values = [2**-9, -(2**-9), 0.003, -0.0049, 2**-10, -(2**-10), 2**-11, 0.0146, *[0.0] * 8]
    sent = alone(tcp(np.array(values, "<f4").tobytes()), PLANES)
    assert sent.frame[54:].hex() == "494e027500400000" + "0400" + "2a918c80"
    assert sent.counts == (1, 0, 0, 0, 1, *[0] * 11)
    back = receive(sent.frame, PLANES)
    expected = np.array([1, -1, 2, -3, 1, -1, 0, 7, *[0] * 8]) * 2.0**-9
    assert payload_of(back.frame).tolist() == expected.tolist()


def test_bf16_compressed_by_hand() -> None:
    """A hand-made vector of wire-format.md section 10 in a frame: eight lanes, and 24 of zeros."""
    lanes = bytes.fromhex("003b00bb453ba1bb803a80ba003a6f3c")
    sent = alone(tcp(lanes + bytes(48), tos=BF16.bf16_tos), BF16)
    assert sent.frame[54:].hex() == "494e02f500400000" + "0400" + "2a0091008c008000"
    assert (sent.counts, sent.lanes) == ((1, 0, 0, 0, 1, *[0] * 11), 32)
    back = receive(sent.frame, BF16)
    steps = np.array([1, -1, 2, -3, 1, -1, 0, 7, *[0] * 24]) * 2.0**-9
    assert ((payload_of(back.frame, "<u2").astype(np.uint32) << 16).view(np.float32) == steps).all()


@pytest.mark.parametrize(("sender", "receiver"), [(CONFIG, PLANES), (PLANES, CONFIG)])
def test_the_other_version_passes_and_the_host_refuses_it(
    sender: EngineConfig, receiver: EngineConfig, referee
) -> None:
    for frame in (tcp(GRADIENTS), udp(GRADIENTS), tcp(payload("gradients", 362), vlan=1)):
        sent = alone(frame, sender)
        came = receive(sent.frame, receiver)
        assert (came.frame, came.verdict, came.bad) == (sent.frame, V.BAD_SHIM, False)
        assert not referee.host_accepts(came.frame)


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


@pytest.mark.parametrize("codec", CODECS)
def test_udp_checksum_that_becomes_0_is_sent_as_ffff(codec: str, referee) -> None:
    config = CODECS[codec].CONFIG
    frame = udp_to_zero(CODECS[codec])
    assert referee.host_accepts(frame)
    sent = alone(frame, config)
    assert referee.segment(sent.frame).chksum == 0xFFFF
    assert referee.host_accepts(receive(sent.frame, config).frame)


@pytest.mark.parametrize("codec", CODECS)
def test_ambiguous_wire_form_would_have_been_accepted(codec: str, referee) -> None:
    """Only for want of the raw fallback: made by hand, its wire form passes scapy's test."""
    config = CODECS[codec].CONFIG
    frame = ambiguous(CODECS[codec])
    assert referee.host_accepts(frame)
    x = np.array(payload_of(frame), np.float32)
    assert (lossy_and_counts(x, config)[0] == x).all(), "so that the checksum field stays as it is"
    if codec == "paper":
        block, head = golden.compress_block(x, config.parameters), "494e017a"
    else:
        block, head = planes.compress_block(x, config.parameters.e0), "494e0275"
    shim = bytes.fromhex(head) + (4 * len(x)).to_bytes(2, "big") + bytes(2)
    length = 40 + len(shim) + len(block)
    wire_form = frame[:16] + length.to_bytes(2, "big") + frame[18:54] + shim + block
    assert referee.host_accepts(wire_form)
    # The next best payload of the same shape is sent.
    other = x.copy()
    other[5] = 0.5
    assert alone(tcp(other.tobytes()), config).verdict is V.COMPRESSED


def test_a_wrong_checksum_stays_as_wrong(referee) -> None:
    for frame, at in ((tcp(GRADIENTS), 50), (tcp(GRADIENTS), 24), (udp(GRADIENTS), 40)):
        right = int.from_bytes(frame[at : at + 2], "big")
        expected = receive(cases.sent(frame, CONFIG), CONFIG).frame
        for error in (1, 0x100, 0x8000):
            wrong = (right + error) % 0xFFFF
            spoilt = frame[:at] + wrong.to_bytes(2, "big") + frame[at + 2 :]
            back = receive(cases.sent(spoilt, CONFIG), CONFIG).frame
            difference = int.from_bytes(back[at : at + 2], "big") - int.from_bytes(
                expected[at : at + 2], "big"
            )
            assert difference % 0xFFFF == error
            assert not (referee.host_accepts(back) and referee.router_accepts(back))


# The receive engine


def test_marked_bad_is_restored_and_leaves_marked_bad() -> None:
    sent = cases.sent(tcp(GRADIENTS), CONFIG)
    good, bad = receive(sent, CONFIG), receive(sent, CONFIG, bad=True)
    assert bad == replace(good, verdict=V.BAD, bad=True, counts=(), lanes=0)
    off = receive(sent, replace(CONFIG, enable=False), bad=True)
    assert (off.frame, off.verdict, off.bad) == (sent, V.BAD, True)


@pytest.mark.parametrize("config", [each.CONFIG for each in CODECS.values()], ids=CODECS)
def test_cut_anywhere(config: EngineConfig) -> None:
    """A compressed frame cut at every length: whatever is not malformed passes as it is."""
    frame = tcp(payload("edges", 61))
    sent = cases.sent(frame, config)
    whole = receive(sent, config).frame
    for size in range(len(sent)):
        result = receive(sent[:size], config)
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
    ("codec", "name", "unspecified_from"),
    [
        ("paper", "no block", 54),
        ("paper", "frame ends inside the tag table", 54),
        ("paper", "frame ends inside a vector of the second group", 54 + 32),
        ("paper", "data one byte short", 54),
        ("paper", "one byte left over", None),
        ("paper", "absent lane with tag 01", 54 + 32),
        ("paper", "exponent -6", 54 + 32),
        ("paper", "impossible vector in the third group", 54 + 64),
        ("planes", "no block", 54),
        ("planes", "frame ends inside the code table", 54),
        ("planes", "frame ends inside the second group", 54 + 32),
        ("planes", "ends inside the third group of four", 54 + 64),
        ("planes", "one byte left over", None),
        ("planes", "code of a third group of two", 54),
        ("planes", "code of an eighth group of five", 54 + 4 * 32),
        ("planes", "absent lane in the signs' plane", 54 + 32),
        ("planes", "absent -0.0 in a raw group", 54 + 32),
    ],
)
def test_first_unspecified_byte(codec: str, name: str, unspecified_from: int | None) -> None:
    (case,) = (case for case in CODECS[codec].malformed().cases if case.name == name)
    result = receive(case.frame, CODECS[codec].CONFIG)
    length = int.from_bytes(case.frame[58:60], "big")
    assert len(result.frame) == 54 + length
    assert int.from_bytes(result.frame[16:18], "big") == 40 + length
    assert result.unspecified_from == unspecified_from


def test_no_gradient_looks_like_a_shim() -> None:
    """Magic, version and byte 3 of every mode, read as a float, are beyond any gradient."""
    ks = range(wire.MIN_K, wire.MAX_K + 1)
    bases = {wire.parameters(k, mode).b for k in ks for mode in wire.MODES}
    assert bases == set(range(120, 128))
    e0s = {wire.planes_parameters(k).e0 for k in ks}
    assert e0s == set(range(113, 127))
    for version, numbers, least in ((1, bases, 1e34), (2, e0s, 6e29)):
        for number in numbers:
            assert np.frombuffer(bytes([0x49, 0x4E, version, number]), "<f4")[0] > least


def test_minimum_frames() -> None:
    """A compressed frame may be shorter than Ethernet's minimum; the padding that the MAC adds is dropped."""
    frame = udp(bytes(64))
    sent = cases.sent(frame, CONFIG)
    assert len(sent) < packets.MINIMUM_FRAME
    assert receive(sent.ljust(packets.MINIMUM_FRAME, b"\xaa"), CONFIG).frame == frame
