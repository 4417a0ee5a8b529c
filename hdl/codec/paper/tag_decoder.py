# SPDX-License-Identifier: BSD-2-Clause
"""From the tag tables of successive blocks to a stream of groups with their places in the data."""

from amaranth.hdl import Cat, Module, Value

from inceptionn.wire import GROUP_LANES, Tag

from ...parts.pipeline import Pipeline
from ..table_decoder import TableDecoder, quarter


def vector_bytes(tag: Value) -> Value:
    """Return the size of a lane's vector in bytes (3 bits): 0, 1, 2, 4 for tags 00, 01, 10, 11."""
    return Cat(tag == Tag.BITS8, tag == Tag.BITS16, tag == Tag.RAW)


class TagDecoder(TableDecoder):
    """Finds every group's place in the data from the tags alone (the paper's Tag Decoder, Fig. 10).

    A group's marks are its tag word, ``tags``. Its ``fault``: an absent lane has a tag, or the block is
    unusable. All else as of :class:`TableDecoder`.
    """

    MARKS = "tags"
    WORDS = 16

    def _measure(self, m: Module, p: Pipeline) -> None:
        # 16:1 choice of the tag word, two bits of the index per stage, after a register for the RAM alone.
        p.let(high=p.index[2:], low=p.index[:2], alone=p.last & ~p.more_lanes[-1])
        p.stage()
        four_words = quarter(m, p.beat, p.high, "four_words")
        p.stage()
        tags = quarter(m, four_words, p.low, "tags_3")
        if self.width.groups > 1:
            # After the tag word of a last group that is alone, data begin.
            alone = p.alone
            with m.If(alone):
                m.d.sync += tags[2 * GROUP_LANES :].eq(0)
        p.stage()
        p.let(marks=tags)

        # Tags of lanes that the block does not have; sizes, and their sum.
        absent = Cat(p.last & (p.more_lanes < lane) for lane in range(self.width.lanes))
        tagged = Cat(p.marks.word_select(lane, 2).any() for lane in range(self.width.lanes))
        sizes = [vector_bytes(p.marks.word_select(lane, 2)) for lane in range(self.width.lanes)]
        pairs = {f"pair_{i}": (sizes[2 * i] + sizes[2 * i + 1])[:4] for i in range(self.width.lanes // 2)}
        p.stage(found=Cat(p.unusable, absent & tagged), **pairs)
        p.let(fault=p.found.any())
        if self.width.groups == 1:
            p.stage(total=self._sum_of_pairs(p, 0))
            return
        p.stage(lower=self._sum_of_pairs(p, 0), upper=self._sum_of_pairs(p, 4))
        p.stage(total=p.lower + p.upper)

    @staticmethod
    def _sum_of_pairs(p: Pipeline, first: int) -> Value:
        pairs = [getattr(p, f"pair_{first + i}") for i in range(4)]
        return ((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]))[:6]
