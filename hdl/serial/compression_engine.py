# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side of a NIC of one lane: frames from the host in, frames for the wire out."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring

from inceptionn.wire import SHIM_BYTES, SHIM_MAGIC

from ..engine.frame_recorder import FrameRecord
from ..engine.transmit_judging import JudgedFrame, TransmitJudging
from ..engine.transmit_resolving import BlockSums, TransmitResolving, frame_order
from ..frame.flow_table import FlowKey, flow_index
from ..frame.header_fields import IPV4, L3, L4, TCP, UDP
from ..frame.header_judge import ParsedHeader
from ..parts.checksum import swap16
from ..parts.delay import delayed
from ..parts.memory import BlockRam
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from .compressor import STORE_WORDS
from .frame_reader import FrameReader
from .frame_store import length_of
from .serial_engine import SerialEngine
from .word_parser import LAST_WORD

_PATCHED = (L3 + IPV4["total_length"].byte) // 4
"""The first word of a frame that differs in its wire form."""
_FROM_HEADER = sorted(FrameRecord.as_shape().members.keys() & ParsedHeader.as_shape().members.keys())


class CompressionEngine(SerialEngine):
    """Replaces the payload of eligible frames by shim and block (wire format, section 3), a word a cycle.

    ::

        s_axis ─► FrameReader ┬─ first pass ─► headers ─► TransmitJudging ─► TransmitResolving ─► order
                              │            └─► Compressor ─ statistics ────────────┘
                              │                    └─► block RAM ─┐
                              └─ second pass, patched ────────────┴─► OutputQueue ─► m_axis

    One frame at a time. The first pass reads its headers, and if nothing speaks against it compresses its
    payload; the second sends it. A frame that a header check fails is sent at once. A frame of more than
    16380 bytes is dropped.

    Cycles from one frame to the next: 21 and the words that leave; of a frame that is compressed or tried, 9
    more for each 8 words of its payload, and 25 to 40.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        self._reader = reader = self._read(m, transmit=True)
        m.submodules.judging = self._judging = TransmitJudging(shape)
        m.submodules.resolving = self._resolving = resolving = TransmitResolving(shape)
        m.submodules.compressor = self._compressor = compressor = shape.codec.serial_compressor(shape)
        m.submodules.output = self._output = output = OutputQueue(8, shape)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        wiring.connect(m, resolving.reports, wiring.flipped(self.reports))

        self._index = index = Signal(range(STORE_WORDS))  # of the word that is read
        self._sends = sends = Signal()  # it leaves
        self._compressed = Signal()  # the frame leaves as shim and block
        self._join = Signal(range(32))  # the word in which header and payload meet
        m.d.comb += [
            reader.address.eq(index),
            reader.release.eq(sends),
            compressor.word.eq(reader.aligned),
        ]
        self._record(m)
        self._judge(m)
        self._work(m)
        self._send(m)
        return m

    def _record(self, m: Module) -> None:
        """Register what is known of the frame with its header, until it is judged."""
        reader, base = self._reader, self.shape.codec.spec.base
        stored, header = reader.frames.payload, reader.headers.payload.header
        stored_length = length_of(stored)
        self._frame = frame = Signal(FrameRecord)
        self._waiting = waiting = Signal()  # for its verdict
        count = Signal.like(self._compressor.count, name="count")
        parameters = Signal.like(self._compressor.parameters, name="parameters")
        with m.If(reader.headers.valid):
            m.d.sync += [
                waiting.eq(1),
                frame.bad.eq(stored.bad),
                frame.short.eq(stored_length < header.frame_length),
                frame.index.eq(flow_index(header)),
                frame.learns.eq(header.config.learn_phases),
                frame.base.eq(self._with_type(header.config[base], header)),
                frame.frame_bytes.eq(stored_length),
                *(frame[name].eq(header[name]) for name in _FROM_HEADER),
                *(frame.key[name].eq(header[name]) for name, _ in FlowKey.as_shape()),
                self._join.eq(header.payload_at[2:]),
                count.eq(header.payload_length[2:]),
                parameters.e0.eq(self._with_type(header.config.e0, header)),
                parameters.t.eq(header.config.t),
                parameters.b.eq(header.config.b),
            ]
        with m.Elif(self._judging.records.ready):
            m.d.sync += waiting.eq(0)
        m.d.comb += [self._compressor.count.eq(count), self._compressor.parameters.eq(parameters)]

    def _judge(self, m: Module) -> None:
        """Judge the frame while it is compressed; its order comes when the block's statistics do."""
        judging, resolving, statistics = self._judging, self._resolving, self._compressor.statistics
        self._order = order = Signal(frame_order(self.shape))
        self._ordered = ordered = Signal(init=1)  # the frame's order is there, or no frame waits for one
        judged = Signal(JudgedFrame, reset_less=True)
        judged_valid = Signal()
        # With TCP options, the header's sum goes on after the header was captured. It is complete once the
        # word is added in which the header ends, with which the compressor starts.
        summed = Signal()
        last_adds = delayed(m, self._compressor.start, FrameReader.LATENCY, name="last_adds", reset=True)
        with m.If(self._reader.headers.valid):
            m.d.sync += summed.eq(0)
        with m.Elif(last_adds):
            m.d.sync += summed.eq(1)
        with m.If(judging.judged.valid):
            m.d.sync += [judged.eq(judging.judged.payload), judged_valid.eq(1)]
        with m.Elif(resolving.judged.ready):
            m.d.sync += judged_valid.eq(0)
        with m.If(self._reader.headers.valid):
            m.d.sync += ordered.eq(0)
        with m.Elif(resolving.orders.valid):
            m.d.sync += [order.eq(resolving.orders.payload), ordered.eq(1)]
        sums = resolving.sums.payload
        m.d.comb += [
            judging.records.valid.eq(self._waiting),
            judging.records.payload.eq(self._frame),
            judging.header_sums.valid.eq(summed),
            judging.header_sums.payload.eq(self._reader.sums),
            judging.judged_room.eq(1),
            resolving.judged.valid.eq(judged_valid),
            resolving.judged.payload.eq(judged),
            resolving.orders_room.eq(1),
            resolving.sums.valid.eq(self._compressor.done),
            *(sums[name].eq(statistics[name]) for name, _ in BlockSums.as_shape()),
            resolving.counts.valid.eq(1),
            resolving.counts.payload.eq(statistics.counts),
        ]

    def _work(self, m: Module) -> None:
        """Lead a frame through both passes."""
        reader, compressor, output = self._reader, self._compressor, self._output
        index = self._index
        stored, parsed = reader.frames.payload, reader.headers.payload
        block_end = self._frame.payload_at + SHIM_BYTES - 1 + compressor.statistics.block_bytes
        self._top = top = Signal(14)  # where the last byte that leaves lies; holds while they leave
        self._over = over = Signal()
        m.d.sync += top.eq(Mux(self._compressed, block_end, Cat(stored.top, stored.last)))
        m.d.comb += over.eq(index == top[2:])
        with m.FSM():
            with m.State("idle"):
                m.d.sync += [index.eq(0), self._compressed.eq(0)]
                with m.If(reader.frames.valid & self._judging.ready & self._ordered & ~self._waiting):
                    m.d.comb += reader.start.eq(1)
                    m.next = "header"
            with m.State("header"):
                ends = (index == LAST_WORD) | (index == stored.last)
                m.d.comb += [reader.advances.eq(1), reader.header.eq(1), reader.complete.eq(ends)]
                m.d.sync += index.eq(index + 1)
                with m.If(ends):
                    m.next = "judge"
            with m.State("judge"):
                m.d.sync += index.eq(0)
                with m.If(reader.headers.valid):
                    m.next = "send"
                    with m.If(parsed.clear):
                        at = parsed.header.payload_at[2:]
                        m.d.sync += index.eq(Mux(at > LAST_WORD, LAST_WORD + 1, at))
                        m.next = "options"
            with m.State("options"):
                # The rest of the TCP header, and the word in which it meets the payload.
                m.d.comb += [reader.advances.eq(1), reader.header.eq(index > LAST_WORD)]
                m.d.sync += index.eq(index + 1)
                with m.If(index == self._join):
                    m.d.comb += compressor.start.eq(1)
                    m.next = "compress"
            with m.State("compress"):
                m.d.comb += reader.advances.eq(compressor.request)
                m.d.sync += index.eq(index + compressor.request)
                with m.If(compressor.done):
                    m.d.sync += index.eq(0)
                    m.next = "begin"
            with m.State("begin"):
                # The words that are the same in either form leave before the order comes.
                m.d.comb += self._sends.eq(output.room & (index < _PATCHED))
                m.d.sync += index.eq(index + self._sends)
                with m.If(self._resolving.orders.valid):
                    m.d.sync += self._compressed.eq(self._resolving.orders.payload.compressed)
                    m.next = "send"
            with m.State("send"):
                m.d.comb += self._sends.eq(output.room)
                m.d.sync += index.eq(index + output.room)
                with m.If(output.room & over):
                    m.d.comb += reader.frames.ready.eq(1)
                    m.next = "idle"

    def _send(self, m: Module) -> None:
        """Send the second pass: the words of the frame, patched, then shim and block; or all as they are."""
        index, join, order = self._index, self._join, self._order
        halves = [BlockRam(16, STORE_WORDS) for _ in range(2)]
        m.submodules.block_low, m.submodules.block_high = halves
        p = Pipeline(m, "send_", control={"go"})
        p.let(
            go=self._sends,
            last=self._over,
            bad=self._reader.frames.payload.bad,
            ending=self._top[:2] + 1,
            compressed=self._compressed,
            place=Mux(index < 32, index - self._frame.vlan, 0)[:5],
            in_shim=index == join,
            behind_shim=index == join + 1,
            in_block=index > join + 1,
        )
        written = self._compressor.writes.payload
        for number, half in enumerate(halves):
            m.d.comb += [
                half.read_address.eq(index - join - 2),
                half.write.eq(self._compressor.writes.valid & written.halves[number]),
                half.write_address.eq(written.address),
                half.write_data.eq(written.data.word_select(number, 16)),
            ]
        p.until(FrameReader.LATENCY)
        sent = Signal(32)
        place, in_shim, behind_shim, in_block = p.place, p.in_shim, p.behind_shim, p.in_block
        version = self.shape.codec.spec.version
        m.d.comb += sent.eq(self._reader.word)
        with m.If(p.compressed):
            self._patch(m, sent, place, order)
            with m.If(in_shim):
                m.d.comb += sent[16:].eq(swap16(Const(SHIM_MAGIC, 16)))
            with m.If(behind_shim):
                m.d.comb += sent.eq(Cat(Const(version, 8), order.base, swap16(order.original_length)))
            with m.If(in_block):
                m.d.comb += sent.eq(Cat(half.read_data for half in halves))
        p.stage(data=sent)
        out = self._output.i.payload
        m.d.comb += [
            self._output.i.valid.eq(p.go),
            out.tdata.eq(p.data),
            out.tlast.eq(p.last),
            out.tuser.eq(p.last & p.bad),
            out.ending.eq(Mux(p.last, p.ending, 0)),
        ]

    def _with_type(self, value: Value, header: Any) -> Value:
        """Return a parameter with the lanes' type in its highest bit."""
        return Cat(value[:7], header.bf16) if self.shape.bf16 else value

    @staticmethod
    def _patch(m: Module, word: Signal, place: Value, order: Any) -> None:
        """Replace lengths and checksums in the header's word of this place."""
        for field, at, of_tcp, value in (
            (IPV4["total_length"], L3, None, order.total_length),
            (IPV4["checksum"], L3, None, order.ip_checksum),
            (UDP["length"], L4, 0, order.total_length - IPV4.size),
            (UDP["checksum"], L4, 0, order.checksum),
            (TCP["checksum"], L4, 1, order.checksum),
        ):
            number, byte = divmod(at + field.byte, 4)
            here = (place == number) & (1 if of_tcp is None else order.tcp == of_tcp)
            with m.If(here):
                m.d.comb += word.word_select(byte // 2, 16).eq(swap16(value[:16]))
