# SPDX-License-Identifier: BSD-2-Clause
"""The process that carries the frames of `Cables`: ``-m`` this module with delay, loss and descriptors."""

import os
import random
import select
import sys
import time
from collections import deque

from .tap import Tap

BATCH = 64
"""Most frames that are taken from an interface at a time."""
MOST_HELD = 1 << 26
"""Bytes on the way in one direction of a cable; frames that come beyond it are lost."""


class _Way:
    """A direction of a cable, from one descriptor to another."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = Tap.of(source), Tap.of(sink)
        self.frames: deque[tuple[float, bytes]] = deque()
        self.held = 0

    def take(self, delay: float, loss: float) -> None:
        """Take frames that have come. Raises ``OSError`` if the namespace has gone."""
        due = time.monotonic() + delay
        for frame in self.source.read(BATCH):
            if self.held < MOST_HELD and random.random() >= loss:
                self.frames.append((due, frame))
                self.held += len(frame)

    def give(self) -> float:
        """Let the frames arrive that are due; return when the next one is."""
        now = time.monotonic()
        while self.frames:
            due, frame = self.frames[0]
            if due > now:
                return due
            self.frames.popleft()
            self.held -= len(frame)
            self.sink.write(frame)
        return float("inf")


def carry(delay: float, loss: float, numbers: list[int]) -> None:
    """Carry frames between descriptors of TAP devices, two for each cable, until standard input ends."""
    random.seed(1)
    low = [os.dup(number) for number in numbers]  # `select` takes no large ones
    pairs = list(zip(low[::2], low[1::2], strict=True))
    ways = {source: _Way(source, sink) for pair in pairs for source, sink in (pair, pair[::-1])}
    sources = set(ways)
    wait: float | None = None
    print("carrying", flush=True)
    while True:
        ready, _, _ = select.select([0, *sources], [], [], wait)
        if 0 in ready:
            return
        for number in ready:
            try:
                ways[number].take(delay, loss)
            except OSError:
                sources.remove(number)
            ways[number].give()
        following = min(way.give() for way in ways.values())
        wait = None if following == float("inf") else max(0.0, following - time.monotonic())


if __name__ == "__main__":
    carry(float(sys.argv[1]), float(sys.argv[2]), [int(number) for number in sys.argv[3:]])
