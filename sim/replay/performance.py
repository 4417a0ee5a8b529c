# SPDX-License-Identifier: BSD-2-Clause
"""The engines' throughput, idle cycles and latency, measured on a verilated NIC.

Every figure is computed from the cycles in which beats moved. Throughput is sustained: it counts the beats of
a long back-to-back run from its second quarter on, over the cycles that they took. So neither the end of the
run counts nor its beginning, when the memories fill and the engines' shares of the frames differ by one or
two. The outputs are always ready and the inputs never pause.

A NIC with several engines per direction, or more lanes, must reach the same rates for one flow, in beats of
its own wider streams. Its latency may be longer (`EXTRA_LATENCY`, `WIDE_LATENCY`). Serial engines (one lane)
must carry 1 Gbit/s at 70 MHz, and store each frame before they read it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from inceptionn.wire import BURST_BYTES, DEFAULT_TOS, GROUP_LANES, LANE_BYTES

from ..golden import packets
from ..verilated import Output, VerilatedNic
from .payloads import PAYLOADS, RAW, Values, gradients, table_bytes

Direction = Literal["transmit", "receive"]

MTUS = (1500, 9000)
SEED = 1
"""Of the frames' payloads."""
LEAST_RATE = 0.97
"""Least beats per cycle, sustained."""
EXTRA_LATENCY = 48
"""Cycles more with several engines, and the leaving frame's bursts: it waits until it is whole."""
WIDE_LATENCY = 8
"""Cycles more with engines of 16 lanes, whose adders and shifters have more stages."""

TIMESTAMPS = b"\x01\x01\x08\x0a" + bytes(8)
"""TCP timestamps (RFC 7323): with them a payload starts at byte 66 of the frame, without at byte 54."""
UNCHANGED = ("bypass", "raw fallback")
"""Kinds of frames that pass as they are."""
_FRAMES = {1500: 240, 9000: 60}
"""Frames of a run for each engine, by MTU."""


@dataclass(frozen=True)
class Limits:
    """What a NIC's figures must reach."""

    rate: float
    """Least beats per cycle, sustained."""
    idle: float
    """Most idle cycles per 64-byte frame, back to back."""
    latency: dict[str, int]
    """Most cycles by kind, first beat to first beat, beyond `Latency.allowance`."""


WIDE = Limits(LEAST_RATE, 2, {"receive bypass": 24, "receive restored": 56, "transmit": 48})
SERIAL = Limits(0.45, 33, {"receive bypass": 40, "receive restored": 40, "transmit": 48})
"""With preamble, FCS and gap, 1 Gbit/s at 70 MHz leaves 49 cycles to a 64-byte frame of 16 beats, and asks
0.445 beats per cycle of full-length frames."""


@dataclass(frozen=True)
class Rate:
    """Sustained throughput of one direction for one kind of frame, in beats of its streams per cycle."""

    direction: Direction
    kind: str
    """One of `UNCHANGED`, or the name of a compressed payload of `PAYLOADS`."""
    mtu: int
    payload_at: int
    ratio: float
    """Payload on the host's side over shim and block on the wire; 1 where a frame passes."""
    input_rate: float
    output_rate: float

    @property
    def figure(self) -> float:
        """The specified rate: on the host's side, where the frames are full-length; on both for bypass."""
        if self.kind == "bypass":
            return min(self.input_rate, self.output_rate)
        return self.input_rate if self.direction == "transmit" else self.output_rate


@dataclass(frozen=True)
class Idle:
    """Idle cycles per 64-byte frame, back to back."""

    direction: Direction
    kind: str
    cycles: float


@dataclass(frozen=True)
class Latency:
    """First beat in to first beat out of an idle engine, in cycles."""

    kind: str
    """A key of `Limits.latency`."""
    frame_bytes: int
    cycles: int
    allowance: int
    """Cycles on top of the limit: the beats of the tag or code table (restored) or of the frame (transmit).

    Of a serial engine: the arriving frame's, and on transmit 9 / 8 of them once more, to compress it.
    """

    @property
    def figure(self) -> int:
        """The figure that is compared with the limit."""
        return self.cycles - self.allowance


