# SPDX-License-Identifier: BSD-2-Clause
"""Frames to octets for a medium: preamble, padding, FCS and the gap between frames (IEEE 802.3, clause 4)."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import crc, data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.axi import AXIStream
from ..parts.elastic_register import ElasticRegister
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


class _Kind(enum.Enum):
    """Of an octet."""

    IDLE = 0
    PREAMBLE = 1
    DATA = 2  # counts in the FCS
    FCS = 3


class MacTransmitter(wiring.Component):
    """Sends frames of bytes, from the destination address to the last byte before the FCS.

    Frames of fewer than 60 bytes are padded with zeros. Twelve idle octets follow each frame. A frame that is
    marked bad at its end leaves with an error octet and an inverted FCS, so that no receiver takes it. So
    does a frame whose next byte is missing when its time has come. Give it frames that wait whole
    (:class:`~inceptionn.hdl.attach.frame_queue.FrameQueue`).

    A register that waits, so that ``tready`` is one, and two stages of an octet time each: the first chooses
    the octet, the second brings in the FCS::

        s_axis ─► byte ─► chosen ─► octets ─► medium
         `ready` number:  n       n + 1     n + 2

    Latency: the first preamble octet is there two octet times after the frame's first byte is in ``byte``,
    which is a cycle after ``tvalid``.
    """

    s_axis: In(AXIStream(1))  #: ``tuser`` at ``tlast``: bad frame.
    #: ``valid`` is always high; ``ready`` is the octet clock and should come from a register.
    octets: Out(stream.Signature(Octet))
    underrun: Out(1)  #: For one cycle: a frame came too slowly.
    sent: Out(1)  #: For one cycle: a frame's last octet has been taken, cut frames included.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        byte = data.StructLayout({"tdata": 8, "tuser": 1, "tlast": 1})
        m.submodules.input = waiting = ElasticRegister(byte)
        source = waiting.o.payload
        state = Signal(_State)
        count = Signal(range(_PADDED + 1))
        spoilt = Signal()  # the frame's FCS is inverted
        missing = Signal()  # and its rest is still to come
        kind = Signal(_Kind)
        place = Signal(range(FCS_BYTES))  # of an octet of the FCS
        chosen = Signal(8)
        error = Signal()
        m.d.comb += [
            waiting.i.valid.eq(self.s_axis.tvalid),
            self.s_axis.tready.eq(waiting.i.ready),
            self.octets.valid.eq(1),
        ]
        m.d.comb += [waiting.i.payload[name].eq(getattr(self.s_axis, name)) for name in byte.members]
        m.d.sync += [self.underrun.eq(0), self.sent.eq(0)]

        # The first stage.
        with m.If(self.octets.ready):
            m.d.sync += [error.eq(0), count.eq(count + 1), place.eq(count[: len(place)])]
            with m.Switch(state):
                with m.Case(_State.GAP):
                    m.d.sync += kind.eq(_Kind.IDLE)
                    with m.If(count == _GAP - 1):
                        m.d.sync += state.eq(_State.IDLE)
                with m.Case(_State.IDLE):
                    m.d.sync += [chosen.eq(PREAMBLE), count.eq(1)]
                    with m.If(waiting.o.valid):
                        m.d.sync += [kind.eq(_Kind.PREAMBLE), state.eq(_State.PREAMBLE)]
                with m.Case(_State.PREAMBLE):
                    m.d.sync += [spoilt.eq(0), missing.eq(0)]
                    with m.If(count == _PREAMBLES):
                        m.d.sync += [chosen.eq(START), state.eq(_State.DATA), count.eq(0)]
                with m.Case(_State.DATA):
                    m.d.comb += waiting.o.ready.eq(1)
                    m.d.sync += [kind.eq(_Kind.DATA), chosen.eq(source.tdata)]
                    with m.If(count == _PADDED):
                        m.d.sync += count.eq(_PADDED)
                    with m.If(~waiting.o.valid):
                        m.d.sync += [error.eq(1), spoilt.eq(1), missing.eq(1), self.underrun.eq(1)]
                        m.d.sync += [state.eq(_State.FCS), count.eq(0)]
                    with m.Elif(source.tlast):
                        m.d.sync += [error.eq(source.tuser), spoilt.eq(source.tuser)]
                        with m.If(count >= _PADDED - 1):
                            m.d.sync += [state.eq(_State.FCS), count.eq(0)]
                        with m.Else():
                            m.d.sync += state.eq(_State.PAD)
                with m.Case(_State.PAD):
                    m.d.sync += chosen.eq(0)
                    with m.If(count == _PADDED - 1):
                        m.d.sync += [state.eq(_State.FCS), count.eq(0)]
                with m.Case(_State.FCS):
                    m.d.sync += kind.eq(_Kind.FCS)
                    with m.If(count == FCS_BYTES - 1):
                        m.d.sync += [state.eq(_State.GAP), count.eq(0)]
                        with m.If(missing):
                            m.d.sync += state.eq(_State.DISCARD)
                with m.Case(_State.DISCARD):
                    m.d.comb += waiting.o.ready.eq(1)
                    m.d.sync += [kind.eq(_Kind.IDLE), count.eq(0)]
                    with m.If(waiting.o.valid & source.tlast):
                        m.d.sync += state.eq(_State.GAP)
        self._second_stage(m, kind, chosen, place, spoilt, error)
        return m

    def _second_stage(
        self, m: Module, kind: Signal, chosen: Signal, place: Signal, spoilt: Signal, error: Signal
    ) -> None:
        """Send the chosen octet, or one of the FCS."""
        m.submodules.check = check = crc.catalog.CRC32_ETHERNET(8).create()
        octet = self.octets.payload
        fcs = check.crc.word_select(place, 8) ^ spoilt.replicate(8)
        m.d.comb += [
            check.start.eq(kind == _Kind.PREAMBLE),
            check.valid.eq((kind == _Kind.DATA) & self.octets.ready),
            check.data.eq(chosen),
        ]
        with m.If(self.octets.ready):
            m.d.sync += [
                octet.active.eq(kind != _Kind.IDLE),
                octet.data.eq(Mux(kind == _Kind.FCS, fcs, chosen)),
                octet.error.eq(error),
                self.sent.eq(octet.active & (kind == _Kind.IDLE)),
            ]
