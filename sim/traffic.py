# SPDX-License-Identifier: BSD-2-Clause
"""Random frames for soaks: valid ones of every kind, and corrupted ones for every check of the parser.

All are drawn from one seeded ``random.Random``, so a seed is a repeatable test.
"""

import random
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from inceptionn import wire
from inceptionn.wire import CodecParameters, Verdict

from .golden import EngineConfig, checksum, packets
from .golden.cases import alone, sharing_ports
from .golden.flows import Flow
from .golden.parse import parse
from .nic_codec import NIC_CODECS, codec_of

Frame = tuple[bytes, bool]
"""A frame and whether it is marked bad."""

BAD_SHARE = 0.02
_PORT = 5001
_PORTS = (*sharing_ports(3, _PORT), 40001)
"""Of the source: three of the flows have two ways."""
_FLAGS = (
    *(packets.ACK,) * 20, 0x18, 0x18, *(packets.SYN,) * 3, *(packets.SYN | packets.ACK,) * 3,
    packets.FIN | packets.ACK, packets.RST, packets.SYN | packets.FIN, packets.ACK | 0xE8,
)  # fmt: skip
_SPECIAL = (
    0x0000_0000, 0x8000_0000, 0x0000_0001, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0001, 0x7F80_0001,
    0x3F7F_FFFF, 0x3F80_0000, 0xBF80_0000, 0x3A80_0000, 0x3A7F_FFFF, 0x3C80_0000, 0x3C7F_FFFF,
)  # fmt: skip
"""Zeros, a denormal, infinities, NaNs, and both sides of the class edges at a bound of 2^-10."""


def sharing_flows(source: random.Random, count: int) -> list[Flow]:
    """Draw flows that share a set of the flow table; all else of their keys is random."""
    flows: list[Flow] = []
    while len(flows) < count:
        flow = Flow(*map(source.getrandbits, (32, 32, 16, 16)))
        if not flows or flow.slot == flows[0].slot:
            flows.append(flow)
    return flows


@cache
def _many_flows() -> list[Flow]:
    """Make flows of four sets, three of each: one more than there are ways."""
    return [flow for number in range(4) for flow in sharing_flows(random.Random(number), 3)]


def lanes(source: random.Random, count: int) -> bytes:
    """Draw ``count`` fp32 values of one kind.

    Kinds are gradients, one class, class edges and specials, and random bits.
    """
    words = np.random.default_rng(source.getrandbits(64))
    match source.randrange(8):
        case 0 | 1:
            scale = 10.0 ** source.uniform(-5, 0)
            return (words.standard_normal(count) * scale).astype("<f4").tobytes()
        case 2:
            return bytes(4 * count)
        case 3:
            return words.choice(np.array(_SPECIAL, "<u4"), count).tobytes()
        case 4:
            exponents = words.integers(source.randint(100, 126), 129, count, dtype=np.uint32)
            return (
                (exponents << 23 | words.integers(0, 1 << 23, count, dtype=np.uint32)).astype("<u4").tobytes()
            )
        case 5:
            return words.bytes(4 * count)
        case 6:  # on and beside what planes round to, and on both sides of its raw lanes
            exponents = words.integers(110, source.choice((128, 143)), count, dtype=np.uint32)
            mantissas = words.integers(0, 1 << 14, count, dtype=np.uint32) << source.choice((9, 16, 20))
            near = (exponents << 23 | mantissas & 0x7FFFFF) + words.integers(-1, 2, count).astype(np.uint32)
            return (near | words.integers(0, 2, count, dtype=np.uint32) << 31).astype("<u4").tobytes()
        case _:
            bits = words.integers(0, 1 << 32, count, dtype=np.uint32)
            return np.where(words.random(count) < 0.9, 0, bits).astype("<u4").tobytes()


def _count(source: random.Random, long_share: float) -> int:
    """Draw a number of lanes. Most are few, some at the edges of a group and of an MTU, a few jumbo ones."""
    draw = source.random()
    if draw < long_share:
        return source.choice((362, 365, 2237, 2240, 2250, 2303, 2304, 2305, source.randint(1, 2304)))
    if draw < 0.5:
        return source.choice((0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25))
    return source.randint(0, 120)


