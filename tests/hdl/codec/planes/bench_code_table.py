# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of CodeTable: every place, every length of the last beat, every word and beat in its cycle."""

import random
from typing import Any

import cocotb
from chosen_beat import BEAT
from compressor_blocks import WIDTH, WORDS, beats_of
from lockstep import Lockstep

from inceptionn.hdl.codec.planes.code_table import CodeTable, burst_codes
from inceptionn.hdl.codec.word_table import table_words
from inceptionn.wire import CODE_WORD_GROUPS, GROUP_LANES, MAX_LANES

GROUPS = WIDTH // GROUP_LANES
"""Codes per cycle."""


class TB(Lockstep):
    """Sends blocks of codes; each word and each beat is due in a certain cycle."""

    def __init__(self, dut):
        quiet: dict[str, Any] = {"beats_valid": 0, "words_valid": 0, "words_payload": {"last": 0}}
        layouts = {"codes_payload": burst_codes(BEAT), "words_payload": table_words(BEAT)}
        super().__init__(dut, pulses=("codes_valid",), quiet=quiet, layouts=layouts)

    async def gap(self) -> None:
        await self.cycle(codes_payload={})

    async def send(self, codes: list[int], place: int, gaps: float) -> None:
        filled = codes + [0] * (-len(codes) % CODE_WORD_GROUPS)
        words = [
            sum(code << 4 * i for i, code in enumerate(filled[at : at + CODE_WORD_GROUPS]))
            for at in range(0, len(filled), CODE_WORD_GROUPS)
        ]
        table = b"".join(word.to_bytes(2, "little") for word in words)
        beats = beats_of(table, 2 * place)
        for index in range(0, len(codes), GROUPS):
            while random.random() < gaps:
                await self.gap()
            here = codes[index : index + GROUPS]
            first, last = index == 0, index + GROUPS >= len(codes)
            word, rest = divmod(index + GROUPS, CODE_WORD_GROUPS)
            if last or not rest:
                number = word - (not rest)
                self.due(1, words_valid=1, words_payload={"words": words[number], "last": last})
                if last or (place + number) % WORDS == WORDS - 1:
                    self.due(CodeTable.LATENCY, beats_valid=1, beats_payload=beats.pop(0))
            payload = {"first": first, "last": last}
            payload["codes"] = sum(code << 4 * i for i, code in enumerate(here))
            if first:  # after the first codes, the place means nothing
                payload["place"] = place
            await self.cycle(codes_valid=1, codes_payload=payload)
        assert not beats


def random_codes(count: int) -> list[int]:
    return [random.choice([0, 15, random.randrange(16)]) for _ in range(count)]


@TB.test()
@cocotb.parametrize(gaps=[0.0, 0.4])
async def every_place_and_length(tb, gaps):
    """All places with every length to two words, and some to three beats, block after block."""
    cases = [(place, count) for place in range(WORDS) for count in range(1, 2 * CODE_WORD_GROUPS + 1)]
    cases += [(random.randrange(WORDS), random.randint(1, MAX_LANES // GROUP_LANES)) for _ in range(40)]
    random.shuffle(cases)
    for place, count in cases:
        await tb.send(random_codes(count), place, gaps)
    await tb.drain()


@TB.test()
async def longest(tb):
    """288 codes, the most a block has, at both ends of a beat."""
    for place in (0, WORDS - 1):
        await tb.send(random_codes(MAX_LANES // GROUP_LANES), place, 0.0)
    await tb.drain()
