# SPDX-License-Identifier: BSD-2-Clause
"""The stages at the head of both engines: from a stream of frames to their headers and payloads."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import SHIM_BYTES

from ..control.config import EngineConfig
from ..parts.axi import AXIStream
from ..parts.delay import delayed_stream
from ..parts.width import BURST, Width
from .frame_input import FrameInput, frame_beat
from .header_parser import HeaderParser, parsed_frame
from .payload_realigner import PayloadRealigner, payload_burst


class FrontEnd(wiring.Component):
    """Turns a stream of frames into beats, headers and the payloads of the frames that no header check fails.

    ::

        s_axis ─► FrameInput ─┬──────────────────────────────────────► beats
                              ├─► HeaderParser ─┬────────────────────► headers
                              └─► delay ────┬── │ ───────────────────► late_beats
                                            └───┴─► PayloadRealigner ─► bursts

    Nothing stalls after the input register. Throughput: one beat per cycle.

    A frame's header comes one cycle before its second late beat (or its only one); with 16 lanes before its
    first. The next frame's header follows this frame's last late beat by at least one cycle, so a register
    that takes ``headers`` describes the frame of every late beat from that one on.

    Parameters
    ----------
    transmit : :class:`bool`
        The checks of the transmit side and its payload, or those of the receive side and its block
        (:class:`HeaderParser`).
    pace : :class:`int`
        Fewest cycles per frame (:class:`FrameInput`).
    width : :class:`Width`
    """

    def __init__(self, width: Width = BURST, *, transmit: bool, pace: int = 1):
        self.width = width
        self.transmit = transmit
        self.pace = pace
        self.delay = self.delay_of(self.width)
        beats = stream.Signature(frame_beat(self.width.bytes), always_ready=True)
        super().__init__(
            {
                "s_axis": In(AXIStream(self.width.bytes)),  #: ``tuser`` at ``tlast``: bad frame.
                #: Sampled once for a frame, in the cycle after its first beat was accepted.
                "config": In(EngineConfig),
                #: With ``width.bf16``: see :class:`HeaderParser`.
                **({"bf16_tos": In(8)} if width.bf16 else {}),
                #: Frames are accepted. Up to two more beats follow on ``beats`` after it has fallen.
                "room": In(1),
                "beats": Out(beats),  #: One cycle after they were accepted.
                "late_beats": Out(beats),  #: The same, :attr:`delay` cycles later.
                "headers": Out(stream.Signature(parsed_frame(width), always_ready=True)),  #: One per frame.
                #: Payloads, or blocks, of the frames whose headers are clear.
                #: :attr:`PayloadRealigner.LATENCY` cycles after their late beat.
                "bursts": Out(stream.Signature(payload_burst(width), always_ready=True)),
                #: As of :class:`PayloadRealigner`: the shim, if the payload is a block.
                "front": Out(8 * SHIM_BYTES),
            }
        )

    @staticmethod
    def delay_of(width: Width) -> int:
        """Count the cycles by which a beat is delayed: those of the parser and one more."""
        return HeaderParser.latency_of(width) + 1

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.input = source = FrameInput(pace=self.pace, data_bytes=self.width.bytes)
        m.submodules.parser = parser = HeaderParser(self.width, transmit=self.transmit)
        m.submodules.realigner = realigner = PayloadRealigner(self.width)
        beats = delayed_stream(m, source.beats, self.delay, name="late")
        wiring.connect(m, wiring.flipped(self.s_axis), source.s_axis)
        wiring.connect(m, source.beats, parser.beats)
        wiring.connect(m, source.beats, wiring.flipped(self.beats))
        wiring.connect(m, beats, realigner.beats)
        wiring.connect(m, beats, wiring.flipped(self.late_beats))
        wiring.connect(m, parser.headers, wiring.flipped(self.headers))
        wiring.connect(m, realigner.bursts, wiring.flipped(self.bursts))
        m.d.comb += [
            source.room.eq(self.room),
            parser.config.eq(self.config),
            *([parser.bf16_tos.eq(self.bf16_tos)] if self.width.bf16 else []),
            realigner.runs.valid.eq(parser.headers.payload.clear),
            realigner.runs.payload.eq(parser.headers.payload.run),
            self.front.eq(realigner.front),
        ]
        return m
