# SPDX-License-Identifier: BSD-2-Clause
"""The facts about a block that the engine's decision needs: the part that both codecs share."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.checksum import OnesComplementSum
from ..parts.delay import delayed
from ..parts.width import Width
from .alignment_unit import AlignmentUnit


class BlockStatistics(wiring.Component):
    """Sums and counts over each block, one burst per cycle.

    A block's report follows its last vector after :attr:`latency` cycles: 12, with 16 lanes 14. With 8 lanes
    there must be an idle cycle between two blocks; with 16 there need not.

    Parameters
    ----------
    width : :class:`Width`
    report : shape
        Of a report.
    inputs : mapping
        The codec's own push streams, by name: what a payload is.
    """

    def __init__(self, width: Width, report: Any, inputs: Mapping[str, Any]):
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                **{name: In(stream.Signature(shape, always_ready=True)) for name, shape in inputs.items()},
                "block_bytes": In(14),  #: Size of the block, three cycles after its last vector.
                #: The Alignment Unit's beats.
                "beats": In(stream.Signature(self.width.bits, always_ready=True)),
                "done": In(1),  #: The Alignment Unit's output for the same vectors.
                "reports": Out(stream.Signature(report, always_ready=True)),  #: One per block, in order.
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from a block's last vector to its report."""
        # The data's sum comes last. A block's last beat may leave the aligner one cycle after its latency.
        return AlignmentUnit.latency_of(width) + 1 + OnesComplementSum.latency_of(width)

    @staticmethod
    def _sum_words(m: Module, words: Value, ends: Value) -> Signal:
        """Return the one's-complement sum of the table's words, 16 bits, three cycles after ``ends``.

        A word of 17 bits is the sum of two. The total's carry is added a cycle later, with the next word.
        """
        total = Signal(len(words) + 1, name="table_total")
        finished = Signal.like(total, name="table_finished", reset_less=True)
        folded = Signal(17, name="table_folded", reset_less=True)
        result = Signal(16, name="table_sum", reset_less=True)
        accumulated = (total[:16] + words + total[16:])[: len(total)]
        m.d.sync += [
            total.eq(Mux(ends, 0, accumulated)),
            finished.eq(accumulated),
            folded.eq(finished[:16] + finished[16:]),
            result.eq(folded[:16] + folded[16]),
        ]
        return result

    def _sum_data(self, m: Module) -> Value:
        """Return the data's sum, in the cycle of the block's report.

        It was made in this cycle or the previous one, and holds until the next block's. Where the next one
        can follow at once, `early` tells in which cycle it was made.
        """
        m.submodules.data_sum = data_sum = OnesComplementSum(self.width)
        m.d.comb += [
            data_sum.valid.eq(self.beats.valid),
            data_sum.last.eq(self.done),
            data_sum.beat.eq(self.beats.payload),
        ]
        if not self.width.payload_overlaps:
            return data_sum.sums.payload
        early = Signal()
        m.d.sync += early.eq(early ^ data_sum.sums.valid ^ self.reports.valid)
        return Mux(early, delayed(m, data_sum.sums.payload, 1, name="data_sum"), data_sum.sums.payload)
