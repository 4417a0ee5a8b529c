# SPDX-License-Identifier: BSD-2-Clause
"""The receive side of a NIC of one lane: frames from the wire in, frames for the host out."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from inceptionn.wire import SHIM_BYTES, Verdict

from ..engine.receive_decision import ReceiveOrder, Shim, judge_shim
from ..frame.header_fields import IPV4, L3, L4, UDP
from ..frame.header_judge import ParsedHeader
from ..parts.checksum import add16, swap16
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from .frame_reader import FrameReader
from .frame_store import length_of
from .serial_engine import SerialEngine
from .word_parser import LAST_WORD


class DecompressionEngine(SerialEngine):
    """Restores the payload of frames that carry a shim and a block (wire format, section 3), a word a cycle.

    ::

        s_axis ─► FrameReader ┬─ first pass ─► headers ─► shim ─► order
                              └─ second pass ─┬─ header, patched ──┬─► OutputQueue ─► m_axis
                                              └─► Decompressor ────┘

    One frame at a time, store and forward. A frame of more than 16380 bytes is dropped.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        self._reader = reader = self._read(m, transmit=False)
        m.submodules.decompressor = self._decompressor = decompressor = shape.codec.serial_decompressor(shape)
        m.submodules.output = self._output = output = OutputQueue(decompressor.SLACK + 4, shape)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))

        self._index = Signal(12)  # of the word that is read
        self._sends = Signal()  # it leaves
        self._restored = Signal()  # the frame in work leaves with its payload
        self._finished = Signal()  # and has left
        self._header = header = Signal(ParsedHeader)
        self._join = header.payload_at[2:]  # the word in which header and shim meet
        # The word in which shim and block meet; a cycle after `header`, and first used in state "shim".
        self._block = Signal(12)
        m.d.sync += self._block.eq(self._join + 2)
        m.d.comb += [
            reader.release.eq(self._sends),
            reader.frames.ready.eq(self._finished),
        ]
        self._decide(m)
        self._work(m)
        self._send(m)
        self._report(m)
        return m

    def _decide(self, m: Module) -> None:
        """Read the shim and decide on the frame, or pass on the objection of its headers."""
        reader, header = self._reader, self._header
        self._reads_shim = Signal(name="reads_shim")
        self._ends_shim = Signal(name="ends_shim")
        self._objects = objects = Signal()
        self._verdict = verdict = Signal(5)
        arrives = Pipeline(m, "arrives_", control={"shim", "decides"})
        arrives.let(shim=self._reads_shim, decides=self._ends_shim)
        arrives.until(FrameReader.LATENCY)
        front = Signal(32, reset_less=True)  # the shim's four bytes before the last
        shim_arrives = arrives.shim
        with m.If(shim_arrives):
            m.d.sync += front.eq(reader.aligned)
        p = Pipeline(m, "shim_", control={"decide"})
        p.let(
            decide=objects | arrives.decides,
            verdict=verdict,
            header=header,
            without=add16(header.ip_checksum, header.payload_length),
        )
        self._decided = Signal(name="decided")
        found = Signal(Shim)
        self._decision = Signal(ReceiveOrder, name="decision")
        judge_shim(m, p, self.shape, Cat(front, reader.aligned), self._decided, self._decision, found)
        self._order = order = Signal(ReceiveOrder)  # while the frame is sent
        shim = Signal(Shim)
        with m.If(self._decided):
            m.d.sync += [order.eq(self._decision), shim.eq(found)]
        with m.If(reader.headers.valid):
            m.d.sync += header.eq(reader.headers.payload.header)
        m.d.comb += [
            self._decompressor.base.eq(shim.base),
            self._decompressor.count.eq(order.payload_length[2:]),
            self._decompressor.length.eq(header.payload_length - SHIM_BYTES),
        ]

    def _work(self, m: Module) -> None:
        """Lead a frame through both passes."""
        reader, decompressor, index, join = self._reader, self._decompressor, self._index, self._join
        room, stored, parsed = self._output.room, reader.frames.payload, reader.headers.payload
        restores = Signal()
        clear = Signal()  # no header check has failed
        self._over = over = Signal()
        m.d.comb += [
            decompressor.room.eq(room),
            decompressor.word.eq(reader.word),
            reader.address.eq(Mux(restores, decompressor.address + self._block, index)),
            over.eq(Mux(self._restored, index == join, index == stored.last)),
        ]
        with m.FSM():
            with m.State("idle"):
                m.d.sync += [index.eq(0), self._restored.eq(0)]
                with m.If(reader.frames.valid):
                    m.d.comb += reader.start.eq(1)
                    m.next = "header"
            with m.State("header"):
                ends = (index == LAST_WORD) | (index == stored.last)
                m.d.comb += [reader.advances.eq(1), reader.header.eq(1), reader.complete.eq(ends)]
                m.d.sync += index.eq(index + 1)
                with m.If(ends):
                    m.next = "judge"
            with m.State("judge"):
                m.d.sync += [clear.eq(parsed.clear), index.eq(parsed.header.payload_at[2:])]
                with m.If(reader.headers.valid):
                    m.next = "judged"
            with m.State("judged"):
                # The shim's first word is read in any case.
                whole = length_of(stored) >= self._header.payload_at + SHIM_BYTES
                m.d.comb += [
                    reader.advances.eq(1),
                    self._reads_shim.eq(1),
                    self._verdict.eq(Mux(clear, Verdict.LENGTHS, self._header.verdict)),
                ]
                m.d.sync += index.eq(index + 1)
                m.next = "decide"
                with m.If(clear & whole):
                    m.next = "shim"
                with m.Else():
                    m.d.comb += self._objects.eq(1)
            with m.State("shim"):
                ends = index == self._block
                m.d.comb += [reader.advances.eq(1), self._reads_shim.eq(~ends), self._ends_shim.eq(ends)]
                m.d.sync += index.eq(index + 1)
                with m.If(ends):
                    m.next = "decide"
            with m.State("decide"):
                m.d.sync += index.eq(0)
                with m.If(self._decided):
                    m.d.sync += self._restored.eq(self._decision.restore)
                    m.next = "send"
            with m.State("send"):
                m.d.comb += self._sends.eq(room)
                m.d.sync += index.eq(index + room)
                with m.If(room & over):
                    m.next = "idle"
                    with m.If(self._restored):
                        m.d.comb += decompressor.start.eq(1)
                        m.next = "restore"
                    with m.Else():
                        m.d.comb += self._finished.eq(1)
            with m.State("restore"):
                m.d.comb += restores.eq(1)
                with m.If(decompressor.done):
                    m.d.comb += self._finished.eq(1)
                    m.next = "idle"

    def _send(self, m: Module) -> None:
        """Send the header, or the whole frame if it passes; then the payload."""
        stored, index, order = self._reader.frames.payload, self._index, self._order
        p = Pipeline(m, "send_", control={"go"})
        p.let(
            go=self._sends,
            last=self._over & ~self._restored,
            restored=self._restored,
            meets=self._over & self._restored,
            bad=stored.bad,
            ending=stored.top + 1,
            place=Mux(index < 32, index - self._header.vlan, 0)[:5],
        )
        p.until(FrameReader.LATENCY)
        sent = Signal(32)
        place, is_restored = p.place, p.restored
        m.d.comb += sent.eq(self._reader.word)
        with m.If(is_restored):
            for field, at_byte, of_udp, value in (
                (IPV4["total_length"], L3, False, order.total_length),
                (IPV4["checksum"], L3, False, order.ip_checksum),
                (UDP["length"], L4, True, order.total_length - IPV4.size),
            ):
                number, byte = divmod(at_byte + field.byte, 4)
                with m.If((place == number) & ~(order.tcp & of_udp)):
                    m.d.comb += sent.word_select(byte // 2, 16).eq(swap16(value[:16]))
        p.stage(data=sent)

        # The payload, from the upper half of the word on in which the header ends.
        rest = Signal(16, reset_less=True)
        words, done = self._decompressor.words, self._decompressor.done
        out = self._output.i.payload
        with m.If(p.go & p.meets):
            m.d.sync += rest.eq(p.data[:16])
        with m.Elif(words.valid):
            m.d.sync += rest.eq(words.payload[16:])
        wrong = stored.bad | (self._restored & self._malformed)
        m.d.comb += [
            self._output.i.valid.eq((p.go & ~p.meets) | words.valid | done),
            out.tdata.eq(Mux(p.go, p.data, Cat(rest, words.payload[:16]))),
            out.tlast.eq(Mux(p.go, p.last, done)),
            out.tuser.eq(Mux(p.go, p.last & p.bad, done & wrong)),
            out.ending.eq(Mux(p.go, Mux(p.last, p.ending, 0), Mux(done, 2, 0))),
        ]

    @property
    def _malformed(self) -> Value:
        """Whether the frame to restore is short, or its block malformed."""
        short = length_of(self._reader.frames.payload) < self._header.frame_length
        return short | self._decompressor.malformed

    def _report(self, m: Module) -> None:
        """Report the frame when it has left."""
        report, stored, order = self.reports.payload, self._reader.frames.payload, self._order
        answer = Mux(self._malformed, Verdict.MALFORMED, Verdict.RESTORED)
        restored_bytes = self._header.payload_at + order.payload_length
        m.d.sync += [
            self.reports.valid.eq(self._finished),
            report.verdict.eq(Mux(stored.bad, Verdict.BAD, Mux(self._restored, answer, order.verdict))),
            report.bytes_in.eq(length_of(stored)),
            report.bytes_out.eq(Mux(self._restored, restored_bytes, length_of(stored))),
        ]
        if self.shape.bf16:
            whole = self._restored & ~stored.bad & ~self._malformed
            m.d.sync += report.bf16.eq(whole & order.verdict[0])
