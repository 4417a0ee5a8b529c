# SPDX-License-Identifier: BSD-2-Clause
"""From the code tables of successive blocks to a stream of groups with their places in the data."""

from amaranth.hdl import Cat, Module, Mux

from inceptionn.wire import CODE_WORD_BYTES, CODE_WORD_GROUPS

from ...parts.pipeline import Pipeline
from ..table_decoder import TableDecoder, quarter
from .plane_unit import CODE_BITS, code_bytes

_WORD_BITS = 8 * CODE_WORD_BYTES


class CodeDecoder(TableDecoder):
    """Finds every group's place in the data from the codes alone (the counterpart of the Tag Decoder).

    A group's marks are its code, ``codes``. Its ``fault``: the code table's last word holds more than the
    block's codes, or the block is unusable. All else as of :class:`TableDecoder`.

    With ``width.bf16`` the marks have one more bit above the codes: the block has bf16 lanes, which its
    ``base`` says, from 128 on.
    """

    MARKS = "codes"
    WORDS = 64

    def _measure(self, m: Module, p: Pipeline) -> None:
        # 64:1 choice of the codes, two bits of the index per stage, after a register for the RAM alone.
        p.let(high=p.index[4:], middle=p.index[2:4], low=p.index[:2], alone=~p.more_lanes[-1])
        p.stage()
        sixteen = quarter(m, p.beat, p.high, "sixteen_codes")
        p.stage()
        four = quarter(m, sixteen, p.middle, "four_codes")
        p.stage()
        codes = quarter(m, four, p.low, "codes_4")

        # The last word must not hold more than the block's codes. The word is there a stage before its codes.
        # `place`: that of the last code in its word.
        if self.width.groups == 1:
            p.stage(word=four, place=p.low)
        else:
            word = Mux(p.low[1], four[_WORD_BITS:], four[:_WORD_BITS])
            p.stage(word=word, place=Cat(~p.alone, p.low[0]))
        bf16 = p.base[-1] if self.width.bf16 else None
        p.let(marks=codes if bf16 is None else Cat(codes, bf16))
        surplus = [
            (p.place < place) & p.word.word_select(place, CODE_BITS).any()
            for place in range(CODE_WORD_GROUPS)
        ]
        fault = p.unusable | (p.last & Cat(surplus).any())
        if self.width.groups == 1:
            p.stage(fault=fault, total=code_bytes(codes, bf16))
            return
        # Where the last group is alone, the upper code counts nothing.
        upper = Mux(p.last & p.alone, 0, code_bytes(codes[CODE_BITS:], bf16))
        p.stage(fault=fault, lower=code_bytes(codes[:CODE_BITS], bf16), upper=upper)
        p.stage(total=p.lower + p.upper)
