# SPDX-License-Identifier: BSD-2-Clause
"""What the shells' benches share: traffic, the golden model as referee, streams, register access.

The parameter ``codec`` of a bench names codec and lanes of its NICs, of `NIC_VARIANTS`; by default paper.
Where there are bf16 lanes, half of the tagged traffic is bf16.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiStreamBus, AxiStreamFrame, AxiStreamSource

from inceptionn.sim.golden import FlowTable, Result, receive, transmit
from inceptionn.sim.golden.packets import ACK, SYN, tcp, udp
from inceptionn.sim.golden.values import bf16_payload, payload
from inceptionn.sim.nic_codec import NIC_VARIANTS
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import StreamSink
from inceptionn.wire import DEFAULT_BF16_TOS, DEFAULT_TOS, Verdict

CODEC = NIC_VARIANTS[bench_parameters().get("codec", "paper")]
CONFIG, REGISTERS = CODEC.config(), CODEC.registers
Way = Literal["tx", "rx"]
PATIENCE = 12_000
"""Cycles without a frame after which a shell counts as hung; the slowest engines' first takes some 7000."""
LIMIT = {"timeout_time": 300, "timeout_unit": "us"}
"""Options of every test: simulated time."""
SMALLEST = 60
"""Bytes that a MAC pads shorter frames to, without FCS (IEEE 802.3, 4.2.3.3)."""


@dataclass
class Frame:
    """A frame on a stream; ``user`` is the target's word, ``bad`` its mark at ``tlast``."""

    data: bytes
    bad: bool = False
    user: int = 0


class Referee:
    """The golden model of one port: both directions, with what its counters must show."""

    def __init__(self) -> None:
        self.flows = FlowTable()
        self.counted: Counter[str] = Counter()

    def expect(self, way: Way, data: bytes, bad: bool = False) -> Result:
        """Return the model's answer to the port's next frame in this direction."""
        result = transmit(data, CONFIG, self.flows, bad) if way == "tx" else receive(data, CONFIG, bad)
        name = f"{way.upper()}_{result.verdict.name}"
        self.counted[name] += 1
        if result.bf16 and result.counts:
            self.counted[f"{name}_BF16"] += 1
        return result


def check(result: Result, data: bytes, bad: bool | None = None) -> None:
    """Check that ``data`` is what the model says, and ``bad`` too where the target can mark it.

    Elsewhere the lowest bit of a bad frame's last byte is inverted.
    """
    what = f"{result.verdict.name}, {len(result.frame)} bytes"
    assert len(data) == len(result.frame), f"{len(data)} bytes, not {what}"
    expected = result.frame
    if bad is None and result.bad:
        expected = expected[:-1] + bytes([expected[-1] ^ 1])
    sure = result.unspecified_from
    assert data[:sure] == expected[:sure], what
    if bad is not None:
        assert bad == result.bad, what


def traffic(count: int, source: random.Random, lanes: int = 120) -> list[bytes]:
    """Tagged and untagged, TCP and UDP, short and long, with VLAN tags and options."""
    frames, sequence = [], Counter[int]()
    for _ in range(count):
        port = 40000 + source.randrange(3)
        size = source.choice((0, 1, 15, 16, 17, source.randint(18, lanes)))
        kind = source.choice(("gradients", "fractions", "edges"))
        data = payload(kind, size, source.getrandbits(20))
        tos, vlan = source.choice((DEFAULT_TOS, DEFAULT_TOS, 0x2A, 0x00)), source.choice((None, None, 7))
        if CODEC.bf16 and source.random() < 0.5:
            data, tos = bf16_payload(kind, 2 * size), source.choice((DEFAULT_BF16_TOS, 0x2E))
        if source.random() < 0.75:
            options = bytes(source.choice((0, 12)))
            if port not in sequence:
                data, tos, flags = b"", DEFAULT_TOS, SYN
                sequence[port] = -1
            else:
                flags = ACK
            frame = tcp(
                data, sequence=sequence[port], source_port=port, flags=flags, tcp_options=options, vlan=vlan,
                tos=tos,
            )  # fmt: skip
            sequence[port] += len(data) or flags == SYN
        else:
            frame = udp(data, source_port=port, vlan=vlan, tos=tos)
        frames.append(frame)
    return frames