def good(source: random.Random, long_share: float = 0.01, flows: Sequence[Flow] = ()) -> bytes:
    """Make a frame with right lengths and checksums. Most are tagged and eligible, half of some ``flows``."""
    payload = lanes(source, _count(source, long_share))
    if source.random() < 0.04:
        payload += source.randbytes(source.randint(1, 3))
    fields: dict[str, Any] = {
        "tos": source.choice((0x28, 0x28, 0x28, 0x2A, 0x2B, 0x28, 0x00, 0x29, 0x68)),
        "source": packets.SOURCE + source.choice((0, 0, 0, 1, 1 << 20)),
        "identification": source.getrandbits(16),
    }
    fields["vlan"] = source.getrandbits(16) if source.random() < 0.2 else None
    fields["padding"] = source.randbytes(source.choice((0, 0, 0, 1, 6, 40)))
    fields |= {"source_port": source.choice(_PORTS), "destination_port": _PORT}
    if flows and source.random() < 0.5:
        fields |= source.choice(flows)._asdict()
    if source.random() < 0.25:
        return packets.udp(payload, **fields)
    flags = source.choice(_FLAGS)
    # Flows keep their grid most of the time.
    sequence = 4 * source.getrandbits(30) + (source.randrange(4) if source.random() < 0.1 else 0)
    sequence -= bool(flags & packets.SYN)
    options = source.randbytes(4 * source.choice((0, 0, 0, 3, 3, 3, 5, 10, source.randrange(11))))
    return packets.tcp(payload, sequence=sequence, flags=flags, tcp_options=options, **fields)


def _flip(source: random.Random, frame: bytearray) -> None:
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        at = source.randrange(min(len(frame), source.choice((40, 80, 120, len(frame)))))
        frame[at] ^= 1 << source.randrange(8)


def _replace(source: random.Random, frame: bytearray) -> None:
    frame[source.randrange(min(len(frame), 90))] = source.getrandbits(8)


def _truncate(source: random.Random, frame: bytearray) -> None:
    del frame[max(1, source.randrange(len(frame))) :]


def _extend(source: random.Random, frame: bytearray) -> None:
    frame += source.randbytes(source.choice((1, 4, 32, 100)))


def _total_length(source: random.Random, frame: bytearray) -> None:
    if len(frame) >= 18:
        change = source.choice((-40, -8, -4, -1, 1, 2, 4, 8, 40, 1500, source.getrandbits(16)))
        value = struct.unpack_from("!H", frame, 16)[0] + change
        struct.pack_into("!H", frame, 16, value & 0xFFFF)


def _ethertype(source: random.Random, frame: bytearray) -> None:
    if len(frame) >= 14:
        struct.pack_into("!H", frame, 12, source.choice((0x8100, 0x88A8, 0x86DD, 0x0806, 0x0800, 46)))


def _header_field(source: random.Random, frame: bytearray) -> None:
    """Change a header field of a frame without VLAN tag.

    It is IHL, version, ToS, fragment, protocol, data offset, flags or UDP length.
    """
    at, values = source.choice(
        (
            (14, (0x46, 0x44, 0x4F, 0x65, 0x40)),
            (15, (0x28, 0x2A, 0x00, 0x2C, 0xFF)),
            (20, (0x20, 0x40, 0x60, 0x1F, 0x80)),
            (21, (0x01, 0x80)),
            (23, (6, 17, 1, 41, 50)),
            (46, (0x00, 0x40, 0x50, 0x80, 0xF0)),
            (47, (0x02, 0x12, 0x10, 0xFF, 0x01, 0x04, 0x14)),
            (38, (0x00, 0x01)),
        )
    )
    if len(frame) > at:
        frame[at] = source.choice(values)


def _no_checksum(source: random.Random, frame: bytearray) -> None:
    """Set the UDP checksum field of a frame without VLAN tag to zero."""
    if len(frame) >= 42 and frame[23] == wire.PROTOCOL_UDP:
        frame[40:42] = bytes(2)


SPOILS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    _flip, _replace, _truncate, _extend, _total_length, _ethertype, _header_field, _no_checksum,
)  # fmt: skip


def _marked(source: random.Random, frame: bytes | bytearray) -> Frame:
    return bytes(frame), source.random() < BAD_SHARE


