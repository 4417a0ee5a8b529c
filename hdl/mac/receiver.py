# SPDX-License-Identifier: BSD-2-Clause
"""Octets from a medium to frames: preamble and FCS removed, every fault marked (IEEE 802.3, clause 4)."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import crc, data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream
from .octets import FCS_BYTES, MAC_CONTROL, MIN_FRAME, PREAMBLE, START, Octet

_HELD = FCS_BYTES + 1
_TYPE_AT = 12


class ReceiveEvents(data.Struct):
    """One bit per frame, high for a cycle two cycles after its end: the first that applies."""

    error: 1  # the PHY reported an error; no start delimiter; wrong FCS and an end inside an octet
    short: 1  # fewer than 64 octets
    fcs: 1  # a wrong frame check sequence
    control: 1  # MAC control (PAUSE): the link's own
    good: 1


class _State(enum.Enum):
    IGNORE = 0  # until the medium is idle; also after reset, which may fall into a frame
    SEARCH = 1
    FRAME = 2


class MacReceiver(wiring.Component):
    """Turns octets into frames of bytes, from the destination address to the last byte before the FCS.

    ``tuser`` at ``tlast`` marks a frame to be dropped: damaged, shorter than 64 octets, or MAC control.
    PAUSE is therefore neither forwarded nor obeyed. A run of octets that does not begin with preamble and
    start delimiter is counted as an error and no more, a frame of fewer than 5 octets as short. What follows
    the last whole octet is cut off, and the frame is good if its FCS is (IEEE 802.3, 4.2.4.2.1).

    At most one octet per cycle. A byte leaves one cycle after the fifth octet that follows it, the last
    two cycles after the frame's end: the first of them looks at the FCS, the second judges the frame.
    """

    octets: In(stream.Signature(Octet, always_ready=True))  #: From the medium.
    m_axis: Out(AXIStream(1))  #: A push: ``tready`` is ignored.
    events: Out(ReceiveEvents)  #: What became of a frame.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.check = check = crc.catalog.CRC32_ETHERNET(8).create()
        octet, valid = self.octets.payload, self.octets.valid
        state = Signal(_State)
        held = Signal(8 * _HELD)  # the newest in the high bits
        count = Signal(range(MIN_FRAME + 1))  # octets of the frame; stays at 64
        type_high = Signal()
        control = Signal()
        error = Signal()
        taken = Signal()
        ended = Signal()  # one cycle late, as the three that follow
        lost = Signal()  # no frame has begun
        matches = Signal()  # the FCS does
        ragged = Signal()  # the frame ended inside an octet
        m.d.sync += [
            ended.eq(valid & ~octet.active & (state == _State.FRAME)),
            lost.eq(0),
            matches.eq(check.match_detected),
            ragged.eq(octet.error),
        ]
        m.d.comb += [
            taken.eq(valid & octet.active & (state == _State.FRAME)),
            check.start.eq(state == _State.SEARCH),
            check.valid.eq(taken),
            check.data.eq(octet.data),
            self.m_axis.tkeep.eq(1),
        ]
        with m.If(valid & ~octet.active):
            m.d.sync += state.eq(_State.SEARCH)
            m.d.sync += lost.eq(octet.error & (state == _State.SEARCH))
        with m.Elif(valid & (state == _State.SEARCH)):
            m.d.sync += [count.eq(0), error.eq(0), control.eq(0)]
            with m.If(octet.error | ((octet.data != PREAMBLE) & (octet.data != START))):
                m.d.sync += state.eq(_State.IGNORE)
                m.d.sync += lost.eq(1)
            with m.Elif(octet.data == START):
                m.d.sync += state.eq(_State.FRAME)
        with m.If(taken):
            m.d.sync += [
                held.eq(Cat(held[8:], octet.data)),
                count.eq(count + (count != MIN_FRAME)),
                error.eq(error | octet.error),
            ]
            with m.If(count == _TYPE_AT):
                m.d.sync += type_high.eq(octet.data == MAC_CONTROL >> 8)
            with m.If(count == _TYPE_AT + 1):
                m.d.sync += control.eq(type_high & (octet.data == MAC_CONTROL & 0xFF))

        event = Signal(ReceiveEvents)
        with m.If(error | lost | (ragged & ~matches)):
            m.d.comb += event.error.eq(1)
        with m.Elif(count < MIN_FRAME):
            m.d.comb += event.short.eq(1)
        with m.Elif(~matches):
            m.d.comb += event.fcs.eq(1)
        with m.Elif(control):
            m.d.comb += event.control.eq(1)
        with m.Else():
            m.d.comb += event.good.eq(1)
        m.d.sync += [
            self.events.eq(Mux(ended | lost, event, 0)),
            self.m_axis.tvalid.eq((taken | ended) & (count >= _HELD)),
            self.m_axis.tdata.eq(held[:8]),
            self.m_axis.tlast.eq(ended),
            self.m_axis.tuser.eq(ended & ~event.good),
        ]
        return m
