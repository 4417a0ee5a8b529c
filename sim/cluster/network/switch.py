# SPDX-License-Identifier: BSD-2-Clause
"""A switch that learns MAC addresses, with a queue and impairments at every port.

It has no thread. A sender's thread puts a frame into the queue of its output port, and the receiver's thread
takes it out when it is due. Without a rate and a delay the switch has no latency and no limit.
"""

import heapq
import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress

from .impairments import Impairments, with_congestion, with_tos

OVERHEAD = 24
"""Bytes that a frame takes on the line in addition to its own: preamble, frame check sequence, inter-frame
gap.
"""
MOST_QUEUED = 50_000
"""Frames that a port without a rate holds before it drops frames."""
_HELD = (0.2e-3, 2e-3)

WireFrame = tuple[bytes, bool]
"""A frame that reaches the receiving NIC, and whether the MAC marks it bad."""


class Port:
    """The output of one port, towards its host.

    ``counts`` counts its frames and their impairments, by name.
    """

    def __init__(self, impairments: Impairments, seed: str) -> None:
        self.impairments = impairments
        self.counts: Counter[str] = Counter()
        self.wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when a frame has arrived while the receiver slept."""
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, bytes, bool]] = []
        self._number = 0
        self._free_at = 0.0
        """Time at which the last queued frame will have left, if there is a rate."""
        self._sleeping = False

    def enter(self, frame: bytes) -> None:
        """Apply the impairments to a frame, and queue it for the host or drop it."""
        with self._lock:
            self._enter(frame)
            if self._sleeping:
                self._sleeping = False
                os.eventfd_write(self.wake, 1)

    def _enter(self, frame: bytes) -> None:
        how, draw, counts = self.impairments, self._random.random, self.counts
        damaged = False
        if how.any_fault:
            if how.loss and draw() < float(how.loss):
                counts["lost"] += 1
                return
            if how.mark and draw() < float(how.mark):
                frame = self._changed(frame, with_congestion(frame), "marked")
            if how.tos is not None:
                frame = self._changed(frame, with_tos(frame, how.tos, 0xFC), "tos_rewritten")
            if how.flip and draw() < float(how.flip):
                bit = self._random.randrange(8 * 12, 8 * len(frame))
                flipped = bytearray(frame)
                flipped[bit // 8] ^= 1 << bit % 8
                frame, damaged = bytes(flipped), how.fcs
                counts["flipped"] += 1
            if how.truncate and len(frame) > 15 and draw() < float(how.truncate):
                frame, damaged = frame[: self._random.randrange(14, len(frame))], how.fcs
                counts["truncated"] += 1
        due = self._leaves_at(frame)
        if due is None:
            counts["queue_full"] += 1
            return
        if how.rate is not None and self._backlog() > float(how.queue) / 2:
            frame = self._changed(frame, with_congestion(frame), "marked")
        copies = 2 if how.duplicate and draw() < float(how.duplicate) else 1
        counts["duplicated"] += copies - 1
        for _ in range(copies):
            if how.reorder and draw() < float(how.reorder):
                when = max(due, time.monotonic()) + self._random.uniform(*_HELD)
                counts["reordered"] += 1
            else:
                when = due
            heapq.heappush(self._heap, (when, self._number, frame, damaged))
            self._number += 1
            counts["frames"] += 1
            counts["bytes"] += len(frame)

    def _changed(self, before: bytes, after: bytes, name: str) -> bytes:
        self.counts[name] += after is not before
        return after

    def _backlog(self) -> float:
        """Return the seconds of traffic that is queued before a frame that arrives now."""
        return max(0.0, self._free_at - time.monotonic())

    def _leaves_at(self, frame: bytes) -> float | None:
        """Return the time at which a frame that arrives now is due at the host. None if the queue is full."""
        how = self.impairments
        if how.rate is None:
            if len(self._heap) >= MOST_QUEUED:
                return None
            return time.monotonic() + float(how.delay) if how.delay else 0.0
        now = time.monotonic()
        if self._free_at - now > float(how.queue):
            return None
        self._free_at = max(self._free_at, now) + 8 * (len(frame) + OVERHEAD) / float(how.rate)
        return self._free_at + float(how.delay)

    def take(self, most: int) -> list[WireFrame]:
        """Take at most ``most`` frames that are due, in order."""
        heap = self._heap
        if not heap:
            return []
        with self._lock:
            now = time.monotonic()
            frames: list[WireFrame] = []
            while heap and len(frames) < most and heap[0][0] <= now:
                _, _, frame, damaged = heapq.heappop(heap)
                frames.append((frame, damaged))
            return frames

    def sleep(self) -> float | None:
        """Note that the receiver sleeps.

        Returns the seconds until the next frame is due, None if there is none. ``wake`` becomes readable as
        soon as another frame arrives.
        """
        with self._lock:
            self._sleeping = True
            return max(0.0, self._heap[0][0] - time.monotonic()) if self._heap else None

    def awake(self) -> None:
        """Note that the receiver no longer sleeps."""
        with self._lock:
            self._sleeping = False
            with suppress(BlockingIOError):
                os.eventfd_read(self.wake)

    @property
    def queued(self) -> int:
        """Number of frames queued for the host."""
        return len(self._heap)

    def close(self) -> None:
        """Close the event descriptor."""
        os.close(self.wake)


class Switch:
    """A number of ports with equal impairments. ``seed`` determines each port's random numbers."""

    def __init__(self, ports: int, impairments: Impairments, seed: int) -> None:
        self.ports = [Port(impairments, f"{seed}/{number}") for number in range(ports)]
        self._table: dict[bytes, int] = {}

    def forward(self, source: int, frame: bytes) -> int:
        """Forward a frame to the port where its destination was last seen, or else to all other ports.

        Returns the number of ports that it was forwarded to.
        """
        self._table[frame[6:12]] = source
        target = None if frame[0] & 1 else self._table.get(frame[:6])
        if target == source:
            return 0
        if target is not None:
            self.ports[target].enter(frame)
            return 1
        for number, port in enumerate(self.ports):
            if number != source:
                port.enter(frame)
        return len(self.ports) - 1

    def impair(self, impairments: Impairments) -> None:
        """Replace the impairments of all ports, for frames that arrive from now on."""
        for port in self.ports:
            port.impairments = impairments

    def close(self) -> None:
        """Close the event descriptors of the ports."""
        for port in self.ports:
            port.close()