def near_ambiguous(frame: bytes, config: EngineConfig, wrong: int = 0) -> bytes:
    """Give ``frame`` a wrong TCP or UDP checksum, so that its wire form has the right one, or ``wrong`` more.

    A frame that would not leave compressed, on an empty flow table, stays as it is.
    """
    result = alone(frame, config)
    if result.verdict is not Verdict.COMPRESSED:
        return frame
    _, headers = parse(frame, config.tags, config.tos_mask, whole=True)
    assert headers is not None
    flow, l4, at = headers.flow, headers.l4, headers.checksum_at
    words = checksum.word_sum(result.frame[l4:]) + checksum.pseudo_header_sum(
        flow.source, flow.destination, headers.protocol, len(result.frame) - l4
    )
    field = (headers.checksum + wrong - words) % 0xFFFF or 0xFFFF  # in UDP, 0 would be no checksum
    return frame[:at] + field.to_bytes(2, "big") + frame[at + 2 :]


def noise(source: random.Random) -> bytes:
    """Draw random bytes; half of them look like IPv4 at first."""
    frame = bytearray(source.randbytes(source.choice((1, 13, 14, 20, 33, 34, 60, source.randint(1, 300)))))
    for at, value in ((12, 0x08), (13, 0x00), (14, 0x45), (15, 0x28), (20, 0), (21, 0), (23, 6)):
        if at < len(frame) and source.random() < 0.8:
            frame[at] = value
    return bytes(frame)


def host_frames(source: random.Random, count: int, long_share: float = 0.01) -> list[Frame]:
    """Make frames for a transmit engine.

    They are good, spoilt, noise, and now and then one longer than it can hold.
    """
    frames = []
    for _ in range(count):
        draw = source.random()
        if draw < 0.15:
            frames.append(_marked(source, noise(source)))
        elif draw < 0.15 + 0.02 * long_share:
            spare = source.choice((0, 1, 31, 32, 33, 200))
            long = packets.udp(bytes(400), padding=bytes(wire.MAX_TRANSMIT_FRAME - 442 + spare))
            frames.append(_marked(source, long))
        else:
            frame = bytearray(good(source, long_share, _many_flows()))
            if draw < 0.5:
                source.choice(SPOILS)(source, frame)
            frames.append(_marked(source, frame))
    return frames


def _shim_field(source: random.Random, frame: bytearray, at: int) -> None:
    """Set a field of the shim at byte ``at``, or a tag word or vector after it, to another value."""
    field = source.randrange(9)
    if field == 4:
        length = struct.unpack_from("!H", frame, at + 4)[0] + source.choice((-4, -2, 1, 4, 8, 32, 64, 1000))
        struct.pack_into("!H", frame, at + 4, length & 0xFFFF)
    else:
        where = at + (field if field < 8 else source.randrange(8, 40))
        if where < len(frame):
            frame[where] ^= 1 << source.randrange(8)


def wire_frames(
    source: random.Random, count: int, params: CodecParameters, long_share: float = 0.01
) -> list[Frame]:
    """Make frames for a receive engine: compressed ones, good and spoilt, among others that pass.

    ``params`` are those of the sender; a frame's shim tells the receiver what it needs of them. One frame in
    thirty is of a sender with the other codec.
    """
    (other,) = (codec for codec in NIC_CODECS.values() if codec != codec_of(params))
    foreign = other.spec.parameters(source.randint(1, 14))
    senders = [EngineConfig(parameters=each) for each in (params, foreign)]
    frames: list[Frame] = []
    while len(frames) < count:
        draw = source.random()
        if draw < 0.1:
            frames.append(_marked(source, noise(source)))
            continue
        frame = bytearray(good(source, long_share))
        config = senders[source.random() < 1 / 30]
        result = alone(bytes(frame), config)
        if result.verdict is Verdict.COMPRESSED:
            frame = bytearray(result.frame)
            at = result.frame.index(config.format.shim(config.format.base, 0)[:4], 34)
            if draw < 0.3:
                _shim_field(source, frame, at)
            if source.random() < 0.1:
                _extend(source, frame)
        if 0.2 < draw < 0.45:
            source.choice(SPOILS)(source, frame)
        frames.append(_marked(source, frame))
    return frames
