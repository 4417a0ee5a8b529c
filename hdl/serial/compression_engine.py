# SPDX-License-Identifier: BSD-2-Clause
"""The transmit side of a NIC of one lane: frames from the host in, frames for the wire out."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from inceptionn.wire import SHIM_BYTES, SHIM_MAGIC

from ..control.config import EngineConfig
from ..engine.engine import Engine
from ..engine.frame_recorder import FrameRecord
from ..engine.transmit_judging import JudgedFrame, TransmitJudging
from ..engine.transmit_resolving import BlockSums, TransmitResolving, frame_order
from ..frame.flow_table import FlowKey, flow_index
from ..frame.header_fields import IPV4, L3, L4, TCP, UDP
from ..frame.header_judge import ParsedHeader
from ..parts.checksum import swap16
from ..parts.memory import BlockRam
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from .compressor import STORE_WORDS
from .frame_store import FrameStore, length_of
from .word_parser import LAST_WORD, WordParser

_PATCHED = (L3 + IPV4["total_length"].byte) // 4
"""The first word of a frame that differs in its wire form."""
_FROM_HEADER = sorted(FrameRecord.as_shape().members.keys() & ParsedHeader.as_shape().members.keys())


class CompressionEngine(Engine):
    """Replaces the payload of eligible frames by shim and block (wire format, section 3), a word a cycle.

    ::

        s_axis ─► FrameStore ─┬─ first pass ─► WordParser ─► TransmitJudging ─► TransmitResolving ─► order
                              │            └─► Compressor ─ statistics ────────────┘
                              │                    └─► block RAM ─┐
                              └─ second pass, patched ────────────┴─► OutputQueue ─► m_axis

    One frame at a time. The first pass reads its headers, and if nothing speaks against it compresses its
    payload; the second sends it. A frame that a header check fails is sent at once. A frame of more than
    16380 bytes is dropped.

    Cycles from one frame to the next, of *w* words: 2 *w* + 20 for one that a header check fails and that is
    longer than 15 words; else about 9/8 of its payload's words and those that leave, and 60.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        settings = data.StructLayout({"config": EngineConfig, **({"bf16_tos": 8} if shape.bf16 else {})})
        m.submodules.store = store = FrameStore(settings)
        m.submodules.parser = parser = WordParser(shape, transmit=True)
        m.submodules.judging = judging = TransmitJudging(shape)
        m.submodules.resolving = resolving = TransmitResolving(shape)
        m.submodules.compressor = compressor = shape.codec.serial_compressor(shape)
        m.submodules.output = output = OutputQueue(8, shape)
        halves = [BlockRam(16, STORE_WORDS) for _ in range(2)]
        m.submodules.block_low, m.submodules.block_high = halves
        wiring.connect(m, wiring.flipped(self.s_axis), store.s_axis)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        wiring.connect(m, resolving.reports, wiring.flipped(self.reports))
        header = parser.headers.payload.header
        stored = store.frames.payload
        stored_length = length_of(stored)

        # The word that is read, and a cycle later its kind.
        index = Signal(range(STORE_WORDS))
        last_word = stored.last
        reads_header = Signal()
        sends = Signal()  # the word at `index` leaves
        record = Signal(FrameRecord)
        record_valid = Signal()
        ordered = Signal(init=1)  # the frame's order is there, or no frame waits for one
        order = Signal(frame_order(shape))
        join = Signal(range(32))  # the word in which header and payload meet
        count = Signal.like(compressor.count)
        parameters = Signal.like(compressor.parameters)

        arrives = Pipeline(m, "arrives_", control={"header", "complete"})
        advances = Signal()  # the word at `index` is read, and the next one follows
        arrives.let(
            advances=advances, header=reads_header, complete=(index == LAST_WORD) | (index == last_word)
        )
        arrives.until(FrameStore.LATENCY)
        before = Signal(16, reset_less=True)
        arrives_now = arrives.advances
        with m.If(arrives_now):
            m.d.sync += before.eq(store.word[16:])
        aligned = Cat(before, store.word[:16])
        m.d.comb += [
            store.address.eq(index),
            store.release.eq(sends),
            store.settings.config.eq(self.config),
            parser.config.eq(stored.settings.config),
            parser.valid.eq(arrives.header),
            parser.word.eq(store.word),
            parser.aligned.eq(aligned),
            parser.complete.eq(arrives.complete),
            parser.length.eq(stored_length),
            compressor.word.eq(aligned),
            compressor.count.eq(count),
            compressor.parameters.eq(parameters),
        ]

        if shape.bf16:
            m.d.comb += [
                store.settings.bf16_tos.eq(self.bf16_tos),
                parser.bf16_tos.eq(stored.settings.bf16_tos),
            ]

        # What is known of the frame with its header.
        with m.If(parser.headers.valid):
            m.d.sync += [
                record_valid.eq(1),
                ordered.eq(0),
                record.bad.eq(stored.bad),
                record.short.eq(stored_length < header.frame_length),
                record.index.eq(flow_index(header)),
                record.learns.eq(header.config.learn_phases),
                record.base.eq(self._with_type(header.config[shape.codec.spec.base], header)),
                record.frame_bytes.eq(stored_length),
                *(record[name].eq(header[name]) for name in _FROM_HEADER),
                *(record.key[name].eq(header[name]) for name, _ in FlowKey.as_shape()),
                join.eq(header.payload_at[2:]),
                count.eq(header.payload_length[2:]),
                parameters.e0.eq(self._with_type(header.config.e0, header)),
                parameters.t.eq(header.config.t),
                parameters.b.eq(header.config.b),
            ]
        with m.Elif(judging.records.ready):
            m.d.sync += record_valid.eq(0)
        with m.If(resolving.orders.valid):
            m.d.sync += [order.eq(resolving.orders.payload), ordered.eq(1)]
        sums = resolving.sums.payload
        judged = Signal(JudgedFrame, reset_less=True)  # waits for the block's statistics
        judged_valid = Signal()
        with m.If(judging.judged.valid):
            m.d.sync += [judged.eq(judging.judged.payload), judged_valid.eq(1)]
        with m.Elif(resolving.judged.ready):
            m.d.sync += judged_valid.eq(0)
        m.d.comb += [
            judging.records.valid.eq(record_valid),
            judging.records.payload.eq(record),
            judging.header_sums.valid.eq(1),
            judging.header_sums.payload.eq(parser.sums),
            judging.judged_room.eq(1),
            resolving.judged.valid.eq(judged_valid),
            resolving.judged.payload.eq(judged),
            resolving.orders_room.eq(1),
            resolving.sums.valid.eq(compressor.done),
            *(sums[name].eq(compressor.statistics[name]) for name, _ in BlockSums.as_shape()),
            resolving.counts.valid.eq(1),
            resolving.counts.payload.eq(compressor.statistics.counts),
        ]

        leaves_compressed = Signal()
        over = Signal()
        block_end = record.payload_at + SHIM_BYTES - 1 + compressor.statistics.block_bytes
        top = Signal(14)  # the place of the last byte that leaves; holds while the frame is sent
        m.d.sync += top.eq(Mux(leaves_compressed, block_end, Cat(stored.top, stored.last)))
        m.d.comb += over.eq(index == top[2:])
        with m.FSM():
            with m.State("idle"):
                m.d.sync += [index.eq(0), leaves_compressed.eq(0)]
                with m.If(store.frames.valid & judging.ready & ordered & ~record_valid):
                    m.d.comb += parser.start.eq(1)
                    m.next = "header"
            with m.State("header"):
                m.d.comb += [advances.eq(1), reads_header.eq(1)]
                m.d.sync += index.eq(index + 1)
                with m.If((index == LAST_WORD) | (index == last_word)):
                    m.next = "judge"
            with m.State("judge"):
                m.d.sync += index.eq(0)
                with m.If(parser.headers.valid):
                    m.next = "send"
                    with m.If(parser.headers.payload.clear):
                        at = header.payload_at[2:]
                        m.d.sync += index.eq(Mux(at > LAST_WORD, LAST_WORD + 1, at))
                        m.next = "options"
            with m.State("options"):
                # The rest of the TCP header, and the word in which it meets the payload.
                m.d.comb += [advances.eq(1), reads_header.eq(index > LAST_WORD)]
                m.d.sync += index.eq(index + 1)
                with m.If(index == join):
                    m.d.comb += compressor.start.eq(1)
                    m.next = "compress"
            with m.State("compress"):
                m.d.comb += advances.eq(compressor.request)
                m.d.sync += index.eq(index + compressor.request)
                with m.If(compressor.done):
                    m.d.sync += index.eq(0)
                    m.next = "begin"
            with m.State("begin"):
                # The words that are the same in either form leave before the order comes.
                m.d.comb += sends.eq(output.room & (index < _PATCHED))
                m.d.sync += index.eq(index + sends)
                with m.If(resolving.orders.valid):
                    m.d.sync += leaves_compressed.eq(resolving.orders.payload.compressed)
                    m.next = "send"
            with m.State("send"):
                m.d.comb += sends.eq(output.room)
                m.d.sync += index.eq(index + output.room)
                with m.If(output.room & over):
                    m.d.comb += store.frames.ready.eq(1)
                    m.next = "idle"

        p = Pipeline(m, "send_", control={"go"})
        p.let(
            go=sends,
            last=over,
            bad=stored.bad,
            ending=top[:2] + 1,
            compressed=leaves_compressed,
            place=Mux(index < 32, index - record.vlan, 0)[:5],
            in_shim=index == join,
            behind_shim=index == join + 1,
            in_block=index > join + 1,
        )
        for half in halves:
            m.d.comb += half.read_address.eq(index - join - 2)
        p.until(FrameStore.LATENCY)
        block = Cat(half.read_data for half in halves)
        sent = Signal(32)
        place, in_shim, behind_shim, in_block = p.place, p.in_shim, p.behind_shim, p.in_block
        m.d.comb += sent.eq(store.word)
        with m.If(p.compressed):
            self._patch(m, sent, place, order)
            with m.If(in_shim):
                m.d.comb += sent[16:].eq(swap16(Const(SHIM_MAGIC, 16)))
            with m.If(behind_shim):
                m.d.comb += sent.eq(
                    Cat(Const(shape.codec.spec.version, 8), order.base, swap16(order.original_length))
                )
            with m.If(in_block):
                m.d.comb += sent.eq(block)
        p.stage(data=sent)
        out = output.i.payload
        m.d.comb += [
            output.i.valid.eq(p.go),
            out.tdata.eq(p.data),
            out.tlast.eq(p.last),
            out.tuser.eq(p.last & p.bad),
            out.ending.eq(Mux(p.last, p.ending, 0)),
        ]

        written = compressor.writes.payload
        for number, half in enumerate(halves):
            m.d.comb += [
                half.write.eq(compressor.writes.valid & written.halves[number]),
                half.write_address.eq(written.address),
                half.write_data.eq(written.data.word_select(number, 16)),
            ]
        return m

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
