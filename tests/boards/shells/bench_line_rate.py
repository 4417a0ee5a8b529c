# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of every shell at its line's rate: untagged frames of all sizes, back to back, none lost."""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from shell_bench import LIMIT, plain

from inceptionn.sim.golden import EngineConfig, receive
from inceptionn.sim.golden.cases import alone
from inceptionn.sim.golden.packets import tcp
from inceptionn.sim.golden.values import payload
from inceptionn.sim.runner import bench_parameters

PREAMBLE_FCS_GAP = 8 + 4 + 12
"""Bytes on the line beside a frame (IEEE 802.3): preamble, check sequence, least gap."""


class Beat(NamedTuple):
    """One beat of a frame; ``user`` as the target's ``tuser``."""

    data: bytes
    last: bool
    user: int


def beats(frame: bytes, width: int, user: int = 0) -> list[Beat]:
    """Cut a frame into beats of ``width`` bytes."""
    ends = range(width, len(frame) + width, width)
    return [Beat(frame[end - width : end], end >= len(frame), user) for end in ends]


class BackToBack:
    """Every beat at once: as fast as the stream goes."""

    def __init__(self, frames: Iterable[list[Beat]]):
        self.waiting = deque(beat for frame in frames for beat in frame)

    def offer(self, cycle: int) -> Beat | None:
        return self.waiting[0] if self.waiting else None

    def taken(self) -> None:
        self.waiting.popleft()

    @property
    def done(self) -> bool:
        return not self.waiting


class ReceiveQueue:
    """A MAC at line rate with a queue after it, as Corundum has one before its application.

    The MAC does not wait. A frame that finds the queue full at its first beat is lost. One that fills it
    later is cut: its rest is dropped, and when there is room one more beat ends it, marked bad
    (``tuser[0]``). Frames that come before that beat has found room are lost. Each side sees the other's
    pointer ``SYNC`` cycles late, which is what Gray-coded pointers take.

    Parameters
    ----------
    frames : frames in beats.
    cycles_per_byte : :class:`float`
        Of the line, in cycles of the stream's clock.
    depth : :class:`int`
        Beats.
    interval : :class:`int`
        Fewest cycles from a frame to the next.
    """

    SYNC = 3

    def __init__(
        self, frames: list[list[Beat]], *, cycles_per_byte: float, depth: int = 32, interval: int = 0
    ):
        self.depth = depth
        self.lost = self.cut = self.most = 0
        self._stored: deque[tuple[int, Beat]] = deque()
        self._reads: deque[int] = deque()
        self._inside = self._dropping = self._marking = False
        self._line: deque[tuple[float, Beat]] = deque()
        now = 0.0
        for number, frame in enumerate(frames):
            now = max(now, number * interval)
            for beat in frame:
                now += len(beat.data) * cycles_per_byte
                self._line.append((now, beat))
            now += PREAMBLE_FCS_GAP * cycles_per_byte

    def offer(self, cycle: int) -> Beat | None:
        self._cycle = cycle
        while self._reads and self._reads[0] + self.SYNC <= cycle:
            self._reads.popleft()
        while self._line and self._line[0][0] <= cycle:
            self._arrive(self._line.popleft()[1])
        if self._marking and not self._dropping and not self._full:
            self._end()
        self.most = max(self.most, len(self._stored))
        return self._stored[0][1] if self._stored and self._stored[0][0] + self.SYNC <= cycle else None

    def taken(self) -> None:
        self._stored.popleft()
        self._reads.append(self._cycle)

    @property
    def done(self) -> bool:
        return not self._line and not self._stored and not self._marking

    @property
    def _full(self) -> bool:
        return len(self._stored) + len(self._reads) >= self.depth

    def _end(self) -> None:
        self._marking = False
        self._stored.append((self._cycle, Beat(b"\0", True, 1)))

    def _arrive(self, beat: Beat) -> None:
        begun, self._inside = self._inside, not beat.last
        if self._dropping:
            self._dropping = not beat.last
        elif self._full or self._marking:
            self.cut += begun
            self.lost += not begun
            self._marking |= begun
            self._dropping = not beat.last
        else:
            self._stored.append((self._cycle, beat))


Feed = BackToBack | ReceiveQueue
"""The driver of a stream: asked for a beat once per cycle, and told when the beat was taken."""


@dataclass
class Run:
    """What a run showed."""

    frames: list[tuple[bytes, bool]] = field(default_factory=list)
    """Frames that came, with ``tuser[0]`` at ``tlast``."""
    starts: list[int] = field(default_factory=list)
    """Cycles in which each frame's first beat was taken."""
    stalls: int = 0
    """Cycles in which a beat was offered and not taken."""


