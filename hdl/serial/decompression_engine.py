# SPDX-License-Identifier: BSD-2-Clause
"""The receive side of a NIC of one lane: frames from the wire in, frames for the host out."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring

from inceptionn.wire import SHIM_BYTES, Verdict

from ..control.config import EngineConfig
from ..engine.engine import Engine
from ..engine.receive_decision import ReceiveOrder, Shim, judge_shim
from ..frame.header_fields import IPV4, L3, L4, UDP
from ..frame.header_judge import ParsedHeader
from ..parts.checksum import add16, swap16
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from .frame_store import FrameStore, length_of
from .word_parser import LAST_WORD, WordParser


class DecompressionEngine(Engine):
    """Restores the payload of frames that carry a shim and a block (wire format, section 3), a word a cycle.

    ::

        s_axis ─► FrameStore ─┬─ first pass ─► WordParser ─► shim ─► order
                              └─ second pass ─┬─ header, patched ──┬─► OutputQueue ─► m_axis
                                              └─► Decompressor ────┘

    One frame at a time, store and forward. A frame of more than 16380 bytes is dropped.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        settings = data.StructLayout({"config": EngineConfig, **({"bf16_tos": 8} if shape.bf16 else {})})
        m.submodules.store = store = FrameStore(settings)
        m.submodules.parser = parser = WordParser(shape, transmit=False)
        m.submodules.decompressor = decompressor = shape.codec.serial_decompressor(shape)
        m.submodules.output = output = OutputQueue(decompressor.SLACK + 4, shape)
        wiring.connect(m, wiring.flipped(self.s_axis), store.s_axis)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        stored = store.frames.payload
        stored_length = length_of(stored)
        index = Signal(12)
        last_word = stored.last
        advances = Signal()
        reads_header = Signal()
        reads_shim = Signal()
        ends_shim = Signal()
        header = Signal(ParsedHeader)
        join = header.payload_at[2:]  # the word in which header and shim meet

        arrives = Pipeline(m, "arrives_", control={"header", "shim", "decides"})
        arrives.let(
            advances=advances,
            header=reads_header,
            shim=reads_shim,
            decides=ends_shim,
            complete=(index == LAST_WORD) | (index == last_word),
        )
        arrives.until(FrameStore.LATENCY)
        before = Signal(16, reset_less=True)
        arrived = arrives.advances
        with m.If(arrived):
            m.d.sync += before.eq(store.word[16:])
        aligned = Cat(before, store.word[:16])
        m.d.comb += [
            store.settings.config.eq(self.config),
            parser.config.eq(stored.settings.config),
            parser.valid.eq(arrives.header),
            parser.word.eq(store.word),
            parser.aligned.eq(aligned),
            parser.complete.eq(arrives.complete),
            parser.length.eq(stored_length),
            decompressor.word.eq(store.word),
        ]

        if shape.bf16:
            m.d.comb += [
                store.settings.bf16_tos.eq(self.bf16_tos),
                parser.bf16_tos.eq(stored.settings.bf16_tos),
            ]

        # The shim's four bytes before the last, and the decision.
        front = Signal(32, reset_less=True)
        shim_arrives = arrives.shim
        with m.If(shim_arrives):
            m.d.sync += front.eq(aligned)
        p = Pipeline(m, "shim_", control={"decide"})
        verdict = Signal(5)
        objects = Signal()
        held = Signal(ParsedHeader)
        m.d.comb += held.eq(Mux(objects, parser.headers.payload.header, header))
        decides = objects | arrives.decides
        p.let(
            decide=decides,
            verdict=verdict,
            header=held,
            without=add16(held.ip_checksum, held.payload_length),
        )
        decided, decision, found = Signal(), Signal(ReceiveOrder), Signal(Shim)
        judge_shim(m, p, shape, Cat(front, aligned), decided, decision, found)
        order, shim = Signal(ReceiveOrder), Signal(Shim)  # while the frame is sent
        with m.If(decided):
            m.d.sync += [order.eq(decision), shim.eq(found)]
        with m.If(parser.headers.valid):
            m.d.sync += header.eq(parser.headers.payload.header)

        restored = Signal()  # the frame in work
        length = Signal(17)  # of the frame as it leaves
        sends = Signal()
        restores = Signal()
        header_bytes = header.payload_at
        finished = Signal()
        short = stored_length < header.frame_length
        wrong = stored.bad | (restored & (short | decompressor.malformed))
        m.d.comb += [
            length.eq(Mux(restored, header_bytes + order.payload_length, stored_length)),
            decompressor.base.eq(shim.base),
            decompressor.count.eq(order.payload_length[2:]),
            decompressor.length.eq(header.payload_length - SHIM_BYTES),
            decompressor.room.eq(output.room),
            store.release.eq(sends),
            store.address.eq(Mux(restores, decompressor.address + join + 2, index)),
        ]
        over = Signal()
        m.d.comb += over.eq(Mux(restored, index == join, index == last_word))
        with m.FSM():
            with m.State("idle"):
                m.d.sync += [index.eq(0), restored.eq(0)]
                with m.If(store.frames.valid):
                    m.d.comb += parser.start.eq(1)
                    m.next = "header"
            with m.State("header"):
                m.d.comb += [advances.eq(1), reads_header.eq(1)]
                m.d.sync += index.eq(index + 1)
                with m.If((index == LAST_WORD) | (index == last_word)):
                    m.next = "judge"
            with m.State("judge"):
                parsed = parser.headers.payload
                at = parsed.header.payload_at
                whole = stored_length >= at + SHIM_BYTES
                m.d.comb += verdict.eq(Mux(parsed.clear, Verdict.LENGTHS, parsed.header.verdict))
                m.d.sync += index.eq(at[2:])
                with m.If(parser.headers.valid):
                    m.next = "decide"
                    with m.If(parsed.clear & whole):
                        m.next = "shim"
                    with m.Else():
                        m.d.comb += objects.eq(1)
            with m.State("shim"):
                ends = index == join + 2
                m.d.comb += [advances.eq(1), reads_shim.eq(~ends), ends_shim.eq(ends)]
                m.d.sync += index.eq(index + 1)
                with m.If(ends):
                    m.next = "decide"
            with m.State("decide"):
                m.d.sync += index.eq(0)
                with m.If(decided):
                    m.d.sync += restored.eq(decision.restore)
                    m.next = "send"
            with m.State("send"):
                m.d.comb += sends.eq(output.room)
                m.d.sync += index.eq(index + output.room)
                with m.If(output.room & over):
                    m.next = "idle"
                    with m.If(restored):
                        m.d.comb += decompressor.start.eq(1)
                        m.next = "restore"
                    with m.Else():
                        m.d.comb += finished.eq(1)
            with m.State("restore"):
                m.d.comb += restores.eq(1)
                with m.If(decompressor.done):
                    m.d.comb += finished.eq(1)
                    m.next = "idle"
        m.d.comb += store.frames.ready.eq(finished)

        # The header, or the whole frame if it passes.
        s = Pipeline(m, "send_", control={"go"})
        s.let(
            go=sends,
            last=over & ~restored,
            restored=restored,
            meets=over & restored,
            bad=stored.bad,
            ending=stored.top + 1,
            place=Mux(index < 32, index - header.vlan, 0)[:5],
        )
        s.until(FrameStore.LATENCY)
        sent = Signal(32)
        place, is_restored = s.place, s.restored
        m.d.comb += sent.eq(store.word)
        with m.If(is_restored):
            for field, at_byte, of_udp, value in (
                (IPV4["total_length"], L3, False, order.total_length),
                (IPV4["checksum"], L3, False, order.ip_checksum),
                (UDP["length"], L4, True, order.total_length - IPV4.size),
            ):
                number, byte = divmod(at_byte + field.byte, 4)
                with m.If((place == number) & ~(order.tcp & of_udp)):
                    m.d.comb += sent.word_select(byte // 2, 16).eq(swap16(value[:16]))
        s.stage(data=sent)

        # The payload, from the upper half of the word on in which the header ends.
        rest = Signal(16, reset_less=True)
        words = decompressor.words
        out = output.i.payload
        with m.If(s.go & s.meets):
            m.d.sync += rest.eq(s.data[:16])
        with m.Elif(words.valid):
            m.d.sync += rest.eq(words.payload[16:])
        m.d.comb += [
            output.i.valid.eq((s.go & ~s.meets) | words.valid | decompressor.done),
            out.tdata.eq(Mux(s.go, s.data, Cat(rest, words.payload[:16]))),
            out.tlast.eq(Mux(s.go, s.last, decompressor.done)),
            out.tuser.eq(Mux(s.go, s.last & s.bad, decompressor.done & wrong)),
            out.ending.eq(Mux(s.go, Mux(s.last, s.ending, 0), Mux(decompressor.done, 2, 0))),
        ]

        report = self.reports.payload
        malformed = short | decompressor.malformed
        m.d.sync += [
            self.reports.valid.eq(finished),
            report.verdict.eq(
                Mux(
                    stored.bad,
                    Verdict.BAD,
                    Mux(restored, Mux(malformed, Verdict.MALFORMED, Verdict.RESTORED), order.verdict),
                )
            ),
            report.bytes_in.eq(stored_length),
            report.bytes_out.eq(length),
        ]
        if shape.bf16:
            m.d.sync += report.bf16.eq(restored & ~stored.bad & ~malformed & order.verdict[0])
        return m
