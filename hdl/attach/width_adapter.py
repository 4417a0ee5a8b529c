# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Stream of one width to another, an integer multiple."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream


def _ratio(narrow_bytes: int, wide_bytes: int) -> int:
    if narrow_bytes < 1 or wide_bytes <= narrow_bytes or wide_bytes % narrow_bytes:
        raise ValueError(
            f"stream widths must be a narrow one and a multiple of it, not {(narrow_bytes, wide_bytes)!r}"
        )
    ratio = wide_bytes // narrow_bytes
    if ratio & (ratio - 1):
        raise ValueError(f"stream widths must differ by a power of two, not {(narrow_bytes, wide_bytes)!r}")
    return ratio


class Widener(wiring.Component):
    """Gathers narrow beats into wide ones; a frame always starts in byte 0.

    One narrow beat per cycle; the wide beat follows one cycle after its last narrow one. ``tuser`` at
    ``tlast`` marks a bad frame and is passed on. A narrow beat before ``tlast`` that is not full makes the
    frame bad, too, since it leaves a hole. The last beat's bytes above ``tkeep`` are undefined.

    Parameters
    ----------
    narrow_bytes, wide_bytes : :class:`int`
        Widths of ``tdata``; their ratio is a power of two.
    """

    def __init__(self, narrow_bytes: int, wide_bytes: int):
        self.ratio = _ratio(narrow_bytes, wide_bytes)
        self.narrow_bytes = narrow_bytes
        self.wide_bytes = wide_bytes
        super().__init__(
            {
                "s_axis": In(AXIStream(narrow_bytes)),  #: Narrow beats.
                "m_axis": Out(AXIStream(wide_bytes)),  #: Wide beats.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        source, sink = self.s_axis, self.m_axis
        place = Signal(range(self.ratio))
        ragged = Signal()
        slots = [Signal(8 * self.narrow_bytes, name=f"slot{i}", reset_less=True) for i in range(self.ratio)]
        keeps = [Signal(self.narrow_bytes, name=f"keep{i}") for i in range(self.ratio)]
        accept = Signal()
        hole = Signal()
        m.d.comb += [
            source.tready.eq(~sink.tvalid | sink.tready),
            accept.eq(source.tvalid & source.tready),
            hole.eq(ragged | (~source.tlast & ~source.tkeep.all())),
            sink.tdata.eq(Cat(slots)),
            sink.tkeep.eq(Cat(keeps)),
        ]
        with m.If(sink.tready):
            m.d.sync += sink.tvalid.eq(0)
        with m.If(accept):
            m.d.sync += [
                place.eq(Mux(source.tlast, 0, place + 1)),
                ragged.eq(hole & ~source.tlast),
                sink.tvalid.eq(source.tlast | (place == self.ratio - 1)),
                sink.tlast.eq(source.tlast),
                sink.tuser.eq(source.tlast & (source.tuser | hole)),
            ]
            for i, (slot, keep) in enumerate(zip(slots, keeps, strict=True)):
                with m.If(place == i):
                    m.d.sync += [slot.eq(source.tdata), keep.eq(source.tkeep)]
                with m.Elif(place == 0):
                    m.d.sync += keep.eq(0)
        return m


class Narrower(wiring.Component):
    """Cuts wide beats into narrow ones, as many as hold bytes.

    One narrow beat per cycle without a gap while there are wide beats; the first follows one cycle after
    its wide beat. ``tuser`` is passed on with every part of its beat.

    Parameters
    ----------
    wide_bytes, narrow_bytes : :class:`int`
        Widths of ``tdata``; their ratio is a power of two.
    """

    def __init__(self, wide_bytes: int, narrow_bytes: int):
        self.ratio = _ratio(narrow_bytes, wide_bytes)
        self.narrow_bytes = narrow_bytes
        self.wide_bytes = wide_bytes
        super().__init__(
            {
                "s_axis": In(AXIStream(wide_bytes)),  #: Wide beats.
                "m_axis": Out(AXIStream(narrow_bytes)),  #: Narrow beats.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # A shift register of beats: the lowest leaves; `more` says that another follows it.
        m = Module()
        source, sink = self.s_axis, self.m_axis
        step = self.narrow_bytes
        data = Signal(8 * self.wide_bytes, reset_less=True)
        keep = Signal(self.wide_bytes, reset_less=True)
        last = Signal()
        more = Signal()
        m.d.comb += [
            more.eq(keep[step]),
            source.tready.eq(~sink.tvalid | (sink.tready & ~more)),
            sink.tdata.eq(data),
            sink.tkeep.eq(keep),
            sink.tlast.eq(last & ~more),
        ]
        with m.If(source.tready):
            m.d.sync += [
                sink.tvalid.eq(source.tvalid),
                data.eq(source.tdata),
                keep.eq(source.tkeep),
                last.eq(source.tlast),
                sink.tuser.eq(source.tuser),
            ]
        with m.Elif(sink.tready):
            m.d.sync += [data.eq(data >> 8 * step), keep.eq(keep >> step)]
        return m
