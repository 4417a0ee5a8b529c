# SPDX-License-Identifier: BSD-2-Clause
"""Frames at line rate into any shell: beats without a pause, and the queue before a shell."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

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


class Feed(Protocol):
    """The driver of a stream: it is asked for a beat once per cycle, and told when the beat was taken."""

    def offer(self, cycle: int) -> Beat | None: ...

    def taken(self) -> None: ...

    @property
    def done(self) -> bool: ...


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
