# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of OnesComplementSum: exact sums, each in its cycle, the longest included."""

import random

import cocotb
import numpy as np
from chosen_beat import BEAT
from lockstep import Lockstep

from inceptionn.hdl.parts.checksum import OnesComplementSum
from inceptionn.sim.golden.checksum import fold
from inceptionn.wire import GROUP_LANES, MAX_LANES, TAG_WORD_BYTES

LANES_PER_BEAT = BEAT.lanes
BEAT_BYTES = BEAT.bytes
LATENCY = OnesComplementSum.latency_of(BEAT)
LONGEST = (MAX_LANES * 4 + MAX_LANES // GROUP_LANES * TAG_WORD_BYTES) // BEAT_BYTES
"""Beats of the longest block: of raw lanes 288, and 18 of tags; half of them with 16 lanes."""


class TB(Lockstep):
    """Sends the beats of a sum; it is due with a pulse, and held until the next."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("valid", "last"), quiet={"sums_valid": 0})

    async def send(self, beats: list[bytes], gaps: float = 0.0, alone: bool = False) -> None:
        """One sum; ``alone``: its ``last`` comes in a cycle of its own, without a beat."""
        total = sum(int(np.frombuffer(beat, "<u2").sum(dtype=np.int64)) for beat in beats)
        steps: list[bytes | None] = [*beats, *([None] if alone else [])]
        for index, beat in enumerate(steps):
            while random.random() < gaps:
                await self.cycle(beat=random.getrandbits(8 * BEAT_BYTES))
            last = index == len(steps) - 1
            if last:
                self.due(LATENCY, sums_valid=1, sums_payload=fold(total))
            data = random.getrandbits(8 * BEAT_BYTES) if beat is None else int.from_bytes(beat, "little")
            await self.cycle(valid=beat is not None, last=last, beat=data)


def beat() -> bytes:
    return random.choice([bytes(BEAT_BYTES), b"\xff" * BEAT_BYTES, random.randbytes(BEAT_BYTES)])


@TB.test()
async def zero_has_one_sign_only_for_zeros(tb):
    """Only words that are all 0 sum to 0; any other multiple of 65535 is 0xFFFF."""
    for beats in ([bytes(BEAT_BYTES)], [b"\xff" * BEAT_BYTES], [b"\xff" * BEAT_BYTES] * 2):
        await tb.send(beats)
    for lane in range(BEAT_BYTES // 2):
        word = bytearray(BEAT_BYTES)
        word[2 * lane] = 1
        await tb.send([bytes(word), b"\xfe\xff" + bytes(BEAT_BYTES - 2)])
    await tb.drain()


@TB.test()
@cocotb.parametrize(gaps=[0.0, 0.4])
async def sums_back_to_back(tb, gaps):
    """Check sums of one beat in every cycle, of none, and longer ones, in any order without idle cycles."""
    for _ in range(500):
        count = random.choice([0, 1, 1, 1, 2, 5, 30])
        alone = count == 0 or random.random() < 0.3
        await tb.send([beat() for _ in range(count)], gaps, alone)
    await tb.drain()


@TB.test()
async def longest(tb):
    """Check that the accumulator does not overflow with the most beats of a block, all ones."""
    await tb.send([b"\xff" * BEAT_BYTES] * LONGEST)
    await tb.send([b"\xff\xfe" * (BEAT_BYTES // 2)] * LONGEST)
    await tb.drain()


@TB.test()
async def carry_of_the_fold(tb):
    """Totals whose upper bits carry the lower 16 past their end: the carry comes around."""
    for beats in range(1, 40):
        words = [0xFFFF] * (BEAT_BYTES // 2 * beats - 1)
        words.append((0xFFFF + len(words)) & 0xFFFF)
        data = np.array(words, "<u2").tobytes()
        await tb.send([data[at : at + BEAT_BYTES] for at in range(0, len(data), BEAT_BYTES)])
    for bit in range(4, 13):  # and those of which this bit alone decides
        total = ((1 << bit) + 1 << 16) - (1 << bit)
        words = [0xFFFF] * (total // 0xFFFF) + [total % 0xFFFF]
        data = np.array(words + [0] * (-len(words) % (BEAT_BYTES // 2)), "<u2").tobytes()
        await tb.send([data[at : at + BEAT_BYTES] for at in range(0, len(data), BEAT_BYTES)])
    await tb.drain()


@TB.test()
async def carry_of_the_fold_by_one(tb):
    """Totals whose upper and lower bits sum to 0x10000, so that any bit of them decides about the carry."""
    count = BEAT_BYTES // 2
    for upper in [*range(1, count - 1)] * 10:
        total = (upper + 1 << 16) - upper
        words = [total // count] * count
        words[0] += total % count
        for _ in range(20):
            giver, taker = random.sample(range(count), 2)
            moved = random.randint(0, min(words[giver], 0xFFFF - words[taker]))
            words[giver] -= moved
            words[taker] += moved
        await tb.send([np.array(words, "<u2").tobytes()])
    await tb.drain()


@TB.test()
async def sum_holds(tb):
    """Between two results the first one stays, whatever goes on after it."""
    await tb.send([b"\x01\x02" * (BEAT_BYTES // 2)])
    for _ in range(40):
        tb.due(LATENCY, sums_payload=fold(0x0201 * BEAT_BYTES // 2))
        await tb.cycle(valid=1, beat=random.getrandbits(8 * BEAT_BYTES))
    await tb.drain()
