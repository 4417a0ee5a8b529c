# SPDX-License-Identifier: BSD-2-Clause
"""Frames to octets for a medium: preamble, padding, FCS and the gap between frames (IEEE 802.3, clause 4)."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import crc, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream
from .octets import FCS_BYTES, MIN_FRAME, PREAMBLE, START, Octet

_GAP = 12
_PREAMBLES = 7
_PADDED = MIN_FRAME - FCS_BYTES


class _State(enum.Enum):
    GAP = 0
    IDLE = 1
    PREAMBLE = 2
    DATA = 3
    PAD = 4
    FCS = 5
    DISCARD = 6  # the rest of a frame that came too slowly


class MacTransmitter(wiring.Component):
    """Sends frames of bytes, from the destination address to the last byte before the FCS.

    Frames of fewer than 60 bytes are padded with zeros. Twelve idle octets follow each frame. A frame that is
    marked bad at its end leaves with an error octet and an inverted FCS, so that no receiver takes it. So
    does a frame whose next byte is missing when its time has come. Give it frames that wait whole
    (:class:`~inceptionn.hdl.attach.frame_queue.FrameQueue`).

    Latency: the first preamble octet is offered one cycle after ``tvalid``, at the next octet time.

    Members
    -------
    s_axis : :py:`In(AXIStream(1))`
        ``tuser`` at ``tlast``: bad frame.
    octets : :py:`Out(stream.Signature(Octet))`
        ``valid`` is always high; ``ready`` is the octet clock.
    underrun : :py:`Out(1)`
        For one cycle: a frame came too slowly.
    """

    s_axis: In(AXIStream(1))
    octets: Out(stream.Signature(Octet))
    underrun: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.check = check = crc.catalog.CRC32_ETHERNET(8).create()
        source = self.s_axis
        octet = self.octets.payload
        state = Signal(_State)
        count = Signal(range(_PADDED + 1))
        spoilt = Signal()  # the frame's FCS is inverted
        missing = Signal()  # and its rest is still to come
        m.d.comb += [self.octets.valid.eq(1), check.start.eq(state == _State.PREAMBLE)]
        m.d.sync += self.underrun.eq(0)
        with m.If(self.octets.ready):
            m.d.sync += [octet.active.eq(1), octet.error.eq(0), count.eq(count + 1)]
            with m.Switch(state):
                with m.Case(_State.GAP):
                    m.d.sync += octet.active.eq(0)
                    with m.If(count == _GAP - 1):
                        m.d.sync += state.eq(_State.IDLE)
                with m.Case(_State.IDLE):
                    m.d.sync += [octet.active.eq(source.tvalid), octet.data.eq(PREAMBLE), count.eq(1)]
                    with m.If(source.tvalid):
                        m.d.sync += state.eq(_State.PREAMBLE)
                with m.Case(_State.PREAMBLE):
                    m.d.sync += [spoilt.eq(0), missing.eq(0)]
                    with m.If(count == _PREAMBLES):
                        m.d.sync += [octet.data.eq(START), state.eq(_State.DATA), count.eq(0)]
                with m.Case(_State.DATA):
                    m.d.comb += [
                        source.tready.eq(1),
                        check.valid.eq(source.tvalid),
                        check.data.eq(source.tdata),
                    ]
                    m.d.sync += octet.data.eq(source.tdata)
                    with m.If(count == _PADDED):
                        m.d.sync += count.eq(_PADDED)
                    with m.If(~source.tvalid):
                        m.d.sync += [octet.error.eq(1), spoilt.eq(1), missing.eq(1), self.underrun.eq(1)]
                        m.d.sync += [state.eq(_State.FCS), count.eq(0)]
                    with m.Elif(source.tlast):
                        m.d.sync += [octet.error.eq(source.tuser), spoilt.eq(source.tuser)]
                        with m.If(count >= _PADDED - 1):
                            m.d.sync += [state.eq(_State.FCS), count.eq(0)]
                        with m.Else():
                            m.d.sync += state.eq(_State.PAD)
                with m.Case(_State.PAD):
                    m.d.comb += check.valid.eq(1)
                    m.d.sync += octet.data.eq(0)
                    with m.If(count == _PADDED - 1):
                        m.d.sync += [state.eq(_State.FCS), count.eq(0)]
                with m.Case(_State.FCS):
                    fcs = check.crc.word_select(count[: (FCS_BYTES - 1).bit_length()], 8)
                    m.d.sync += octet.data.eq(fcs ^ spoilt.replicate(8))
                    with m.If(count == FCS_BYTES - 1):
                        m.d.sync += [state.eq(_State.GAP), count.eq(0)]
                        with m.If(missing):
                            m.d.sync += state.eq(_State.DISCARD)
                with m.Case(_State.DISCARD):
                    m.d.comb += source.tready.eq(1)
                    m.d.sync += [octet.active.eq(0), count.eq(0)]
                    with m.If(source.tvalid & source.tlast):
                        m.d.sync += state.eq(_State.GAP)
        return m