class Stream:
    """Both ends of one direction: ``source`` driven, ``sink`` always ready, beat by beat.

    ``bad_bit``: ``tuser[0]`` at ``tlast``, where there is a ``tuser``, marks a bad frame.
    """

    PATIENCE = 12_000

    def __init__(self, clock: Any, dut: Any, source: str, sink: str, *, bad_bit: bool):
        self.clock = clock
        names = ("tdata", "tkeep", "tvalid", "tlast", "tready")
        self.s, self.m = ({n: getattr(dut, f"{bus}_{n}") for n in names} for bus in (source, sink))
        self.s_user = getattr(dut, f"{source}_tuser", None)
        self.bad = getattr(dut, f"{sink}_tuser", None) if bad_bit else None
        self.width = len(self.s["tkeep"])
        self.s["tvalid"].value = 0

    async def run(self, feed: Feed) -> Run:
        """Drives the feed to its end and collects the output, until nothing has come for a while."""
        found = Run()
        collecting = cocotb.start_soon(self._collect(found))
        offered, first, cycle = None, True, 0
        while offered or not feed.done:
            await RisingEdge(self.clock)
            cycle += 1
            if offered is not None:
                if int(self.s["tready"].value):
                    if first:
                        found.starts.append(cycle)
                    first = offered.last
                    feed.taken()
                else:
                    found.stalls += 1
            beat = feed.offer(cycle)
            if beat is not None and beat is not offered:
                self.s["tdata"].value = int.from_bytes(beat.data, "little")
                self.s["tkeep"].value = (1 << len(beat.data)) - 1
                self.s["tlast"].value = beat.last
                if self.s_user is not None:
                    self.s_user.value = beat.user
            if (beat is None) != (offered is None) or cycle == 1:
                self.s["tvalid"].value = beat is not None
            offered = beat
            assert cycle < 1_000_000, "the shell takes no more"
        seen = -1
        while seen != len(found.frames):
            seen = len(found.frames)
            await ClockCycles(self.clock, self.PATIENCE // 4)
        collecting.cancel()
        return found

    async def _collect(self, found: Run) -> None:
        self.m["tready"].value = 1
        parts: list[bytes] = []
        valid, last, data, keep = (self.m[name] for name in ("tvalid", "tlast", "tdata", "tkeep"))
        while True:
            await RisingEdge(self.clock)
            if not int(valid.value):
                continue
            if int(last.value):
                parts.append(int(data.value).to_bytes(self.width, "little")[: int(keep.value).bit_length()])
                bad = self.bad is not None and bool(int(self.bad.value) & 1)
                found.frames.append((b"".join(parts), bad))
                parts = []
            else:
                parts.append(int(data.value).to_bytes(self.width, "little"))


PARAMETERS = bench_parameters()
RATIO = PARAMETERS.get("ratio") or 1
LINK, RESTORED = PARAMETERS["links"].get(str(PARAMETERS["width"]), (0, 0))
"""Corundum's, by width."""
PACE = PARAMETERS["pace"]
"""Fewest cycles that the transmit engine takes for a frame."""
HEADERS = 54


@dataclass(frozen=True)
class Target:
    """A board's names, the line's rate and the beats of the queue before the shell (0: of no limit)."""

    clock: str
    period_ps: int
    receive: tuple[str, str]
    transmit: tuple[str, str]
    gbps: int
    queue: int = 0
    users: tuple[int, int] = (0, 0)
    """``tuser`` of frames to receive and to transmit."""


TARGETS = {
    "vc709": Target("user_clk", 4000, ("s_axis_c2s0", "m_axis_c2s0"), ("s_axis_s2c0", "m_axis_s2c0"), 10),
    "netfpga-sume": Target(
        "axis_aclk", 6250, ("s_axis", "m_axis"), ("s_axis", "m_axis"), 40, users=(2 << 24, 1 << 24)
    ),
    "corundum": Target(
        "clk", 4000, ("s_axis_sync_rx", "m_axis_sync_rx"), ("s_axis_sync_tx", "m_axis_sync_tx"),
        LINK, queue=32,
    ),
    "generic": Target("aclk", 4000, ("s_axis_rx", "m_axis_rx"), ("s_axis_tx", "m_axis_tx"), 40),
}  # fmt: skip
TARGET = TARGETS[PARAMETERS["board"]]
CLOCKS = {
    TARGET.clock: TARGET.period_ps, "s_axil_aclk": 4000, "s_axi_aclk": 10000,
    "engine_clk": int(4000 * RATIO) // 2 * 2,
}  # fmt: skip
CYCLES_PER_BYTE = 8000 / TARGET.gbps / TARGET.period_ps


async def start(dut) -> None:
    """Clocks, a reset, and the cycles in which the transmit engine empties its flow table."""
    resets = [(getattr(dut, name), 0) for name in dir(dut) if name.endswith(("aresetn", "axis_resetn"))]
    resets += [(dut.rst, 1)] if hasattr(dut, "rst") else []
    for name, period in CLOCKS.items():
        if hasattr(dut, name):
            cocotb.start_soon(Clock(getattr(dut, name), period, unit="ps").start())
    for reset, level in resets:
        reset.value = level
    await ClockCycles(getattr(dut, TARGET.clock), 20)
    for reset, level in resets:
        reset.value = 1 - level
    await ClockCycles(getattr(dut, TARGET.clock), int(1200 * RATIO))


def runs(width: int) -> list[int]:
    """Lengths in runs: the least, every one of two wide beats, and the longest of both usual MTUs."""
    most = 60 + 2 * max(64, width)
    return [60] * 150 + [length for length in range(61, most) for _ in range(4)] + [1514] * 6 + [9014] * 4


def untagged(width: int) -> list[bytes]:
    """Return runs of one length, then frames of random lengths, then the shortest after the longest."""
    source = random.Random(7)
    mix = [source.choice((60, 60, 64, 65, 100, 129, 594, 1514, 9014)) for _ in range(60)]
    behind = [9014] + [60] * 150
    return [plain(length - HEADERS) for length in runs(width) + mix + behind]


def of(way: str, dut) -> tuple[Stream, int]:
    """Return a direction's stream, and its frames' ``tuser``."""
    receive = way == "receive"
    names = TARGET.receive if receive else TARGET.transmit
    clock, user = getattr(dut, TARGET.clock), TARGET.users[not receive]
    return Stream(clock, dut, *names, bad_bit=not user), user


def in_beats(stream: Stream, frames: list[bytes], user: int) -> list[list]:
    """Frames in the target's dialect; a length in ``tuser`` only where the target has one."""
    return [beats(frame, stream.width, user and user | len(frame)) for frame in frames]


async def sends(stream: Stream, feed: Feed, frames: list[bytes]) -> Run:
    """All of them come, in order, none marked."""
    found = await stream.run(feed)
    assert found.frames == [(frame, False) for frame in frames], f"{len(found.frames)} of {len(frames)}"
    return found


@cocotb.test(**LIMIT)
async def received_as_fast_as_the_stream_goes(dut):
    """Check that the shell never lowers ``tready``: what the target's own stream carries, it carries."""
    if RATIO > 1:
        return
    await start(dut)
    stream, user = of("receive", dut)
    frames = untagged(stream.width)
    found = await sends(stream, BackToBack(in_beats(stream, frames, user)), frames)
    assert found.stalls == 0, f"{found.stalls} cycles without tready"


@cocotb.test(**LIMIT)
@cocotb.parametrize(way=["receive", "transmit"])
async def at_the_lines_rate(dut, way):
    """After the target's own queue no frame is lost or cut; with slower engines on transmit, too."""
    if way == "transmit" and RATIO == 1:
        return
    await start(dut)
    stream, user = of(way, dut)
    frames = untagged(stream.width)
    queue = ReceiveQueue(
        in_beats(stream, frames, user), cycles_per_byte=CYCLES_PER_BYTE, depth=TARGET.queue or 1 << 20
    )
    await sends(stream, queue, frames)
    assert (queue.lost, queue.cut) == (0, 0)
    assert queue.most <= 32, f"{queue.most} beats wait, and more would"
    cocotb.log.info("%s at %d Gbit/s: at most %d beats wait", way, TARGET.gbps, queue.most)


@cocotb.test(**LIMIT)
@cocotb.parametrize(senders=["one", "many"])
async def restored_behind_the_targets_queue(dut, senders):
    """Compressed frames grow: one sender cannot overrun its like, several can; a cut frame is marked."""
    if not TARGET.queue:
        return
    await start(dut)
    stream, _ = of("receive", dut)
    segments = [tcp(payload("gradients", 365), source_port=45000 + n) for n in range(24)]
    sent = [alone(segment, EngineConfig()).frame for segment in segments]
    right = [receive(wire, EngineConfig()).frame for wire in sent]
    # A sender's stream is as wide as the receiver's: the cycles of a frame before it is compressed.
    interval = -(-len(right[0]) // stream.width) if senders == "one" else 0
    after = [plain() for _ in range(8)]
    wires = [beats(wire, stream.width) for wire in (*sent, *after)]
    queue = ReceiveQueue(wires, cycles_per_byte=CYCLES_PER_BYTE, depth=TARGET.queue, interval=interval)
    found = await stream.run(queue)
    came = [frame for frame, bad in found.frames if not bad]
    assert set(came) <= {*right, *after}, "a frame that was cut is not marked"
    restored = [frame for frame in came if frame in right]
    marked = len(found.frames) - len(came)
    cocotb.log.info("restored, %s: %d of %d, %d marked", senders, len(restored), len(sent), marked)
    assert len(restored) == (len(sent) if senders == "one" else RESTORED)
    assert len(found.frames) == len(wires) - queue.lost


@cocotb.test(**LIMIT)
async def transmitted(dut):
    """Check that the host waits no longer than the engine or the line takes for a frame."""
    if RATIO > 1:
        return
    await start(dut)
    stream, user = of("transmit", dut)
    frames = untagged(stream.width)
    found = await sends(stream, BackToBack(in_beats(stream, frames, user)), frames)
    worst, at = 0.0, 0
    for length, run in groupby(runs(stream.width)):
        end = at + len(list(run))
        cycles = (found.starts[end - 1] - found.starts[at]) / (end - 1 - at)
        line = (length + PREAMBLE_FCS_GAP) * CYCLES_PER_BYTE
        assert cycles <= max(-(-length // stream.width), PACE, line), f"{length} bytes: {cycles:.2f} cycles"
        worst = max(worst, cycles / line)
        at = end
    cocotb.log.info("transmit: the slowest frames take %.2f of their time on the line", worst)
