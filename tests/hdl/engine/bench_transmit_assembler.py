# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of TransmitAssembler: orders, raw ring and blocks in, frames out.

Parameters ``ring_depth`` and ``lanes``.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, replace

import cocotb
from chosen_width import WIDTH
from cocotb.triggers import Timer
from lockstep import Lockstep

from inceptionn.hdl.codec.block_store import BlockStore, block_shape
from inceptionn.hdl.engine.transmit_resolving import frame_order
from inceptionn.hdl.parts.memory import BlockRam
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import CODECS, SHIM_BYTES, SHIM_MAGIC

DEPTH = bench_parameters()["ring_depth"]
LANES = WIDTH.lanes
BURST_BYTES = 4 * LANES
ORDER = frame_order(WIDTH)


def cut(data: bytes) -> list[bytes]:
    return [data[at : at + BURST_BYTES] for at in range(0, len(data), BURST_BYTES)]


@dataclass(frozen=True)
class Frame:
    """A frame (or a piece of one) in the ring, its order, and its block, if there is one."""

    raw: bytes
    order: dict[str, int]
    block: bytes = b""

    @classmethod
    def passing(cls, size: int, *, drop: bool = False, end: bool = True) -> Frame:
        """Return a frame that is copied.

        ``drop``: its block is not wanted; not ``end``: it is a piece of whole beats, and more follow.
        """
        order = {name: random.getrandbits(field.width) for name, field in ORDER}
        order |= {"compressed": 0, "block": int(drop), "end": int(end), "beats": len(cut(bytes(size)))}
        order |= {"ending": size % BURST_BYTES}
        assert end or not order["ending"]
        return cls(random.randbytes(size), order, random.randbytes(random.randint(3, 90)) if drop else b"")

    @classmethod
    def compressed(cls, block: int, behind: int) -> Frame:
        """With ``block`` bytes in place of ``behind`` bytes of payload and padding."""
        order = {name: random.getrandbits(field.width) for name, field in ORDER}
        begin = 34 + 4 * order["vlan"] + (4 * random.randint(5, 15) if order["tcp"] else 8)
        raw = random.randbytes(begin + behind)
        order |= {"compressed": 1, "block": 1, "end": 1, "bad": 0, "payload_at": begin}
        order |= {"beats": len(cut(raw)), "ending": len(raw) % BURST_BYTES}
        return cls(raw, order, random.randbytes(block))

    @property
    def leaves(self) -> bytes:
        """What must come out."""
        order = self.order
        if not order["compressed"]:
            return self.raw
        head = bytearray(self.raw[: order["payload_at"]])
        l3 = 14 + 4 * order["vlan"]
        places = {2: order["total_length"], 10: order["ip_checksum"]}
        if order["tcp"]:
            places[36] = order["checksum"]
        else:
            places |= {24: (order["total_length"] - 20) % (1 << 16), 26: order["checksum"]}
        for at, value in places.items():
            head[l3 + at : l3 + at + 2] = value.to_bytes(2, "big")
        shim = SHIM_MAGIC.to_bytes(2, "big") + bytes([CODECS["paper"].version, order["base"]])
        shim += order["original_length"].to_bytes(2, "big") + bytes(2)
        return bytes(head) + shim + self.block

    @property
    def block_beats(self) -> list[int]:
        """As the store gives them: the first with nothing in front of the block, the last after it."""
        place = (self.order["payload_at"] + SHIM_BYTES) % BURST_BYTES if self.order["compressed"] else 0
        return [int.from_bytes(part, "little") for part in cut(bytes(place) + self.block)]