@dataclass(frozen=True)
class Performance:
    """All of it, for a NIC of ``engines`` engines of ``lanes`` lanes per direction."""

    engines: int
    lanes: int
    rates: tuple[Rate, ...]
    idle: tuple[Idle, ...]
    latencies: tuple[Latency, ...]

    @property
    def limits(self) -> Limits:
        """What a NIC of this many engines and lanes must reach."""
        if self.lanes == 1:
            return SERIAL
        extra = EXTRA_LATENCY * (self.engines > 1) + WIDE_LATENCY * (self.lanes > GROUP_LANES)
        return replace(WIDE, latency={kind: most + extra for kind, most in WIDE.latency.items()})

    def shortfalls(self) -> list[str]:
        """Return one line for each figure that misses its limit."""
        limits = self.limits
        lines = [
            f"{r.direction} {r.kind}, MTU {r.mtu}, payload at {r.payload_at}: {r.figure:.3f} beats per cycle"
            for r in self.rates
            if r.figure < limits.rate
        ]
        lines += [
            f"{i.direction} 64-byte frames, {i.kind}: {i.cycles:.2f} idle cycles per frame"
            for i in self.idle
            if i.cycles > limits.idle
        ]
        lines += [
            f"{x.kind}, {x.frame_bytes} bytes: latency {x.cycles} cycles, {x.figure} of them count"
            for x in self.latencies
            if x.figure > limits.latency[x.kind]
        ]
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return asdict(self)


