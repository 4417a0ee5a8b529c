# SPDX-License-Identifier: BSD-2-Clause
"""Checksum of a frame's TCP or UDP header."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.checksum import OnesComplementSum
from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .frame_input import frame_beat
from .header_fields import L4, VLAN
from .header_parser import parsed_frame


class HeaderSum(wiring.Component):
    """Sums the 16-bit words of the TCP or UDP header of each frame that no header check fails, modulo 65535.

    The header lies in a frame's second to fourth beat; with 16 lanes in its first two. A frame that ends
    before gives the sum of the words that it has. One beat per cycle. The sum follows the last of these beats
    or the frame's end, whichever is first, after :attr:`latency` cycles: 7 with 8 lanes, 8 with 16.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                #: One per frame, in the cycle before its second beat or its only one; with 16 lanes before
                #: its first.
                "headers": In(stream.Signature(parsed_frame(width), always_ready=True)),
                #: The frames' beats.
                "beats": In(stream.Signature(frame_beat(self.width.bytes), always_ready=True)),
                #: One per frame whose header is ``clear``, little-endian words.
                "sums": Out(stream.Signature(16, always_ready=True)),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from the last beat of the headers to its frame's sum."""
        return 1 + OnesComplementSum.latency_of(width)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.total = total = OnesComplementSum(self.width)
        wiring.connect(m, total.sums, wiring.flipped(self.sums))
        header, valid, last = self.headers.payload.header, self.beats.valid, self.beats.payload.last
        # Words count from the beat on in which the header sum begins. The comparisons are made when the
        # header is known, so that a word waits for its beat's number alone.
        words = self.width.words
        skipped = self.width.parsed_beat
        span = 4 if skipped else 2  # beats in which a header may lie
        most = (span - skipped) * words
        tcp_at = L4 // 2 - skipped * words
        tag = VLAN.size // 2
        start = Signal(range(tcp_at + tag + 1))
        stop = Signal(6)
        wanted = Signal(most, reset_less=True)
        m.d.comb += [
            start.eq(Mux(header.vlan, tcp_at + tag, tcp_at)),
            stop.eq(header.payload_at[1:] - skipped * words),
        ]
        clear = Signal()
        with m.If(self.headers.valid):
            # Of any other frame no word counts, and no sum is given.
            m.d.sync += clear.eq(self.headers.payload.clear)
            m.d.sync += [
                wanted[word].eq(self.headers.payload.clear & (word >= start) & (word < stop))
                for word in range(most)
            ]
        number = Signal(span, init=1)  # one-hot: the beat; none after those
        with m.If(valid):
            m.d.sync += number.eq(Mux(last, 1, number << 1))
        # A sum ends with the last of these beats or the frame, whichever is first.
        done = Signal()
        finished = Signal()
        m.d.comb += done.eq(valid & ~finished & (last | number[-1]))
        with m.If(valid):
            m.d.sync += finished.eq(~last & (finished | number[-1]))
        inside = [(wanted[i::words] & number[skipped:]).any() for i in range(words)]
        beat = self.beats.payload.data
        p = Pipeline(m, control={"valid", "last"})
        p.stage(
            valid=valid,
            last=done & clear,
            beat=Cat(Mux(inside[i], beat.word_select(i, 16), 0) for i in range(words)),
        )
        m.d.comb += [total.valid.eq(p.valid), total.last.eq(p.last), total.beat.eq(p.beat)]
        return m