class Store:
    """The reading side of the Compressor: blocks in order, each ready when it likes."""

    def __init__(self, frames: list[Frame]):
        self.blocks = deque((f.block_beats, f) for f in frames if f.block)
        self.place = 0
        self.late: deque[int] = deque([0] * BlockStore.latency_of(WIDTH))

    def last(self) -> bool:
        return self.place == len(self.blocks[0][0]) - 1

    def ending(self) -> int:
        beats, frame = self.blocks[0]
        place = (frame.order["payload_at"] + SHIM_BYTES) % BURST_BYTES if frame.order["compressed"] else 0
        return (place + len(frame.block)) % BURST_BYTES

    def advance(self, step: bool, drop: bool) -> bool:
        """One cycle; whether the block at hand is done with."""
        beat, done = 0, drop
        if drop:
            assert not self.blocks[0][1].order["compressed"], "a block was dropped that is wanted"
            assert not self.place
        if step:
            assert not drop, "step and drop together"
            assert self.blocks[0][1].order["compressed"], "a block was read that is not wanted"
            beat = self.blocks[0][0][self.place]
            done = self.last()
            self.place = 0 if done else self.place + 1
        if done:
            self.blocks.popleft()
        self.late.append(beat)
        return done


class TB(Lockstep):
    """The ring, the store, the queue of orders and the sink around the assembler."""

    def __init__(self, dut):
        super().__init__(dut, layouts={"blocks_shape": block_shape(WIDTH)})
        self.began = self.ended = 0

    async def start(self) -> None:
        self.base = 0
        for name in ("orders_valid", "blocks_valid", "m_axis_tready"):
            getattr(self.dut, name).value = 0
        await self.reset()

    async def run(self, frames: list[Frame], *, offer=1.0, blocks=1.0, take=1.0) -> None:
        """Run frames through and check each.

        ``offer``, ``blocks``, ``take``: probability in each cycle that an order shows, that the next block is
        complete, without which its order does not show, and that the sink is ready.
        """
        dut = self.dut
        orders = deque((ORDER.const(f.order).as_bits(), f) for f in frames)
        to_write = deque(
            int.from_bytes(part.ljust(BURST_BYTES, b"\x5a"), "little") for f in frames for part in cut(f.raw)
        )
        ring: dict[int, int] = {}
        written = read = self.base  # beats since reset
        behind_orders = 0  # beats that the orders shown so far need
        answers = deque([random.getrandbits(8 * BURST_BYTES)] * BlockRam.LATENCY)
        store = Store(frames)
        shown = False
        complete = ordered = left = 0  # blocks so far: complete, of orders that were taken, and done with
        came, out = bytearray(), deque(self._joined(frames))
        limit = self.now + 500 + 30 * sum(len(cut(f.raw)) + len(cut(f.leaves)) for f in frames)
        self.began = 0
        address = self.read("raw_address")
        while out:
            assert self.now < limit, f"hang: {len(out)} frames to come after {self.now} cycles"
            # The ring is filled as far as it may be, and what is free again is overwritten at once.
            while to_write and written - read < DEPTH:
                ring[written % DEPTH] = to_write.popleft()
                written += 1
            needs = orders[0][1].order["beats"] if orders else 0
            complete = min(left + len(store.blocks), complete + (random.random() < blocks))
            there = written - self.base >= behind_orders + needs
            there = there and (not orders or not orders[0][1].block or ordered < complete)
            shown = bool(orders) and there and (shown or random.random() < offer)
            dut.orders_valid.value = shown
            dut.orders_payload.value = orders[0][0] if shown else random.getrandbits(ORDER.size)
            ready = left < complete
            dut.blocks_valid.value = ready
            dut.blocks_last.value = store.last() if ready else random.getrandbits(1)
            shape = {"ending": store.ending() if ready else random.randrange(BURST_BYTES)}
            self.write("blocks_shape", shape)
            dut.blocks_beat.value = store.late.popleft()
            dut.raw_beat.value = answers.popleft()
            take_now = random.random() < take
            dut.m_axis_tready.value = take_now
            await Timer(1, "ns")
            answers.append(ring.get(self.read("raw_address"), 0))
            if shown and self.read("orders_ready"):
                behind_orders += needs
                ordered += bool(orders.popleft()[1].block)
                shown = False
            step, drop = bool(self.read("blocks_step")), bool(self.read("blocks_drop"))
            assert ready or not (step or drop), "a block was taken that is not there"
            left += store.advance(step, drop)
            if take_now and self.read("m_axis_tvalid"):
                self._collect(came, out)
            await self.cycle()
            moved = (self.read("raw_address") - address) % DEPTH
            address = (address + moved) % DEPTH
            for beat in range(read, read + moved):
                ring[beat % DEPTH] = random.getrandbits(8 * BURST_BYTES)
            read += moved
            assert read <= written, "raw_address is ahead of what was written"
        dut.orders_valid.value = dut.blocks_valid.value = 0
        dut.blocks_beat.value = 0
        for _ in range(30):
            await self.cycle()
            assert not self.read("m_axis_tvalid"), "a beat too many"
        assert not orders
        assert not store.blocks, "a block was left behind"
        # What the ring held of the last frame is given back with the next order.
        self.base = self.base + sum(f.order["beats"] for f in frames)

    @staticmethod
    def _joined(frames: list[Frame]) -> list[tuple[bytes, bool]]:
        """Frames as they leave, pieces put together."""
        made, data = [], b""
        for frame in frames:
            data += frame.leaves
            if frame.order["end"]:
                made.append((data, bool(frame.order["bad"])))
                data = b""
        return made

    def _collect(self, came: bytearray, out: deque[tuple[bytes, bool]]) -> None:
        self.began = self.began or self.now
        count = self.read("m_axis_tkeep").bit_count()
        came += self.read("m_axis_tdata").to_bytes(BURST_BYTES, "little")[:count]
        if not self.read("m_axis_tlast"):
            assert count == BURST_BYTES
            return
        expected, bad = out.popleft()
        assert len(came) == len(expected), f"{len(came)} bytes came out, not {len(expected)}"
        wrong = [index for index, (a, b) in enumerate(zip(came, expected, strict=True)) if a != b]
        assert not wrong, f"{len(wrong)} of {len(came)} bytes wrong, the first at {wrong[0]}"
        assert bool(self.read("m_axis_tuser")) == bad
        came.clear()
        self.ended = self.now