def beats(length: int, beat_bytes: int = BURST_BYTES) -> int:
    """Count the beats of a frame of ``length`` bytes on a stream of this width."""
    return -(-length // beat_bytes)


def _rate(nic: VerilatedNic, frames: Sequence[int], first_beats: Sequence[int]) -> float:
    """Return the beats per cycle of the frames (by length), from the second quarter on.

    The last frame does not count.
    """
    begin = len(frames) // 4
    moved = sum(beats(length, nic.beat_bytes) for length in frames[begin:-1])
    return moved / (first_beats[-1] - first_beats[begin])


def segments(
    values: Values, mtu: int, count: int, *, options: bytes = b"", tos: int = DEFAULT_TOS
) -> list[bytes]:
    """Make full-size TCP segments of one flow, back to back in its sequence space."""
    random = np.random.default_rng(SEED)
    size = (mtu - 40 - len(options)) & ~3
    return [
        packets.tcp(
            values(random, size // 4).tobytes(), sequence=i * size, tcp_options=options, tos=tos,
            identification=i & 0xFFFF,
        )
        for i in range(count)
    ]  # fmt: skip


def _rates(nic: VerilatedNic) -> Iterator[Rate]:
    for mtu in MTUS:
        count = _FRAMES[mtu] * nic.engines
        for options in (b"", TIMESTAMPS):
            at = 54 + len(options)
            plain = segments(gradients, mtu, count, options=options, tos=0)
            yield one_rate(nic, "transmit", "bypass", mtu, at, plain, nic.transmit(plain))
            yield one_rate(nic, "receive", "bypass", mtu, at, plain, nic.receive(plain))
            raw = segments(RAW, mtu, count, options=options)
            yield one_rate(nic, "transmit", "raw fallback", mtu, at, raw, nic.transmit(raw))
            yield one_rate(nic, "receive", "bypass", mtu, at, raw, nic.receive(raw))
            for kind, values in PAYLOADS[nic.codec.name].items():
                frames = segments(values, mtu, count, options=options)
                sent = nic.transmit(frames)
                yield one_rate(nic, "transmit", kind, mtu, at, frames, sent)
                wire = [output.data for output in sent]
                yield one_rate(nic, "receive", kind, mtu, at, wire, nic.receive(wire))


def one_rate(
    nic: VerilatedNic,
    direction: Direction,
    kind: str,
    mtu: int,
    at: int,
    sent: list[bytes],
    came: list[Output],
) -> Rate:
    """Return the rate of a run.

    Raises ``RuntimeError`` if the engine did not treat the frames as the kind says.
    """
    host, wire = (sent, came) if direction == "transmit" else (came, sent)
    lengths = [len(f.data if isinstance(f, Output) else f) for f in host]
    on_wire = [len(f.data if isinstance(f, Output) else f) for f in wire]
    changed = [a > b for a, b in zip(lengths, on_wire, strict=True)]
    if not all(changed) if kind not in UNCHANGED else any(changed):
        raise RuntimeError(
            f"{direction} engine, {kind}: {sum(changed)} of {len(changed)} frames changed length"
        )
    head = len(lengths) * at
    inputs, outputs = (lengths, on_wire) if direction == "transmit" else (on_wire, lengths)
    return Rate(
        direction,
        kind,
        mtu,
        at,
        (sum(lengths) - head) / (sum(on_wire) - head),
        _rate(nic, inputs, [output.timing.first_in for output in came]),
        _rate(nic, outputs, [output.timing.first_out for output in came]),
    )


def _idle(nic: VerilatedNic) -> Iterator[Idle]:
    payload = bytes(64 - 54)
    for kind, tos in (("untagged", 0), ("tagged", DEFAULT_TOS)):
        frames = [packets.tcp(payload, tos=tos)] * 400
        assert len(frames[0]) == 64
        for direction, outputs in (("transmit", nic.transmit(frames)), ("receive", nic.receive(frames))):
            rates = (
                _rate(nic, [64] * len(frames), [getattr(output.timing, side) for output in outputs])
                for side in ("first_in", "first_out")
            )
            per_frame = beats(64, nic.beat_bytes)
            yield Idle(direction, kind, per_frame / min(rates) - per_frame)  # type: ignore[arg-type]


def _latencies(nic: VerilatedNic) -> Iterator[Latency]:
    for mtu in (100, 512, *MTUS):
        for options in (b"", TIMESTAMPS):
            at = 54 + len(options)
            (untagged,) = segments(gradients, mtu, 1, options=options, tos=0)
            (tagged,) = segments(gradients, mtu, 1, options=options)
            (raw,) = segments(RAW, mtu, 1, options=options)
            for frame in (untagged, raw):
                yield _latency(nic, "receive bypass", frame, nic.receive([frame]))
            for frame in (untagged, raw, tagged):
                sent = nic.transmit([frame])
                yield _latency(nic, "transmit", frame, sent)
                if len(sent[0].data) < len(frame):
                    wire = sent[0].data
                    table = beats(table_bytes(nic.codec.name, len(frame) - at), nic.lanes * LANE_BYTES)
                    yield _latency(nic, "receive restored", wire, nic.receive([wire]), table)


def _latency(nic: VerilatedNic, kind: str, frame: bytes, outputs: list[Output], table: int = 0) -> Latency:
    timing, sent = outputs[0].timing, kind == "transmit"
    came = beats(len(frame), nic.lanes * LANE_BYTES)
    allowance = came if sent else table
    if nic.lanes == 1:
        allowance = came + sent * -(-came * 9 // 8)
    if nic.engines > 1:
        allowance += beats(len(outputs[0].data), nic.lanes * LANE_BYTES)
    return Latency(kind, len(frame), timing.first_out - timing.first_in, allowance)


def measure(nic: VerilatedNic, step: Callable[[str], None] = lambda text: None) -> Performance:
    """Measure all figures of a NIC in its reset configuration.

    It takes 300 thousand cycles (paper), or a million (planes). The counters move and the flow of the test
    segments stays in the flow table. ``step`` gets the current step as text. Raises ``RuntimeError`` if a
    frame is not treated as the kind says.
    """
    step("measuring throughput")
    nic.transmit([packets.OPENING])
    rates = tuple(_rates(nic))
    step("measuring 64-byte frames")
    idle = tuple(_idle(nic))
    step("measuring latency")
    return Performance(nic.engines, nic.lanes, rates, idle, tuple(_latencies(nic)))