def compressed(lanes: int = 100, port: int = 50000) -> tuple[bytes, bytes]:
    """Return a frame and its wire form; if the engine has bf16 lanes, those of odd ports have them."""
    if CODEC.bf16 and port % 2:
        frame = udp(bf16_payload("gradients", 2 * lanes), source_port=port, tos=DEFAULT_BF16_TOS)
    else:
        frame = udp(payload("gradients", lanes), source_port=port)
    result = transmit(frame, CONFIG, FlowTable())
    assert result.verdict is Verdict.COMPRESSED
    return frame, result.frame


def plain(length: int = 1400) -> bytes:
    """Return a frame that passes both engines unchanged."""
    return tcp(random.randbytes(length), tos=0)


def whole_or_cut(came: list[bytes], sent: list[bytes]) -> int:
    """Return how many frames of ``came`` were cut; check that the others are whole, and all in order."""
    at = cut = 0
    for frame in came:
        while at < len(sent) and frame not in (sent[at], sent[at][: len(frame) - 1] + frame[-1:]):
            at += 1
        assert at < len(sent), f"{len(frame)} bytes that are no frame's beginning"
        cut += frame != sent[at]
        at += 1
    return cut


def padded(frame: bytes) -> bytes:
    """As a MAC sends it, and as the other side receives it."""
    return frame + bytes(max(0, SMALLEST - len(frame)))


def pauses(probability: float, source: random.Random) -> Iterable[bool]:
    """Idle cycles at random."""
    while True:
        yield source.random() < probability