def mixture(number: int) -> list[Frame]:
    """Return passing frames, pieces, and every shape of compressed frames.

    Passing frames come with and without a block to drop.
    """
    frames = []
    while len(frames) < number:
        draw = random.random()
        size = random.choice([1, 31, 32, 33, 64, random.randint(1, 300), random.randint(1, 900)])
        if draw < 0.25:
            frames.append(Frame.passing(size))
        elif draw < 0.4:
            # With 8 lanes a frame with a block has two beats or more.
            frames.append(Frame.passing(size + (0 if WIDTH.payload_overlaps else 60), drop=True))
        elif draw < 0.5:
            frames += [
                Frame.passing(BURST_BYTES * random.randint(1, 20), end=False)
                for _ in range(random.randint(1, 3))
            ]
            frames.append(Frame.passing(size))
        else:
            block = random.choice([2, 3, random.randint(2, 40), random.randint(2, 200)])
            frames.append(Frame.compressed(block, block + SHIM_BYTES + random.randint(1, 400)))
    return frames


@TB.test()
@cocotb.parametrize(offer=[1.0, 0.2], blocks=[1.0, 0.2], take=[1.0, 0.4])
async def mixed(tb, offer, blocks, take):
    await tb.run(mixture(60), offer=offer, blocks=blocks, take=take)
    await tb.run(mixture(20), offer=offer, blocks=blocks, take=take)


@TB.test()
async def every_place_and_end_of_a_block(tb):
    """Each place of the shim in its beat, with blocks that end in each of the next two beats' bytes."""
    await tb.run([Frame.compressed(block, block + 30) for block in range(2, 67) for _ in range(4)])


@TB.test()
async def no_gap_between_frames(tb):
    """One output beat per cycle, back to back, from orders that wait."""
    for frames in (
        [Frame.passing(size, drop=drop) for size in (64, 200) for drop in (False, True) for _ in range(8)],
        [Frame.compressed(80, 200) for _ in range(12)],
        [Frame.compressed(2, 100) if index % 2 else Frame.passing(32) for index in range(24)],
    ):
        total = sum(len(cut(frame.leaves)) for frame in frames)
        await tb.run([replace(frame) for frame in frames])
        cycles = tb.ended - tb.began + 1
        assert cycles == total, f"{total} beats took {cycles} cycles"
