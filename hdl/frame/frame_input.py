# SPDX-License-Identifier: BSD-2-Clause
"""An engine's input register: beats with their position in the frame, and the pace of short frames."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BURST_BYTES

from ..parts.axi import AXIStream


class FrameInput(wiring.Component):
    """Accepts an AXI4-Stream of frames; latency one cycle. Past this register nothing stalls.

    ``tready`` is a register. It falls when ``room`` does, and after a frame of fewer than ``pace`` beats,
    for the number of cycles that are missing: an engine's work per frame may take that long. With a pace of
    4, a 64-byte frame (two beats) costs two idle cycles.

    A partial beat before ``tlast`` makes its frame bad. A last beat without any byte does, too; it counts as
    a full one.

    Parameters
    ----------
    pace : :class:`int`
        Minimum number of cycles from one frame's first beat to the next frame's, 1 or more.
    data_bytes : :class:`int`
        Width of the stream in bytes, a power of two; n in the members' widths.

    Members
    -------
    s_axis : :py:`In(AXIStream())`
    room : :py:`In(1)`
        Beats are accepted. Up to two more follow after it has fallen.
    valid, last : :py:`Out(1)`
    first, second : :py:`Out(1)`
        ``valid``, of the frame's first and second beat; registers of their own.
    count : :py:`Out(range(n + 1))`
        Bytes in the beat, 1..n.
    bad : :py:`Out(1)`
        With ``last``: the frame arrived marked bad, or with partial beats.
    beat : :py:`Out(8 * n)`
    """

    def __init__(self, *, pace: int = 1, data_bytes: int = BURST_BYTES):
        if pace < 1:
            raise ValueError(f"pace must be 1 or more, not {pace!r}")
        if data_bytes < 2 or data_bytes & (data_bytes - 1):
            raise ValueError(f"stream width must be a power of two of bytes, not {data_bytes!r}")
        self.pace = pace
        self.data_bytes = data_bytes
        super().__init__(
            {
                "s_axis": In(AXIStream(data_bytes)),
                "room": In(1),
                "valid": Out(1),
                "last": Out(1),
                "first": Out(1),
                "second": Out(1),
                "count": Out(range(data_bytes + 1)),
                "bad": Out(1),
                "beat": Out(8 * data_bytes),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        stream = self.s_axis
        accept = Signal()
        ending = Signal()
        m.d.comb += [accept.eq(stream.tvalid & stream.tready), ending.eq(accept & stream.tlast)]

        # `owed`: idle cycles that would follow this one if the frame ended now.
        owed = Signal(range(self.pace), init=self.pace - 1)
        pause = Signal(range(self.pace))
        index = Signal(2)
        ragged = Signal()
        partial = ~stream.tkeep.all()
        with m.If(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        with m.If(accept):
            m.d.sync += [
                index.eq(Mux(stream.tlast, 0, index + (index != 2))),
                owed.eq(Mux(stream.tlast, self.pace - 1, owed - (owed != 0))),
                ragged.eq(~stream.tlast & (ragged | partial)),
            ]
        with m.If(ending):
            m.d.sync += pause.eq(Mux(owed != 0, owed - 1, 0))
        m.d.sync += [
            stream.tready.eq(self.room & ~(ending & (owed != 0)) & (pause == 0)),
            self.valid.eq(accept),
            self.last.eq(stream.tlast),
            self.first.eq(accept & (index == 0)),
            self.second.eq(accept & (index == 1)),
            self.bad.eq(stream.tuser[0] | ragged | ~stream.tkeep[0]),
            self.beat.eq(stream.tdata),
        ]

        # tkeep is a thermometer: count its bits by bisection.
        keep = stream.tkeep
        count = Signal.like(self.count)
        span = keep
        half = self.data_bytes // 2
        bits = []
        while half >= 1:
            reached = span[half - 1]
            bits.insert(0, reached)
            span = Mux(reached, span[half : 2 * half], span[:half])
            half //= 2
        for i, bit in enumerate(bits):
            m.d.comb += count[i].eq(bit & ~keep[-1])
        m.d.comb += count[-1].eq(keep[-1] | ~keep[0])
        m.d.sync += self.count.eq(count)
        return m
