# SPDX-License-Identifier: BSD-2-Clause
"""The transmit decision's record of a frame, collected from its beats and its header."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import MAX_TRANSMIT_FRAME

from ..codec.shape import USUAL, EngineShape
from ..frame.flow_table import FLOW_SETS, FlowKey, flow_index
from ..frame.frame_input import frame_beat
from ..frame.front_end import FrontEnd
from ..frame.header_judge import ParsedHeader
from ..frame.header_parser import HeaderParser, parsed_frame
from ..parts.pipeline import Pipeline
from ..parts.width import Width


class FrameRecord(data.Struct):
    """A whole frame in the raw ring, or a piece of one that leaves before it is whole."""

    verdict: 5  # of the headers; 0: a block was made of the payload
    partial: 1  # a piece, the frame goes on; of the other fields only `beats` is defined
    bad: 1
    overlong: 1  # the frame was too long to be held whole
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

    Two kinds of frames are recorded in pieces, which leave before the frame has ended; the last record, of
    what is left, is the frame's. A frame of more than 16384 bytes has pieces of that length. A frame that a
    header check fails leaves unchanged, whatever follows. If no older record waits, the frame is cut through.
    Its first piece ends with the first beat that comes when its header is known or later. Each further piece
    ends :attr:`PACE` cycles after the one before or later, with the next beat. While :attr:`MOST_PIECES`
    records wait, no piece ends.

    Latency: :attr:`latency` cycles from a frame's last beat, or a piece's, to its record: 5 with 8 lanes, 6
    with 16. Two cycles while a frame is cut through. A record at most every cycle.
    """

    PACE = 4
    """Fewest cycles from piece to piece: those of their judgement."""
    MOST_PIECES = 8
    """Pieces that wait for the assembler; at full pace, five."""

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
                "taken": In(1),  #: The assembler begins with the oldest record that waits.
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
        beats = Signal(range(most + 1))  # since the last record
        length = Signal(17)
        overlong = Signal()
        ended = Signal()
        cut = Signal()
        waiting = Signal(7)  # records
        passes = self._passes(m, ended, waiting == 0)
        due = self._due(m, cut) & (waiting < self.MOST_PIECES)
        m.d.comb += [
            ended.eq(valid & beat.last),
            cut.eq(valid & ~beat.last & ((beats == most - 1) | (passes & due))),
        ]
        with m.If(valid):
            m.d.sync += [
                beats.eq(Mux(beat.last | cut, 0, beats + 1)),
                length.eq(Mux(beat.last, 0, length + self.shape.bytes)),
                overlong.eq(~beat.last & (overlong | (length == MAX_TRANSMIT_FRAME - self.shape.bytes))),
            ]
        ends = Pipeline(m, control={"valid", "late"})
        ends.stage(
            valid=ended | cut,
            passes=passes,
            partial=cut,
            beats=(beats + 1)[:10],
            frame_bytes=(length + beat.count)[:17],
            bad=beat.bad,
            overlong=overlong,
        )
        m.d.sync += waiting.eq(waiting + ends.valid - self.taken)
        early = {name: getattr(ends, name) for name in ("partial", "beats", "frame_bytes", "bad", "overlong")}
        early_valid = ends.valid & ends.passes
        ends.let(late=ends.valid & ~ends.passes)

        # The header is held one cycle before the record needs it; the next frame's, one cycle later at the
        # earliest. While a frame is cut through, its header is held already, and no earlier record is in this
        # pipeline. So its pieces and its own record take the short way.
        header = self.headers.payload.header
        held = Signal(ParsedHeader, reset_less=True)
        index = Signal(range(FLOW_SETS), reset_less=True)
        with m.If(self.headers.valid):
            m.d.sync += [held.eq(header), index.eq(flow_index(header))]
        ends.until(self.latency - 1)
        record = self.records.payload
        base = held.config[self.shape.codec.spec.base]
        found = {name: Mux(early_valid, value, getattr(ends, name)) for name, value in early.items()}
        m.d.sync += [
            self.records.valid.eq(early_valid | ends.late),
            *(record[name].eq(value) for name, value in found.items()),
            record.short.eq(found["frame_bytes"] < held.frame_length),
            record.index.eq(index),
            record.learns.eq(held.config.learn_phases),
            record.base.eq(Cat(base[:7], held.bf16) if self.shape.bf16 else base),
            *(record[name].eq(held[name]) for name in _FROM_HEADER),
            *(record.key[name].eq(held[name]) for name, _ in FlowKey.as_shape()),
        ]
        return m

    def _passes(self, m: Module, ended: Value, alone: Value) -> Signal:
        """Return whether the frame that comes is cut through: from its header to its last beat."""
        beat = self.beats.payload
        # The last bit is high in the cycle of a header if that header's frame has not ended yet.
        parsed = Signal(HeaderParser.latency_of(self.shape))
        completes = beat.second if self.shape.parsed_beat else beat.first
        m.d.sync += parsed.eq(Mux(ended, 0, Cat(completes, parsed)))
        begins = self.headers.valid & ~self.headers.payload.clear & parsed[-1] & alone
        passing = Signal()
        passes = Signal()
        m.d.comb += passes.eq(passing | begins)
        m.d.sync += passing.eq(passes & ~ended)
        return passes

    def _due(self, m: Module, cut: Value) -> Value:
        """Return whether the last piece is :attr:`PACE` cycles old."""
        pause = Signal(range(self.PACE))
        with m.If(cut):
            m.d.sync += pause.eq(self.PACE - 1)
        with m.Elif(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        return pause == 0
