# SPDX-License-Identifier: BSD-2-Clause
"""What the benches of ReceiveAssembler and its two parts share: inputs, sink and tests."""

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, Timer
from lockstep import Lockstep
from receive_frames import (
    BEAT_BYTES,
    Frame,
    FramePart,
    RestoredBurst,
    WireBeat,
    beats,
    long_mixture,
    mixture,
    streams_without_gap,
)

from inceptionn.hdl.engine.receive_decision import ReceiveOrder

ITEMS: dict[str, Callable[[Frame], list[dict[str, int] | int]]] = {
    "orders": lambda frame: [frame.order],
    "beats": lambda frame: list(frame.wire_beats),
    "parts": lambda frame: list(frame.parts),
    "tails": lambda frame: [int(frame.bad or frame.short)] if frame.order["restore"] else [],
    "payload": lambda frame: list(frame.payload_bursts),
}
"""The items of each stream for a frame: fields of the payload, or its bits."""
LAYOUTS = {
    "orders_payload": ReceiveOrder.as_shape(),
    "beats_payload": WireBeat,
    "parts_payload": FramePart,
    "payload_payload": RestoredBurst,
}
QUEUE_LATENCY = 2
"""Cycles from a push to the output queue until its output shows the beat."""


class ReceiveBench(Lockstep):
    """Offers the items of frames on some streams, and looks at the outputs of each cycle.

    The output is the frames on ``m_axis``; a bench with another one overrides :meth:`take`.
    """

    INPUTS: tuple[str, ...]
    """The streams, of :data:`ITEMS`."""
    READY = "m_axis_tready"
    """What the sink drives."""
    QUIET: tuple[str, ...]
    """Outputs that are low after the last frame."""
    LATENCY: int
    """Cycles from a frame's inputs until the sink takes the first of it."""

    def __init__(self, dut: Any):
        super().__init__(dut, layouts=LAYOUTS)
        self.frames: list[Frame] = []
        self.begun: list[int] = []
        """The cycle in which the sink took the first item of each frame."""
        self.ended: list[int] = []
        """The cycle in which it took the last one."""
        self.told = 0
        """Frames of which the component has told how they ended."""
        self._came = bytearray()

    async def reset(self) -> None:
        for name in (*(f"{stream}_valid" for stream in self.INPUTS), self.READY):
            getattr(self.dut, name).value = 0
        await super().reset()

    async def run(self, frames: list[Frame], offer: tuple[float, ...] = (), take: float = 1.0) -> None:
        """Run frames through and check what comes out in every cycle.

        ``offer``: probability in each cycle that the next item of each stream shows, 1 if not given;
        ``take``: that the sink is ready.
        """
        items_of = {name: ITEMS[name] for name in self.INPUTS}
        streams = {name: deque(i for frame in frames for i in of(frame)) for name, of in items_of.items()}
        probabilities = dict(zip(self.INPUTS, offer or [1.0] * len(self.INPUTS), strict=True))
        shown: set[str] = set()
        self.frames, self.begun, self.ended, self.told = frames, [], [], 0
        self.begin()
        limit = self.now + 300 + 30 * sum(beats(max(frame.report[1:])) for frame in frames)
        while len(self.ended) < len(frames) or self.told < len(frames):
            progress = f"{len(self.ended)} of {len(frames)} frames out, {self.told} told"
            assert self.now < limit, f"hang: {progress}"
            for name, items in streams.items():
                # What is shown stays until it is taken.
                if name not in shown:
                    if items and self.may_show(name) and random.random() < probabilities[name]:
                        shown.add(name)
                    self.write(f"{name}_payload", items[0] if name in shown else self.noise(name))
                getattr(self.dut, f"{name}_valid").value = name in shown
            ready = random.random() < take
            getattr(self.dut, self.READY).value = ready
            await Timer(1, "ns")
            taken = {name for name in shown if self.accepts(name)}
            shown -= taken
            for name in taken:
                streams[name].popleft()
            self.look(taken, ready)
            await self.cycle()
        for name in self.INPUTS:
            getattr(self.dut, f"{name}_valid").value = 0
        for _ in range(20):
            await self.cycle()
            for name in self.QUIET:
                assert not self.read(name), f"{name} after the last frame"
        assert not any(streams.values()), "something was left over"

    def begin(self) -> None:
        """Prepare a run of :attr:`frames`."""

    def may_show(self, name: str) -> bool:
        """Whether this stream's next item may come."""
        return True

    def accepts(self, name: str) -> bool:
        """Whether the item that this stream shows is taken; a push stream's always is."""
        return not hasattr(self.dut, f"{name}_ready") or bool(self.read(f"{name}_ready"))

    def noise(self, name: str) -> int:
        return random.getrandbits(len(getattr(self.dut, f"{name}_payload")))

    def look(self, taken: Collection[str], ready: bool) -> None:
        """Check the outputs of this cycle; ``taken``: the streams whose items are taken in it."""
        raise NotImplementedError

    def take(self) -> None:
        """Take a beat of a frame from ``m_axis``, if one is there."""
        if not self.read("m_axis_tvalid"):
            return
        came, frame = self._came, self.frames[len(self.ended)]
        if not came:
            self.begun.append(self.now)
        count = self.read("m_axis_tkeep").bit_count()
        came += self.read("m_axis_tdata").to_bytes(BEAT_BYTES, "little")[:count]
        if not self.read("m_axis_tlast"):
            assert count == BEAT_BYTES
            return
        expected, bad = frame.leaves
        assert len(came) == len(expected), f"{frame.order}: {len(came)} bytes, not {len(expected)}"
        wrong = [index for index, (a, b) in enumerate(zip(came, expected, strict=True)) if a != b]
        assert not wrong, f"{frame.order}: {len(wrong)} bytes wrong, the first at {wrong[0]}"
        assert bool(self.read("m_axis_tuser")) == bad, f"{frame.order}: bad is not {bad}"
        came.clear()
        self.ended.append(self.now)

    @classmethod
    def tests(cls, *names: str) -> Iterator[Any]:
        """Make these methods tests of cocotb's."""
        for name in names:
            test = cls.test(name=name)(getattr(cls, name))
            test.module = cls.__module__
            yield test

    async def mixed(self, offer: tuple[float, ...], take: float) -> None:
        """Whichever of the inputs comes late, and whatever the sink does."""
        await self.run(mixture(100), offer, take)

    async def long_frames(self) -> None:
        await self.run(long_mixture())

    async def no_gap_between_frames(self) -> None:
        """One output beat per cycle, back to back, whether frames pass or are restored."""
        for frames in streams_without_gap():
            await self.run(frames)
            total = sum(beats(len(frame.leaves[0])) for frame in frames)
            cycles = self.ended[-1] - self.begun[0] + 1
            assert cycles == total, f"{total} beats took {cycles} cycles"

    async def reset_in_mid_run(self) -> None:
        """Nothing of the frames inside is left, wherever they were."""
        for cycles in (*range(1, 30), 100):
            running = cocotb.start_soon(self.run(mixture(20)))
            for _ in range(cycles):
                await FallingEdge(self.dut.aclk)
            running.cancel()
            await self.reset()
            self._came.clear()
            await self.run(mixture(3))

    async def latency(self) -> None:
        """Of an idle component."""
        for frame in (Frame.passing(300), Frame.restored(100, 100)):
            start = self.now
            await self.run([frame])
            assert self.begun[0] - start == self.LATENCY, f"{self.begun[0] - start} cycles"
