# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of TagTable: every place, every length of the last beat, every beat in its cycle."""

import random

import cocotb
from chosen_beat import BEAT
from compressor_blocks import WIDTH, WORDS, beats_of
from lockstep import Lockstep

from inceptionn.hdl.codec.paper.tag_table import TagTable
from inceptionn.hdl.codec.word_table import table_words
from inceptionn.wire import GROUP_LANES, MAX_LANES, TAG_WORD_BYTES

LATENCY = TagTable.latency_of(BEAT)
GROUPS = WIDTH // GROUP_LANES
"""Words per cycle."""
MOST_OWED = 2
"""Cycles that words may be made to wait for others."""


def takes_one_more(words: int, place: int) -> bool:
    """Whether a block of ``words`` words takes one cycle more: its last two words are in two beats."""
    return GROUPS == 2 and words % 2 == 0 and (place + words) % WORDS == 1


class TB(Lockstep):
    """Sends blocks of tag words; each beat is due in a certain cycle."""

    def __init__(self, dut):
        layouts = {"words_payload": table_words(BEAT, GROUPS)}
        super().__init__(dut, pulses=("words_valid",), quiet={"beats_valid": 0}, layouts=layouts)
        self._free = 0
        """The first cycle in which words need not wait for others."""

    async def gap(self) -> None:
        await self.cycle(words_payload={})

    async def send(self, words: list[int], place: int, gaps: float) -> None:
        table = b"".join(word.to_bytes(TAG_WORD_BYTES, "little") for word in words)
        beats = beats_of(table, place * TAG_WORD_BYTES)
        # Cycles owed at the block's end must not be more than allowed.
        late = self._free - self.now + takes_one_more(len(words), place)
        for _ in range(late - MOST_OWED):
            await self.gap()
        for index in range(0, len(words), GROUPS):
            while random.random() < gaps:
                await self.gap()
            here = words[index : index + GROUPS]
            first, last = index == 0, index + GROUPS >= len(words)
            self._free = max(self._free, self.now)
            # Beats that the words complete, one per cycle.
            ends = (place + index) % WORDS + len(here)
            for _ in range(len(beats) if last else ends >= WORDS):
                self.due(LATENCY + self._free - self.now, beats_valid=1, beats_payload=beats.pop(0))
                self._free += last and bool(beats)
            self._free += 1
            payload = {"first": first, "last": last}
            payload["words"] = sum(word << 16 * i for i, word in enumerate(here))
            if GROUPS == 2:
                payload["both"] = len(here) == 2
            if first:  # after the first word, the place means nothing
                payload["place"] = place
            await self.cycle(words_valid=1, words_payload=payload)
        assert not beats


def random_words(count: int) -> list[int]:
    return [random.choice([0, 0xFFFF, random.getrandbits(16)]) for _ in range(count)]


@TB.test()
@cocotb.parametrize(gaps=[0.0, 0.4])
async def every_place_and_length(tb, gaps):
    """All places with every length to two beats and a word, block after block where there are no gaps."""
    cases = [(place, count) for place in range(WORDS) for count in range(1, 2 * WORDS + 2)]
    random.shuffle(cases)
    for place, count in cases[: None if gaps == 0 else 150]:
        await tb.send(random_words(count), place, gaps)
    await tb.drain()


@TB.test()
async def shortest(tb):
    """Blocks of few words, most at the last places of a beat: more beats than cycles, where it may be."""
    for _ in range(1000):
        place = random.choice([WORDS - 1, WORDS - 1, WORDS - 2, random.randrange(WORDS)])
        await tb.send(random_words(random.choice([1, 2, 2, 3, 4])), place, random.choice([0.0, 0.2]))
    await tb.drain()


@TB.test()
async def longest(tb):
    """288 words, the most a block has, at both ends of a beat."""
    most = MAX_LANES // GROUP_LANES
    for place in (0, WORDS - 1):
        await tb.send(random_words(most), place, 0.0)
    await tb.drain()
    beats = -(-most // WORDS)
    assert tb.checked == 2 * (beats + -(-(most + WORDS - 1) // WORDS))