class Streams:
    """Sources and sinks of a shell by prefix, quiet, with a limit on every wait."""

    def __init__(self, dut: Any, clock: Any, reset: Any, *, active_level: bool = False):
        self.dut, self.clock = dut, clock
        self.reset = {"reset": reset, "reset_active_level": active_level}
        self.ends: dict[str, Any] = {}

    def add(self, *prefixes: str, **reset: Any) -> None:
        """``s_*``: a source drives it; ``m_*``: a sink takes it."""
        for prefix in prefixes:
            kind = AxiStreamSource if prefix.startswith("s_") else StreamSink
            bus = AxiStreamBus.from_prefix(self.dut, prefix)
            self.ends[prefix] = kind(bus, self.clock, **(reset or self.reset))
            self.ends[prefix].log.setLevel("WARNING")
            if prefix.startswith("m_"):
                cocotb.start_soon(holds(self.dut, prefix, self.clock, **(reset or self.reset)))

    def pause(self, probability: float, source: random.Random) -> None:
        """Random gaps on the sources and back-pressure on the sinks; 0: none."""
        for end in self.ends.values():
            end.clear_pause_generator()
            end.pause = False
            if probability:
                end.set_pause_generator(pauses(probability, source))

    async def send(
        self, prefix: str, frame: Frame, *, bad_bit: bool = False, first_only: bool = False
    ) -> None:
        """Queues a frame; ``tuser`` is ``user``, on the first beat only if so, else noise after it."""
        width = self.ends[prefix].byte_lanes
        beats = -(-len(frame.data) // width)
        words = [frame.user] + [
            random.getrandbits(16) if first_only else frame.user for _ in range(beats - 1)
        ]
        if bad_bit:
            marks = [random.getrandbits(1)] * (beats - 1) + [int(frame.bad)]
            words = [word << 1 | mark for word, mark in zip(words, marks, strict=True)]
        user = [word for word in words for _ in range(width)][: len(frame.data)]
        await self.ends[prefix].send(AxiStreamFrame(frame.data, tuser=user))

    async def receive(self, prefix: str) -> tuple[bytes, list[int]]:
        """Return the next frame and its ``tuser``, one per byte."""
        sink, waited = self.ends[prefix], 0
        while sink.empty():
            await RisingEdge(self.clock)
            waited += 1
            assert waited < PATIENCE, f"{prefix}: no frame for {waited} cycles"
        frame = sink.recv_nowait()
        user = frame.tuser if isinstance(frame.tuser, list) else [frame.tuser] * len(frame.tdata)
        return bytes(frame.tdata), user

    async def quiet(self) -> None:
        """Without pauses, nothing is left over 300 cycles later."""
        self.pause(0, random.Random())
        await ClockCycles(self.clock, 300)
        for prefix, end in self.ends.items():
            assert end.empty(), f"{prefix}: a frame too many"
            assert end.idle(), f"{prefix}: a beat too many"


async def no_gaps(dut: Any, prefix: str, clock: Any) -> None:
    """For ever: once a frame has begun, ``tvalid`` does not fall before its last beat."""
    valid, last, ready = (getattr(dut, f"{prefix}_{name}") for name in ("tvalid", "tlast", "tready"))
    inside = False
    while True:
        await RisingEdge(clock)
        if not valid.value.is_resolvable:
            continue
        assert not inside or int(valid.value), "tvalid fell inside a frame"
        if int(valid.value) and int(ready.value):
            inside = not int(last.value)


async def holds(
    dut: Any, prefix: str, clock: Any, reset: Any = None, reset_active_level: bool = True
) -> None:
    """For ever: an offered beat stays unchanged until it is taken; none in reset (Arm IHI 0051A).

    Bytes are those of the lowest places of ``tkeep``, and all before the last beat (docs/streams.md).
    """
    names = [name for name in ("tdata", "tkeep", "tlast", "tuser") if hasattr(dut, f"{prefix}_{name}")]
    valid, ready, *payload = (getattr(dut, f"{prefix}_{name}") for name in ("tvalid", "tready", *names))
    offered = None
    keep, last = (getattr(dut, f"{prefix}_{name}", None) for name in ("tkeep", "tlast"))
    while True:
        await RisingEdge(clock)
        if not valid.value.is_resolvable:
            continue
        if reset is not None and bool(int(reset.value)) == reset_active_level:
            assert not int(valid.value), f"{prefix}_tvalid is high in reset"
            offered = None
            continue
        shown = [signal.value for signal in payload] if int(valid.value) else None
        assert offered is None or shown is not None, f"{prefix}_tvalid fell before the beat was taken"
        assert offered is None or shown == offered, f"{prefix}: a beat changed before it was taken"
        if shown is not None and keep is not None:
            bits, full = int(keep.value), (1 << len(keep)) - 1
            assert bits, f"{prefix}: a beat without a byte"
            assert not bits & (bits + 1), f"{prefix}_tkeep is {bits:#x}, with a gap"
            ends = last is None or int(last.value)
            assert ends or bits == full, f"{prefix}_tkeep is {bits:#x} before tlast"
        offered = None if int(ready.value) else shown


class Registers:
    """AXI4-Lite access by register name, ``base`` being an engine pair's offset."""

    def __init__(self, dut: Any, prefix: str, clock: Any, reset: Any, *, active_level: bool = False):
        bus = AxiLiteBus.from_prefix(dut, prefix)
        self.master = AxiLiteMaster(bus, clock, reset=reset, reset_active_level=active_level)
        for part in (self.master.write_if, self.master.read_if):
            part.log.setLevel("WARNING")

    async def read(self, name: str, base: int = 0) -> int:
        """Return a register's value, or a counter's 64 bits."""
        register = REGISTERS[name]
        answer = await self.master.read(base + register.offset, register.width // 8)
        assert answer.resp == 0, f"{name}: {answer.resp!r}"
        return int.from_bytes(answer.data, "little")

    async def write(self, name: str, value: int, base: int = 0) -> None:
        """Write a register."""
        answer = await self.master.write(base + REGISTERS[name].offset, value.to_bytes(4, "little"))
        assert answer.resp == 0, f"{name}: {answer.resp!r}"

    async def response(self, address: int) -> int:
        """Return the response to a read, as a number."""
        return int((await self.master.read(address, 4)).resp)

    async def check(self, counted: Counter[str], base: int = 0) -> None:
        """Check that the counters named in ``counted`` have exactly these values."""
        for name, value in counted.items():
            found = await self.read(name, base)
            assert found == value, f"{name} is {found}, not {value}"
