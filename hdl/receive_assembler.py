# SPDX-License-Identifier: BSD-2-Clause
"""Puts frames together for the host: as they came, or patched header and restored payload."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.alignment_unit import rotate_left_bytes
from inceptionn.hdl.axi import AXIStream
from inceptionn.hdl.checksum import swap16
from inceptionn.hdl.counters import FrameReport
from inceptionn.hdl.delay import delayed
from inceptionn.hdl.output_queue import OutputQueue
from inceptionn.hdl.receive_decision import ReceiveOrder
from inceptionn.wire import BURST_BYTES, Verdict

_WORDS = BURST_BYTES // 2


class WireBeat(data.Struct):
    """A beat as it came, waiting for its frame's order."""

    tdata: 8 * BURST_BYTES
    last: 1
    bad: 1  # with `last`: the frame came marked bad
    short: 1  # with `last`: the frame is shorter than its IP total length says
    ending: 5  # with `last`: bytes, modulo 32


class ReceiveAssembler(wiring.Component):
    """Carries out one order after the other, one output beat per cycle, without a gap between frames.

    A frame that passes is copied. Of one that is restored, the header is taken from the waiting beats
    and patched, the payload comes from the Decompressor and is rotated to where the header ends, and
    the waiting beats that held the block are thrown away meanwhile. Its last beat waits for the last of
    these, which tells whether the frame came whole and good.

    Latency: 4 cycles from a beat that is wanted to the output queue.

    Members
    -------
    order, order_valid, order_pop
        From the decision, in the frames' order.
    wire_beat, wire_valid, wire_pop
        Waiting beats.
    payload : :py:`In(AXIStream())`
        From the Decompressor; ``tuser`` at ``tlast``: malformed.
    m_axis : :py:`Out(AXIStream())`
    report, report_valid
        To the counters.
    """

    order: In(ReceiveOrder)
    order_valid: In(1)
    order_pop: Out(1)
    wire_beat: In(WireBeat)
    wire_valid: In(1)
    wire_pop: Out(1)
    payload: In(AXIStream())
    m_axis: Out(AXIStream())
    report: Out(FrameReport)
    report_valid: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.output = output = OutputQueue(slack=8)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))

        # The order at hand. `index`: of the output beat. `join`: index of the beat that header and
        # payload share, never 0. The last output beat is a `rest` if it holds nothing but what
        # the payload's last burst left over. What `index` says is worked out one beat ahead, so that the
        # queues are popped by registered bits and their own states alone: `in_header`, `in_payload` and
        # `at_final`.
        order = Signal(ReceiveOrder)
        busy, room = Signal(), Signal()
        index = Signal(9)
        join, rest = Signal(2), Signal()
        tail_seen, tail_bad, tail_short = Signal(), Signal(), Signal()
        malformed = Signal()
        before_join, before_final = Signal(2), Signal(9)
        in_header, in_payload, at_final, last = Signal(), Signal(), Signal(), Signal()
        at_first, at_second = Signal(), Signal()
        go, load = Signal(), Signal()
        wire = self.wire_beat
        m.d.comb += last.eq(Mux(order.restore, at_final, wire.last))
        # A restored frame's tail is known when its last waiting beat was seen, now or before.
        tail_now, tail_known = Signal(), Signal()
        stash, stashed = Signal(), Signal()
        m.d.comb += [
            tail_now.eq(self.wire_valid & wire.last),
            tail_known.eq(tail_seen | tail_now),
            go.eq(
                busy
                & room
                & (~in_header | self.wire_valid | stashed)
                & (~in_payload | self.payload.tvalid)
                & (~at_final | tail_known)
            ),
            load.eq(~busy | (go & last)),
            self.order_pop.eq(load),
            self.payload.tready.eq(go & in_payload),
            # Behind the header, what waits is thrown away up to the frame's end.
            self.wire_pop.eq(Mux(in_header & ~stashed, go | stash, busy & ~tail_seen)),
        ]
        # A frame so short that its last output beat holds the header's end, but with more waiting behind it
        # (padding): the header's beat stays in stage 1 until the tail is known.
        m.d.comb += stash.eq(busy & in_header & at_final & self.wire_valid & ~wire.last & ~tail_seen)
        with m.If(stash & ~stashed):
            m.d.sync += stashed.eq(1)
        with m.If(go):
            m.d.sync += stashed.eq(0)
        taken = Signal()
        m.d.comb += taken.eq(self.wire_valid & self.wire_pop)
        m.d.sync += room.eq(output.room)
        beats_in = Signal(13)
        with m.If(taken):
            m.d.sync += beats_in.eq(beats_in + 1)
            with m.If(wire.last):
                m.d.sync += [tail_seen.eq(1), tail_bad.eq(wire.bad), tail_short.eq(wire.short)]
        with m.If(go):
            m.d.sync += [
                index.eq(index + 1),
                at_first.eq(0),
                at_second.eq(at_first),
                at_final.eq(order.restore & (index == before_final)),
                in_header.eq(~order.restore | (in_header & (index != join))),
                in_payload.eq(
                    order.restore & (in_payload | (index == before_join)) & ~(rest & (index == before_final))
                ),
            ]
            with m.If(in_payload):
                m.d.sync += malformed.eq(self.payload.tuser)
        following = self.order
        begins = following.payload_at
        bytes_out = Signal(17)
        restored_length = Signal(17)
        last_byte = Signal(17)
        m.d.comb += [
            restored_length.eq(begins + following.payload_length),
            last_byte.eq(restored_length - 1),
        ]
        with m.If(load):
            m.d.sync += [
                busy.eq(self.order_valid),
                order.eq(following),
                index.eq(0),
                join.eq(begins[5:]),
                before_join.eq(begins[5:] - 1),
                before_final.eq(last_byte[5:] - 1),
                at_first.eq(1),
                at_second.eq(0),
                at_final.eq(0),
                in_header.eq(1),
                in_payload.eq(0),
                # The last burst begins at `begins` modulo 32; if the frame ends below that, it is a rest.
                rest.eq(last_byte[:5] < begins[:5]),
                bytes_out.eq(restored_length),
                tail_seen.eq(0),
                beats_in.eq(0),
                malformed.eq(0),
            ]

        # Stage 1: header and payload beat, the patch beside them.
        marks = Cat(in_header, in_payload)
        header1, payload1 = Signal(8 * BURST_BYTES, reset_less=True), Signal(8 * BURST_BYTES, reset_less=True)
        patch1, keep1 = Signal(8 * BURST_BYTES, reset_less=True), Signal(_WORDS, reset_less=True)
        marks1, place1 = Signal(2, reset_less=True), Signal(3, reset_less=True)
        patch, keep = self._patch(order, (at_first, at_second), in_header & in_payload)
        with m.If(~stashed):
            m.d.sync += header1.eq(wire.tdata)
        m.d.sync += [
            payload1.eq(self.payload.tdata),
            patch1.eq(patch),
            keep1.eq(keep),
            marks1.eq(marks),
            place1.eq(order.payload_at[2:5]),
        ]
        # Stages 2 and 3: the payload moves up by `4 * place + 2` bytes and is split at that; header and
        # patch join.
        rotated2, header2 = Signal(8 * BURST_BYTES, reset_less=True), Signal(8 * BURST_BYTES, reset_less=True)
        place2 = Signal(3, reset_less=True)
        source = Mux(marks1[1], payload1, 0).rotate_left(16)
        m.d.sync += [rotated2.eq(rotate_left_bytes(source, place1[:2], 4)), place2.eq(place1)]
        for i in range(_WORDS):
            word = Mux(keep1[i] & marks1[0], header1.word_select(i, 16), 0)
            m.d.sync += header2.word_select(i, 16).eq(word | patch1.word_select(i, 16))
        current3, leftover3 = (
            Signal(8 * BURST_BYTES, reset_less=True),
            Signal(8 * BURST_BYTES, reset_less=True),
        )
        rotated = rotate_left_bytes(rotated2, place2[2:], 16)
        for i in range(_WORDS):
            word = rotated.word_select(i, 16)
            here = Signal(name=f"here{i}")
            m.d.comb += here.eq((place2 << 1) < i)
            m.d.sync += [
                current3.word_select(i, 16).eq(Mux(here, word, 0) | header2.word_select(i, 16)),
                leftover3.word_select(i, 16).eq(Mux(here, 0, word)),
            ]
        # Stage 4: with what the burst before left over.
        carry = Signal(8 * BURST_BYTES, reset_less=True)
        first3 = delayed(m, at_first, 3, name="first")
        go3 = delayed(m, go, 3, name="go", reset=True)
        with m.If(go3):
            m.d.sync += carry.eq(leftover3)
        m.d.sync += output.push_data.tdata.eq(current3 | Mux(first3, 0, carry))

        bad = Signal()
        faulty, cut, came_bad = Signal(), Signal(), Signal()
        m.d.comb += [
            faulty.eq(Mux(in_payload, self.payload.tuser, malformed)),
            cut.eq(Mux(tail_seen, tail_short, wire.short)),
            came_bad.eq(Mux(tail_seen, tail_bad, wire.bad)),
            bad.eq(last & (came_bad | (order.restore & (faulty | cut)))),
        ]
        ending = Mux(order.restore, bytes_out[:5], wire.ending)
        late = delayed(m, Cat(last, bad, Mux(last, ending, 0)), 4, name="late")
        m.d.comb += [
            output.push.eq(delayed(m, go, 4, name="push", reset=True)),
            output.push_data.tlast.eq(late[0]),
            output.push_data.tuser.eq(late[1]),
            output.push_data.ending.eq(late[2:]),
        ]

        self._report(m, order, go & last, beats_in + taken, came_bad, faulty | cut, bytes_out)
        return m

    def _report(
        self, m: Module, order: Any, done: Value, beats: Value, bad: Value, malformed: Value, bytes_out: Value
    ) -> None:
        """One report per frame; of a frame that passes, both lengths are what was counted."""
        ending = Signal(5)
        with m.If(self.wire_valid & self.wire_pop & self.wire_beat.last):
            m.d.sync += ending.eq(self.wire_beat.ending)
        done1 = Signal()
        beats1, out1 = Signal(13, reset_less=True), Signal(17, reset_less=True)
        verdict1, restored1 = Signal(5, reset_less=True), Signal(reset_less=True)
        whole = Mux(malformed, Verdict.MALFORMED, Verdict.RESTORED)
        m.d.sync += [
            done1.eq(done),
            beats1.eq(beats),
            out1.eq(bytes_out),
            restored1.eq(order.restore),
            verdict1.eq(Mux(bad, Verdict.BAD, Mux(order.restore, whole, order.verdict))),
        ]
        length = Signal(17)
        m.d.comb += length.eq(((beats1 - (ending != 0)) << 5) + ending)
        m.d.sync += [
            self.report_valid.eq(done1),
            self.report.verdict.eq(verdict1),
            self.report.bytes_in.eq(length),
            self.report.bytes_out.eq(Mux(restored1, out1, length)),
        ]

    @staticmethod
    def _patch(order: Any, at_beat: tuple[Value, Value], at_join: Value) -> tuple[Value, Value]:
        """Words to put in, and which words of the waiting beat stay.

        ``at_beat``: this is the frame's first, its second beat; ``at_join``: header and payload share it.
        """
        udp_length = order.total_length - 20
        # (beat, word without VLAN tag, only with, value); a VLAN tag moves everything by two words.
        fields = [
            (0, 8, Const(1), order.total_length),
            (0, 12, Const(1), order.ip_checksum),
            (1, 3, ~order.tcp, udp_length[:16]),
        ]
        words, stay = [], []
        for i in range(_WORDS):
            word: Any = Const(0, 16)
            patched: Any = Const(0, 1)
            for beat, place, condition, value in fields:
                for vlan, at in ((0, place), (1, place + 2)):
                    if at == i:
                        hit = order.restore & at_beat[beat] & condition & (order.vlan == vlan)
                        word = word | Mux(hit, swap16(value), 0)
                        patched = patched | hit
            header = ~at_join | (order.payload_at[1:5] > i)
            words.append(word[:16])
            stay.append((~order.restore | header) & ~patched)
        return Cat(words), Cat(word[0] for word in stay)
