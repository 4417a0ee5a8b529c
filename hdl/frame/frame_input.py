# SPDX-License-Identifier: BSD-2-Clause
"""An engine's input register: beats with their position in the frame, and the pace of short frames."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BURST_BYTES

from ..parts.axi import AXIStream


def frame_beat(data_bytes: int) -> data.StructLayout:
    """Return the layout of a beat of a frame, with its place."""
    return data.StructLayout(
        {
            "data": 8 * data_bytes,
            "count": range(data_bytes + 1),  # bytes in the beat, at least 1
            "first": 1,  # the frame's first beat; low while `valid` is low
            "second": 1,  # its second; low while `valid` is low
            "last": 1,
            "bad": 1,  # with `last`: the frame arrived marked bad, or with partial beats
        }
    )


class FrameInput(wiring.Component):
    """Accepts an AXI4-Stream of frames, one beat per cycle, one cycle late. After it nothing stalls.

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
        Width of the stream in bytes, a power of two.
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
                "s_axis": In(AXIStream(data_bytes)),  #: Frames.
                "room": In(1),  #: Beats are accepted. Up to two more follow after it has fallen.
                "beats": Out(stream.Signature(frame_beat(data_bytes), always_ready=True)),  #: Registers.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        source, beat = self.s_axis, self.beats.payload
        accept = Signal()
        ending = Signal()
        m.d.comb += [accept.eq(source.tvalid & source.tready), ending.eq(accept & source.tlast)]

        # `owed`: idle cycles that would follow this one if the frame ended now.
        owed = Signal(range(self.pace), init=self.pace - 1)
        pause = Signal(range(self.pace))
        index = Signal(2)
        ragged = Signal()
        partial = ~source.tkeep.all()
        with m.If(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        with m.If(accept):
            m.d.sync += [
                index.eq(Mux(source.tlast, 0, index + (index != 2))),
                owed.eq(Mux(source.tlast, self.pace - 1, owed - (owed != 0))),
                ragged.eq(~source.tlast & (ragged | partial)),
            ]
        with m.If(ending):
            m.d.sync += pause.eq(Mux(owed != 0, owed - 1, 0))
        m.d.sync += [
            source.tready.eq(self.room & ~(ending & (owed != 0)) & (pause == 0)),
            self.beats.valid.eq(accept),
            beat.last.eq(source.tlast),
            beat.first.eq(accept & (index == 0)),
            beat.second.eq(accept & (index == 1)),
            beat.bad.eq(source.tuser[0] | ragged | ~source.tkeep[0]),
            beat.data.eq(source.tdata),
        ]

        # tkeep is a thermometer. A bit of its count is 1 from each odd multiple of the bit's weight up to the
        # next even one. The gates for all of them work side by side.
        keep = source.tkeep
        count = Signal(beat.count.shape())
        for bit, value in enumerate(count[:-1]):
            weight = 1 << bit
            spans = (
                keep[start - 1] & ~keep[start + weight - 1]
                for start in range(weight, self.data_bytes, 2 * weight)
            )
            m.d.comb += value.eq(reduce(or_, spans) & ~keep[-1])
        m.d.comb += count[-1].eq(keep[-1] | ~keep[0])
        m.d.sync += beat.count.eq(count)
        return m
