# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of BlockStore: full rings, blocks read and dropped, data at every place."""

import random
from collections import deque
from typing import Any

import cocotb
from block_reader import BlockReader
from chosen_width import WIDTH
from compressor_blocks import BEAT_BYTES, WORDS, Shape, beats_of

from inceptionn.hdl.codec.block_store import block_shape
from inceptionn.wire import GROUP_LANES, MAX_LANES, TAG_WORD_BYTES

SHAPE = block_shape(WIDTH)
SLACK = 40
MOST = MAX_LANES // GROUP_LANES
"""Groups of the longest block."""
UNFINISHED = 12
"""Most blocks that the writer has begun and not finished."""
AHEAD = 8
"""Most beats of a block still missing when the next one begins; the pipeline before it is as long."""


class TB(BlockReader):
    """Writes tag beats and data beats, each up to ``SLACK`` times after ``room`` has fallen."""

    def __init__(self, dut):
        pulses = ("tags_valid", "data_valid", "shapes_valid")
        super().__init__(dut, pulses=pulses, layouts={"shapes_payload": SHAPE})
        self.ready_to_write: deque[tuple[list[int], list[int], Shape]] = deque()
        self.tags: deque[int] = deque()
        self.data: deque[int] = deque()
        self.open: deque[tuple[int, int, Shape]] = deque()
        """Blocks begun, with the beats that must have been written before each ends."""
        self.begun = [0, 0]
        self.written = [0, 0]
        self._fill_up()

    def _fill_up(self) -> None:
        blocks = SLACK if WIDTH.payload_overlaps else SLACK // 2
        self.credit = {"tags": SLACK, "data": SLACK, "shapes": blocks}

    def add(self, groups: int, data_bytes: int, place: int) -> None:
        """Add a block of random content."""
        table, data = random.randbytes(groups * TAG_WORD_BYTES), random.randbytes(data_bytes)
        shape = self.expect_block(table, data, place)
        self.ready_to_write.append((beats_of(table, place * TAG_WORD_BYTES), beats_of(data), shape))

    def _allowed(self, kind: str, room: bool) -> bool:
        """Whether one more may come; without room, it costs credit."""
        if not room:
            if not self.credit[kind]:
                return False
            self.credit[kind] -= 1
        return True

    async def step(self, write: float, step: float, drop: float = 0.0) -> None:
        """One cycle; the arguments are probabilities."""
        room = bool(self.read("room"))
        if room:
            self._fill_up()
        while self.ready_to_write and len(self.open) < UNFINISHED and len(self.tags + self.data) < AHEAD:
            tags, data, shape = self.ready_to_write.popleft()
            self.tags.extend(tags)
            self.data.extend(data)
            self.begun = [self.begun[0] + len(tags), self.begun[1] + len(data)]
            self.open.append((*self.begun, shape))
        inputs: dict[str, Any] = {
            f"{kind}_payload": random.getrandbits(8 * BEAT_BYTES) for kind in ("tags", "data")
        }
        inputs["shapes_payload"] = {}
        whole = self.open and self.open[0][0] <= self.written[0] and self.open[0][1] <= self.written[1]
        if whole and random.random() < write and self._allowed("shapes", room):
            *_, shape = self.open.popleft()
            inputs |= {"shapes_valid": 1, "shapes_payload": shape.fields()}
        for index, (kind, queue) in enumerate((("tags", self.tags), ("data", self.data))):
            if queue and random.random() < write and self._allowed(kind, room):
                inputs |= {f"{kind}_valid": 1, f"{kind}_payload": queue.popleft()}
                self.written[index] += 1
        await self.cycle(**inputs, **self.reading(step, drop))

    async def finish(self, write: float = 0.9, step: float = 0.9, drop: float = 0.0) -> None:
        """Until every block was read."""
        while self.blocks:
            await self.step(write, step, drop)
        assert not self.open
        await self.drain()
        assert not self.read("blocks_valid")
        assert self.read("room")


def random_block() -> tuple[int, int, int]:
    groups = random.choice([1, 1, 2, random.randint(1, 20), 46])
    return groups, random.choice([0, 1, 32, random.randint(0, 32 * groups)]), random.randrange(WORDS)


@TB.test()
async def every_place(tb):
    """Check data that begin at each word of a beat.

    The tag tables before them have every length to two beats and a word.
    """
    for words in range(1, 2 * WORDS + 2):
        for place in range(min(WORDS, words)):
            data = random.choice([0, 1, 31, 32, 33, 64, 65, random.randint(0, 100)])
            tb.add(words - place, data, place)
    await tb.finish()


@TB.test()
@cocotb.parametrize(write=[0.2, 0.9], step=[0.2, 0.9], drop=[0.0, 0.3])
async def random_blocks(tb, write, step, drop):
    number = 40 if write == step == 0.9 else 12
    for _ in range(number):
        tb.add(*random_block())
    await tb.finish(write, step, drop)
    assert tb.read_whole + tb.dropped == number
    assert bool(tb.dropped) == (drop > 0)


@TB.test()
@cocotb.parametrize(shape=[(MOST, 32 * MOST), (MOST, 0), (1, 0), (1, 32), (7, 200)])
async def filled_to_the_brim(tb, shape):
    """Check a reader that sleeps until the writer has used all of its slack, whichever ring is full first."""
    groups, data = shape
    # Rings fill at another place each time.
    for _ in range(3):
        for _ in range(3 + 1100 // (groups * TAG_WORD_BYTES // BEAT_BYTES + data // BEAT_BYTES + 8)):
            tb.add(groups, data, random.randrange(WORDS))
        for _ in range(900):
            await tb.step(1.0, 0.0)
        assert not tb.read("room")
        assert min(tb.credit.values()) == 0
        for _ in range(random.randint(1, 100)):
            await tb.step(1.0, 1.0)
    await tb.finish(1.0, 1.0)


@TB.test()
@cocotb.parametrize(drop=[0.0, 0.5, 1.0])
async def read_without_a_pause(tb, drop):
    """Where blocks wait, every cycle steps or drops: the next one is at hand in the cycle after the last."""
    for _ in range(30):
        tb.add(random.choice([1, 5]), random.choice([0, 40]), random.randrange(WORDS))
    while tb.open or tb.ready_to_write:
        await tb.step(1.0, 0.0)
    for _ in range(4):
        await tb.step(1.0, 0.0)
    cycles = tb.now
    while tb.blocks:
        assert tb.read("blocks_valid"), f"no block at hand after {tb.now - cycles} cycles of reading"
        await tb.step(0.0, 1.0, drop)
    await tb.finish()


@TB.test()
async def every_number_of_beats(tb):
    """Blocks whose numbers of beats have each bit in turn, of tags, of data, and of both."""
    for bit in range(MOST.bit_length()):
        for groups, beats in ((1 << bit, 0), (1 << bit, 1 << bit)):
            tb.add(groups, beats * BEAT_BYTES * GROUP_LANES // WIDTH.lanes, random.randrange(WORDS))
    await tb.finish()


@TB.test()
async def holds_the_longest_while_it_is_read(tb):
    """Check that ``room`` lets a block of 2304 raw lanes be written while another one is still being read."""
    for _ in range(2):
        tb.add(MOST, 32 * MOST, 0)
    while len(tb.open) or tb.ready_to_write:
        await tb.step(1.0, 1.0)
    assert len(tb.blocks) == 2, "the second block was not whole before the first was read"
    await tb.finish()
