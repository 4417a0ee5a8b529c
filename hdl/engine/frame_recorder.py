# SPDX-License-Identifier: BSD-2-Clause
"""The transmit decision's record of a frame, collected from its beats and its header."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import MAX_TRANSMIT_FRAME

from ..codec.shape import USUAL, EngineShape
from ..frame.flow_table import FLOW_SETS, FlowKey, flow_index
from ..frame.frame_input import frame_beat
from ..frame.front_end import FrontEnd
from ..frame.header_judge import ParsedHeader
from ..frame.header_parser import parsed_frame
from ..parts.pipeline import Pipeline
from ..parts.width import Width


class FrameRecord(data.Struct):
    """A whole frame in the raw ring, or a piece of one that is too long to be held whole."""

    verdict: 5  # of the headers; 0: a block was made of the payload
    partial: 1  # a piece, the frame goes on; of the other fields only `beats` is defined
    bad: 1
    overlong: 1  # pieces precede this record
    short: 1  # shorter than its IP total length says
    tcp: 1
    vlan: 1
    payload_at: 7
    total_length: 16
    payload_length: 16
    ip_checksum: 16
    checksum: 16
    key: FlowKey
    index: range(FLOW_SETS)
    phase: 2
    opens: 1
    closes: 1
    learns: 1  # an unknown flow's segment sets the phase
    base: 8
    frame_bytes: 17
    beats: 10


_FROM_HEADER = sorted(FrameRecord.as_shape().members.keys() & ParsedHeader.as_shape().members.keys())
"""Fields that a record has from the header as they are."""


class FrameRecorder(wiring.Component):
    """Records each frame when it has ended: its size and end from its beats, the rest from its header.

    A frame of more than 16384 bytes is recorded in pieces of that length; the last record, of what is left,
    is the frame's.

    Latency: :attr:`latency` cycles from a frame's last beat, or a piece's, to its record: 5 with 8 lanes, 6
    with 16. A record at most every cycle.
    """

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        self.latency = self.latency_of(self.shape)
        super().__init__(
            {
                #: As :class:`FrontEnd` has them.
                "beats": In(stream.Signature(frame_beat(self.shape.bytes), always_ready=True)),
                #: One per frame, at the latest :attr:`latency` - 2 cycles after its last beat, and later than
                #: that after the previous frame's.
                "headers": In(stream.Signature(parsed_frame(shape), always_ready=True)),
                #: One per frame or piece, in order.
                "records": Out(stream.Signature(FrameRecord, always_ready=True)),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from a last beat to its record: until the header is held, and one register."""
        return FrontEnd.delay_of(width) + 1

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid, beat = self.beats.valid, self.beats.payload
        most = MAX_TRANSMIT_FRAME // self.shape.bytes
        beats = Signal(range(most + 1))
        length = Signal(17)
        pieces = Signal()
        full = (beats == most - 1) & ~beat.last
        ended = valid & beat.last
        cut = valid & full
        with m.If(valid):
            m.d.sync += [
                beats.eq(Mux(beat.last | full, 0, beats + 1)),
                length.eq(Mux(beat.last, 0, length + self.shape.bytes)),
                pieces.eq(~beat.last & (pieces | full)),
            ]
        p = Pipeline(m, control={"valid"})
        p.stage(
            valid=ended | cut,
            partial=cut,
            beats=(beats + 1)[:10],
            frame_bytes=(length + beat.count)[:17],
            bad=beat.bad,
            overlong=pieces,
        )

        # The header is held one cycle before the record needs it; the next frame's, one cycle later at the
        # earliest.
        header = self.headers.payload.header
        held = Signal(ParsedHeader, reset_less=True)
        index = Signal(range(FLOW_SETS), reset_less=True)
        with m.If(self.headers.valid):
            m.d.sync += [held.eq(header), index.eq(flow_index(header))]
        p.until(self.latency - 1)
        record = self.records.payload
        base = held.config[self.shape.codec.spec.base]
        m.d.sync += [
            self.records.valid.eq(p.valid),
            record.partial.eq(p.partial),
            record.beats.eq(p.beats),
            record.frame_bytes.eq(p.frame_bytes),
            record.bad.eq(p.bad),
            record.overlong.eq(p.overlong),
            record.short.eq(p.frame_bytes < held.frame_length),
            record.index.eq(index),
            record.learns.eq(held.config.learn_phases),
            record.base.eq(Cat(base[:7], held.bf16) if self.shape.bf16 else base),
            *(record[name].eq(held[name]) for name in _FROM_HEADER),
            *(record.key[name].eq(held[name]) for name, _ in FlowKey.as_shape()),
        ]
        return m
