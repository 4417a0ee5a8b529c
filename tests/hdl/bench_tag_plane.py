# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of TagPlane: every place, every length of the last beat, every beat in its cycle."""

from __future__ import annotations

import random

import cocotb
from compressor_blocks import beats_of
from lockstep import Lockstep

from inceptionn.hdl.tag_plane import TagPlane
from inceptionn.wire import BURST_BYTES, TAG_WORD_BYTES

WORDS = BURST_BYTES // TAG_WORD_BYTES


class TB(Lockstep):
    """Sends blocks of tag words; a beat is due two cycles after the word that completes it."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("valid",), quiet={"beat_valid": 0})

    async def send(self, words: list[int], place: int, gaps: float) -> None:
        plane = b"".join(word.to_bytes(TAG_WORD_BYTES, "little") for word in words)
        beats = beats_of(plane, place * TAG_WORD_BYTES)
        for index, word in enumerate(words):
            while random.random() < gaps:
                await self.cycle(first=random.getrandbits(1), last=random.getrandbits(1),
                                 place=random.getrandbits(4), tags=random.getrandbits(16))  # fmt: skip
            first, last = index == 0, index == len(words) - 1
            if last or (place + index) % WORDS == WORDS - 1:
                self.due(TagPlane.LATENCY, beat_valid=1, beat=beats.pop(0))
            # Behind the first word, the place means nothing.
            where = place if first else random.getrandbits(4)
            await self.cycle(valid=1, first=first, last=last, place=where, tags=word)
        assert not beats


def random_words(count: int) -> list[int]:
    return [random.choice([0, 0xFFFF, random.getrandbits(16)]) for _ in range(count)]


@cocotb.test()
@cocotb.parametrize(gaps=[0.0, 0.4])
async def every_place_and_length(dut, gaps):
    """All 16 places with 1 to 33 words, block behind block without an idle cycle where there are no gaps."""
    tb = TB(dut)
    await tb.reset()
    cases = [(place, count) for place in range(WORDS) for count in range(1, 34)]
    random.shuffle(cases)
    for place, count in cases[: None if gaps == 0 else 150]:
        await tb.send(random_words(count), place, gaps)
    await tb.drain()


@cocotb.test()
async def longest(dut):
    """288 words, the most a block has, at both ends of a beat."""
    tb = TB(dut)
    await tb.reset()
    for place in (0, 15):
        await tb.send(random_words(288), place, 0.0)
    await tb.drain()
    assert tb.checked == 2 * (18 + 19)
