# SPDX-License-Identifier: BSD-2-Clause
"""Cables with a delay, between interfaces of namespaces: a thread here carries the frames.

The kernel's netem would do it with less work, but many kernels have none.
"""

import os
import random
import select
import threading
import time
from collections import deque

from .tap import Tap

BATCH = 64
"""Most frames that are taken from an interface at a time."""
MOST_HELD = 100_000
"""Frames on the way in one direction of a cable; more are lost."""


class _Way:
    """A direction of a cable."""

    def __init__(self, source: Tap, sink: Tap) -> None:
        self.source, self.sink = source, sink
        self.held: deque[tuple[float, bytes]] = deque()


class Cables:
    """Cables between pairs of new interfaces, which are down at first.

    Each frame comes out after ``delay`` seconds, in order, and up to about 0.2 ms late; the share ``loss``
    of the frames does not. All cables together carry some 100,000 frames a second.
    """

    def __init__(self, delay: float, loss: float) -> None:
        self.delay, self.loss = delay, loss
        self._random = random.Random(1)
        self._taps: list[Tap] = []
        self._ways: list[_Way] = []
        self._stop, self._stopping = os.pipe()
        self._thread = threading.Thread(target=self._run, name="cables", daemon=True)

    def lay(self, ends: tuple[tuple[str, str], tuple[str, str]], mtu: int) -> None:
        """Make a cable with these two ends, each a namespace and the interface's name."""
        taps = []
        for namespace, interface in ends:
            taps.append(Tap(namespace, interface, mtu))
            self._taps.append(taps[-1])
        self._ways += [_Way(*taps), _Way(*reversed(taps))]

    def start(self) -> None:
        """Begin to carry frames."""
        self._thread.start()

    def close(self) -> None:
        """Remove all cables and their interfaces."""
        if self._thread.is_alive():
            os.write(self._stopping, b".")
            self._thread.join(30)
        for tap in self._taps:
            tap.close()
        for end in (self._stop, self._stopping):
            os.close(end)

    def _run(self) -> None:
        sources = {way.source.fd: way for way in self._ways}
        wait = None
        while True:
            ready, _, _ = select.select([self._stop, *sources], [], [], wait)
            if self._stop in ready:
                return
            due = time.monotonic() + self.delay
            for fd in ready:
                try:
                    frames = sources[fd].source.read(BATCH)
                except OSError:  # its namespace has gone
                    del sources[fd]
                    continue
                held = sources[fd].held
                if len(held) < MOST_HELD:
                    held.extend((due, frame) for frame in frames if self._random.random() >= self.loss)
            now = time.monotonic()
            for way in self._ways:
                while way.held and way.held[0][0] <= now:
                    way.sink.write(way.held.popleft()[1])
            following = [way.held[0][0] for way in self._ways if way.held]
            wait = max(0.0, min(following) - time.monotonic()) if following else None
