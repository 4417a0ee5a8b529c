# SPDX-License-Identifier: BSD-2-Clause
"""Stimuli for the engines' benches: hand-written cases, every header shape, cuts, limits, random traffic."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
from decompressor_blocks import MALFORMATIONS, good
from engine_bench import DEFAULT, Stimulus

from inceptionn.sim.golden import EngineConfig, FlowTable, Result, receive, transmit
from inceptionn.sim.golden.cases import Sequence as CaseSequence
from inceptionn.sim.golden.cases import alone
from inceptionn.sim.golden.packets import RST, SYN, tcp, udp
from inceptionn.sim.golden.parse import parse
from inceptionn.sim.golden.values import KINDS, payload
from inceptionn.sim.traffic import Frame, near_ambiguous, sharing_flows
from inceptionn.wire import (
    CODECS,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_SERVICE_VLAN,
    ETHERTYPE_VLAN,
    GROUP_LANES,
    MAX_K,
    MAX_LANES,
    MODES,
    SHIM_MAGIC,
    Parameters,
    Verdict,
    parameters,
)

TOS = DEFAULT.tos
OPTION_SIZES = range(0, 41, 4)
"""Bytes of TCP options: data offsets 5 to 15."""
PARAMETERS = [parameters(k, mode) for mode in MODES for k in range(1, MAX_K + 1)]


def be16(frame: bytes, at: int) -> int:
    """Return the big-endian 16-bit field at byte ``at``."""
    return int.from_bytes(frame[at : at + 2], "big")


@cache
def replay(sequences: Callable[[], Sequence[CaseSequence]]) -> list[Stimulus]:
    """All hand-written cases in one stream, settings changing from frame to frame.

    A sequence begins with an empty flow table: a segment with RST ends each flow that the last one left.
    """
    stimuli: list[Stimulus] = []
    table = FlowTable()
    for sequence in sequences():
        ended = []
        for case in sequence.cases:
            transmit(case.frame, sequence.config, table, case.bad)
            _, headers = parse(case.frame, (0,), 0, whole=False)
            if headers and table.phase(headers.flow) is not None:
                ended.append(tcp(b"", flags=RST, **headers.flow._asdict()))
        stimuli += [
            Stimulus(case.frame, case.bad, sequence.config, f"{sequence.name}: {case.name}", case.verdict)
            for case in sequence.cases
        ]
        for frame in dict.fromkeys(ended):
            stimuli.append(Stimulus(frame, config=sequence.config, name=f"after {sequence.name}"))
            transmit(frame, sequence.config, table)
        assert not len(table)
    return stimuli


def sent(frame: bytes, config: EngineConfig = DEFAULT) -> bytes:
    """``frame`` as it goes over the wire."""
    result = alone(frame, config)
    assert result.verdict is Verdict.COMPRESSED, result.verdict.name
    return result.frame


def shapes(data: Callable[[], bytes], paddings: Sequence[int] = (0,), tos: int = TOS) -> Iterator[bytes]:
    """Frames with every length of TCP options, or UDP, with and without a VLAN tag."""
    for vlan in (None, 0x6FFF):
        for padding in paddings:
            rest = {"vlan": vlan, "padding": random.randbytes(padding), "tos": tos}
            yield udp(data(), **rest)
            for size in OPTION_SIZES:
                yield tcp(data(), tcp_options=random.randbytes(size), **rest)


def with_field(frame: bytes, at: int, value: int) -> bytes:
    """``frame`` with a 16-bit field set."""
    return frame[:at] + value.to_bytes(2, "big") + frame[at + 2 :]


def ethertypes(arriving: Callable[[bytes], bytes] = bytes) -> Iterator[Stimulus]:
    """Frames with each EtherType that is told apart, and with any one bit of it wrong; behind a tag, too."""
    for vlan, at in ((None, 12), (1, 12), (1, 16)):
        frame = arriving(tcp(bytes(160), vlan=vlan))
        for right in (ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, ETHERTYPE_SERVICE_VLAN):
            for value in (right, *(right ^ 1 << bit for bit in range(16))):
                yield Stimulus(with_field(frame, at, value), name=f"{value:04x}")


def checksum_edges(
    frame: bytes, at: int, config: EngineConfig, answer: Callable[[bytes], Result]
) -> list[Stimulus]:
    """``frame`` with the checksum field at ``at`` such that ``answer`` makes of it 0, 1, or 0xFFFE.

    Those are the values around one's complement's two zeros; 0 comes in and out as 0 or 0xFFFF.
    """
    moved = int.from_bytes(answer(with_field(frame, at, 0xFFFF)).frame[at : at + 2], "big")
    stimuli = []
    for wanted in (0, 1, 0xFFFE):
        field = (wanted - moved) % 0xFFFF
        for value in {field, field or 0xFFFF}:
            name = f"checksum {value:#06x} at {at}"
            stimuli.append(Stimulus(with_field(frame, at, value), config=config, name=name))
    return stimuli


def ambiguous_edges(frame: bytes, config: EngineConfig) -> list[Stimulus]:
    """``frame`` with a wrong checksum, with which its wire form is right, and with the two next to it."""
    return [
        Stimulus(near_ambiguous(frame, config, wrong), config=config, name="ambiguous")
        for wrong in (-1, 0, 1)
    ]


def both_ways(pairs: int) -> Iterator[Stimulus]:
    """Pairs of random flows of one set: both are known, each with its own phase, until one is forgotten."""
    config = replace(DEFAULT, learn_phases=False, min_payload=0)
    for _ in range(pairs):
        a, b = (partial(tcp, **flow._asdict()) for flow in sharing_flows(random, 2))
        own = list(zip((a, b), random.sample(range(4), 2), strict=True))
        frames = [flow(b"", sequence=phase - 1, flags=SYN) for flow, phase in own]
        frames += [flow(bytes(32), sequence=phase) for flow in (a, b) for _, phase in own]
        frames += [random.choice((a, b))(b"", flags=RST)]
        frames += [flow(bytes(32), sequence=phase) for flow, phase in own]
        yield from (Stimulus(frame, config=config) for frame in frames)


Maker = Callable[[str, int], bytes]
"""Makes a payload of a kind, as long as so many fp32 lanes."""


def sent_checksum_edges(
    config: EngineConfig = DEFAULT, tos: int = TOS, make: Maker = payload
) -> list[Stimulus]:
    """For a transmit engine: IP, TCP and UDP checksums, with payloads that lose bits or do not."""
    stimuli = []
    for data in (bytes(64), make("gradients", 17), make("fractions", 40)):
        for frame, places in (
            (tcp(data, tos=tos), (24, 50)),
            (udp(data, tos=tos), (24, 40)),
            (tcp(data, vlan=1, tos=tos), (28, 54)),
        ):
            for at in places:
                stimuli += checksum_edges(frame, at, config, lambda form: alone(form, config))
            stimuli += ambiguous_edges(frame, config)
    for number in range(2 * len(OPTION_SIZES)):
        data = make("gradients", random.randint(17, 365))
        options, vlan = random.randbytes(OPTION_SIZES[number % len(OPTION_SIZES)]), (None, 1)[number % 2]
        frame = tcp(data, tos=tos, tcp_options=options, vlan=vlan)
        stimuli += ambiguous_edges(frame, config)
    return stimuli


def restored_checksum_edges(
    config: EngineConfig = DEFAULT, tos: int = TOS, make: Maker = payload
) -> list[Stimulus]:
    """For a receive engine: IP checksums."""
    stimuli = []
    for data in (bytes(64), make("gradients", 365)):
        for frame, at in ((tcp(data, tos=tos), 24), (udp(data, vlan=1, tos=tos), 28)):
            stimuli += checksum_edges(sent(frame, config), at, config, lambda form: receive(form, config))
    return stimuli


def cuts(frame: bytes, name: str) -> list[Stimulus]:
    """``frame`` cut off after every byte up to the 130th."""
    return [Stimulus(frame[:end], name=f"{name}, cut") for end in range(1, min(len(frame), 130) + 1)]


def cut_frames(data: bytes, form: Callable[[bytes], bytes] = bytes) -> list[Stimulus]:
    """Tagged frames of three kinds, each sent in this form, that end after any of their first 130 bytes."""
    return [
        *cuts(form(tcp(data)), "TCP"),
        *cuts(form(tcp(data, vlan=5, tcp_options=bytes(12))), "TCP with VLAN tag and options"),
        *cuts(form(udp(data)), "UDP"),
    ]


def with_good_between(stimuli: list[Stimulus], step: int, good: Callable[[], bytes]) -> list[Stimulus]:
    """Insert a good frame in every place that is a multiple of ``step``; return the stimuli."""
    for place in range(0, len(stimuli), step):
        stimuli.insert(place, Stimulus(good(), name="good one between"))
    return stimuli


def ragged(frame: bytes, places: Iterable[int]) -> Iterator[Stimulus]:
    """Yield the frame with each of these beats, before ``tlast``, not full; good frames follow each time."""
    for place in sorted(places):
        yield Stimulus(frame, name="ragged", partial=place)
        yield from (Stimulus(frame, name="after a ragged one"), *ones(1))


def changing_configs() -> EngineConfig:
    """Any setting, most of them such that an ordinary frame is still treated."""
    config = EngineConfig(
        parameters=random.choice(PARAMETERS),
        min_payload=random.choice([0, 4, 64, 100]),
        max_payload=random.choice([9216, 9216, 9216, 256, 300]),
        learn_phases=random.random() < 0.3,
    )
    draw = random.random()
    if draw < 0.1:
        return replace(config, enable=False)
    if draw < 0.2:
        return replace(config, parameters=Parameters(random.getrandbits(8), random.getrandbits(8), 127))
    if draw < 0.3:
        return replace(config, tos=random.choice([0x28, 0x68, 0x29]), tos_mask=random.choice([0xFF, 0x3F, 0]))
    return config


def with_configs(frames: Sequence[Frame]) -> list[Stimulus]:
    """Random traffic, each frame with settings of its own."""
    return [Stimulus(frame, bad, changing_configs()) for frame, bad in frames]


def segments(data: Callable[[int], bytes], size: int, number: int, tos: int = 0x28) -> list[Stimulus]:
    """Return ``number`` segments of one flow, of ``size`` bytes of payload each."""
    return [
        Stimulus(tcp(data(index), sequence=size * index, tos=tos), name=f"segment of {size} bytes")
        for index in range(number)
    ]


def barely(size: int) -> bytes:
    """Return a payload that saves 12 bytes: the compression ratio closest to 1."""
    lanes = size // 4
    shorter = -(-(8 + 2 * -(-lanes // GROUP_LANES) + 12) // 2)  # lanes of 16 bits instead of 32
    values = np.full(lanes, 1.5, "<f4")
    values[:: max(1, lanes // (shorter + 1))][:shorter] = 0.75
    return values.tobytes()


def pattern(size: int, *values: float) -> bytes:
    """Return a payload that repeats ``values``."""
    return np.resize(np.array(values, "<f4"), size // 4).tobytes()


RATIOS: dict[str, Callable[[int], bytes]] = {
    "just below 1": lambda size: pattern(size, 1.5),
    "just above 1": barely,
    "2": lambda size: pattern(size, 0.75),
    "3 or 4": lambda size: pattern(size, 0.002),
    "8 on average": lambda size: pattern(size, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.75, 0.0),
    "nearly 16": lambda size: pattern(size, 0.0),
}
"""Payloads by ratio, for the default settings; the first does not shrink and is sent raw."""


def shim(base: int, length: int) -> bytes:
    """Return a valid shim."""
    head = SHIM_MAGIC.to_bytes(2, "big") + bytes([CODECS["paper"].version, base])
    return head + length.to_bytes(2, "big") + bytes(2)


def malformed_frames(number: int) -> list[Stimulus]:
    """Blocks of every malformation in frames, with options and padding, some cut short by the network."""
    stimuli = []
    while len(stimuli) < number:
        kind = random.choice(list(MALFORMATIONS))
        count = random.choice([9, 17, 100, random.randint(3, 60), random.randint(3, 400)])
        block = good(count, random.choice(PARAMETERS), random.choice(list(KINDS)), random)
        block = MALFORMATIONS[kind](block, random)
        data = shim(block.base, 4 * block.count & 0xFFFF) + block.data
        if block.count > MAX_LANES or len(data) > 4 * count + 200:
            data = data[: 4 * count]
        options = bytes(random.choice(OPTION_SIZES))
        frame = tcp(data, tcp_options=options, padding=bytes(random.choice([0, 0, 5, 40])))
        if random.random() < 0.2:
            frame = frame[: random.randint(60, len(frame))]
        stimuli.append(Stimulus(frame, random.random() < 0.1, name=f"{kind} of {count} lanes"))
    return stimuli


def ones(number: int) -> list[Stimulus]:
    """Return a run of frames of one beat, as a switch would never send them, but a host's test might."""
    return [
        Stimulus(random.randbytes(random.randint(1, 32)), random.random() < 0.1, name="one beat")
        for _ in range(number)
    ]


def minimum_frames(number: int, tos: int = 0) -> list[Stimulus]:
    """Frames of 64 bytes."""
    return [Stimulus(tcp(bytes(10), tos=tos), name="64 bytes")] * number


def long_frame(size: int, tagged: bool, bad: bool = False) -> Stimulus:
    """Return a datagram of 400 bytes of floats in a frame of ``size`` bytes, most of it padding."""
    head = udp(payload("gradients", 100), tos=0x28 if tagged else 0)
    return Stimulus(head + random.randbytes(size - len(head)), bad, name="long frame")
