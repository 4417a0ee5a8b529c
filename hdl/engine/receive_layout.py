# SPDX-License-Identifier: BSD-2-Clause
"""Lays out received frames: one part per output beat, with everything except the payload."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..frame.header_fields import IPV4
from ..frame.header_walk import HeaderWalk, patched_word
from ..parts.elastic_register import ElasticRegister
from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .receive_decision import ReceiveOrder


def wire_beat(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a beat from the wire that waits for its frame's order."""
    return data.StructLayout(
        {
            "tdata": width.bits,
            "last": 1,
            "bad": 1,  # with `last`: the frame is marked bad
            "short": 1,  # with `last`: the frame is shorter than its IP total length says
            "ending": range(width.bytes),  # with `last`: bytes, modulo the beat's width
        }
    )


def restored_burst(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a burst of a restored payload."""
    return data.StructLayout({"data": width.bits, "malformed": 1})  # `malformed`: with the last one


def frame_part(width: Width = BURST) -> data.StructLayout:
    """Return the layout of an output beat without its payload."""
    return data.StructLayout(
        {
            "header": width.bits,  # zero after the header
            "payload": 1,  # a burst belongs to it
            "place": range(width.lanes),  # the frame's payload begins at byte 4 * place + 2 of a beat
            "first": 1,
            "last": 1,
            "restored": 1,
            "awaits_tail": 1,  # the last part of a restored frame
            "bad": 1,  # with `last`, unless restored: the frame is marked bad
            "ending": range(width.bytes),  # with `last`: bytes, modulo the beat's width
        }
    )


def frame_account(width: Width = BURST) -> data.StructLayout:
    """Return the layout of a frame's account: all that its report needs but the block's validity."""
    return data.StructLayout(
        {
            "verdict": 5,
            "restored": 1,
            "bad": 1,
            "short": 1,
            "beats": 13,  # from the wire
            "ending": range(width.bytes),  # bytes of the last of them, modulo the beat's width
            "bytes_out": 17,  # of a restored frame
        }
    )


class _Plan(data.Struct):
    """An order, and what follows from it alone."""

    order: ReceiveOrder
    udp_length: 16  # of a restored frame
    bytes_out: 17  # likewise
    rest: 1  # the last output beat holds nothing but the end of the payload's last burst


class _Next(data.Struct):
    """The contents of the current frame's next part. Each decision of the control is a bit."""

    needs_beat: 1
    needs_none: 1  # no beat, only payload
    copied: 1  # the beat as it is: the frame passes
    last: 1  # of a restored frame
    ends: 1  # a copy, or the last part of a restored frame with only payload: the frame may be over with it
    no_frame: 1
    waits: 1  # no part: all are taken, but the frame's last beat was not there with the last part


_COPY = _Next.const({"needs_beat": 1, "copied": 1, "ends": 1})
_HEADER = _Next.const({"needs_beat": 1})  # patched
_LAST_HEADER = _Next.const({"needs_beat": 1, "last": 1})
_PAYLOAD = _Next.const({"needs_none": 1})
_LAST_PAYLOAD = _Next.const({"needs_none": 1, "last": 1, "ends": 1})
_WAIT_FOR_TAIL = _Next.const({"waits": 1})
_NO_FRAME = _Next.const({"no_frame": 1})


class ReceiveLayout(wiring.Component):
    """Turns orders and waiting beats into parts, one per cycle, without a gap between most frames.

    A part of a frame that passes is a copy of its beat. The parts of a restored frame hold its patched
    header; the waiting beats after the header hold the block, and are dropped. They may end before, with or
    after the last part: :attr:`tails` tells when, and how the frame ended.

    Two cycles are lost after a restored frame whose beats end after its last part, or whose last part holds
    header.

    Latency: the first part is offered 2 cycles after its order and its beat.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        self._place_bits = self.width.place_bits
        super().__init__(
            {
                "orders": In(stream.Signature(ReceiveOrder)),  #: In the frames' order.
                #: Every frame's beats from the wire, unchanged.
                "beats": In(stream.Signature(wire_beat(width))),
                "parts": Out(stream.Signature(frame_part(width))),  #: What each output beat is made of.
                #: Once per restored frame, when its last beat from the wire is taken: 1 if it was bad or
                #: short.
                "tails": Out(stream.Signature(1, always_ready=True)),
                #: Once per frame, when its last part and its last beat have been taken.
                "accounts": Out(stream.Signature(frame_account(width), always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        plans = self._plan(m)
        following = plans.o.payload
        beat = self.beats.payload

        # All state is in registers, set one part ahead. A frame that is not over with its last part waits
        # for its tail, which costs two cycles. So does a last part that holds header: it needs a beat.
        # `dropping`: the header is taken, and the waiting beats after it hold the block. `tail_seen`: the
        # restored frame's last beat is taken, too.
        plan = Signal(_Plan)
        order = plan.order
        next_part = Signal(_Next, init={"no_frame": 1})
        dropping = Signal()
        tail_seen = Signal()
        first = Signal()
        number = Signal(9)  # of the part after the one that follows
        last_follows = Signal()
        m.submodules.walk = walk = HeaderWalk(self.width)
        issue = Signal()
        advance = Signal()
        leave = Signal()
        load = Signal()
        waited = Signal()
        self.probes = {
            "plans": plans, "plan": plan, "next_part": next_part, "dropping": dropping,
            "tail_seen": tail_seen, "first": first, "number": number, "last_follows": last_follows,
            "walk": walk, "load": load,
        }  # fmt: skip
        # 32 bytes do not hold the headers of a restored frame.
        beats_before_last = following.bytes_out[self._place_bits :]
        only_part = beats_before_last == 0 if self.width.payload_overlaps else Const(0)
        header = Mux(only_part, _LAST_HEADER, _HEADER)
        # The tail may come with the last part: a frame that shrank by less than a beat loses no cycle. While
        # parts hold only payload, either the tail has been seen, or the waiting beats are dropped. Of a frame
        # that passes, `tail_seen` is never set.
        over = next_part.ends & (tail_seen | (self.beats.valid & beat.last))
        ends = next_part.no_frame | over
        m.d.comb += [
            self.parts.valid.eq((next_part.needs_beat & self.beats.valid) | next_part.needs_none),
            issue.eq(self.parts.valid & self.parts.ready),
            leave.eq(self.parts.ready & over),
            waited.eq(next_part.waits & tail_seen),
            advance.eq(next_part.no_frame | issue),
            load.eq(next_part.no_frame | leave),
            plans.o.ready.eq(load),
            self.beats.ready.eq((next_part.needs_beat & self.parts.ready) | dropping),
            walk.step.eq(advance),
            walk.load.eq(ends),
            walk.patch.eq(following.order.restore),
            walk.vlan.eq(following.order.vlan),
            walk.tcp.eq(following.order.tcp),
            walk.payload_at.eq(following.order.payload_at),
        ]
        taken = Signal()
        tail = Signal()
        m.d.comb += [taken.eq(self.beats.valid & self.beats.ready), tail.eq(taken & beat.last)]
        follows = self._part_after(m, next_part, walk.header_follows, last_follows)
        begins = Mux(plans.o.valid, Mux(following.order.restore, header, _COPY), _NO_FRAME)
        goes_on = number == plan.bytes_out[self._place_bits :]
        with m.If(advance):
            m.d.sync += [
                next_part.eq(Mux(ends, begins, follows)),
                first.eq(ends),
                number.eq(Mux(ends, 2, number + 1)),
                last_follows.eq(Mux(ends, beats_before_last == 1, goes_on)),
            ]
        with m.Elif(waited):
            m.d.sync += next_part.eq(_NO_FRAME)
        with m.If(tail & order.restore):
            m.d.sync += [dropping.eq(0), tail_seen.eq(1)]
        with m.If(issue & next_part.needs_beat & ~walk.header_follows & ~beat.last):
            m.d.sync += dropping.eq(1)
        with m.If(load):
            m.d.sync += [plan.eq(following), dropping.eq(0), tail_seen.eq(0)]

        self._describe_part(m, plan, next_part, walk)
        m.d.comb += self.parts.payload.first.eq(first)
        self._account(m, plan, taken=taken, done=leave | waited, tail=tail)
        return m

    def _part_after(self, m: Module, part: Any, header_follows: Value, last_follows: Value) -> Signal:
        """Return what follows ``part`` if the frame goes on."""
        follows = Signal(_Next)
        with m.If(part.copied):
            m.d.comb += follows.eq(_COPY)
        with m.Elif(part.last):
            m.d.comb += follows.eq(_WAIT_FOR_TAIL)
        with m.Elif(header_follows):
            m.d.comb += follows.eq(Mux(last_follows, _LAST_HEADER, _HEADER))
        with m.Else():
            m.d.comb += follows.eq(Mux(last_follows, _LAST_PAYLOAD, _PAYLOAD))
        return follows

    def _describe_part(self, m: Module, plan: Any, next_part: Any, walk: HeaderWalk) -> None:
        """Describe the part that is offered: its header, patched, and the plan's settings."""
        part, beat, order = self.parts.payload, self.beats.payload, plan.order
        fields = {
            "total_length": order.total_length,
            "ip_checksum": order.ip_checksum,
            "udp_length": plan.udp_length,
        }
        for i in range(self.width.words):
            hit, value = patched_word(walk.marks, i, fields, self.width)
            word = Mux(walk.keep[i], beat.tdata.word_select(i, 16), 0)
            m.d.comb += part.header.word_select(i, 16).eq(Mux(hit, value, word))
        m.d.comb += [
            part.payload.eq(walk.in_payload & ~(next_part.last & plan.rest)),
            part.place.eq(order.payload_at[2 : self._place_bits]),
            part.last.eq(Mux(order.restore, next_part.last, beat.last)),
            part.restored.eq(order.restore),
            part.awaits_tail.eq(next_part.last),
            part.bad.eq(beat.bad),
            part.ending.eq(Mux(order.restore, plan.bytes_out[: self._place_bits], beat.ending)),
        ]

    def _account(self, m: Module, plan: Any, *, taken: Value, done: Value, tail: Value) -> None:
        """Select the tail of a restored frame; give the account, two cycles after the frame's end.

        By then the frame's tail is held, and the next one's is not.
        """
        beat, order = self.beats.payload, plan.order
        m.d.comb += [
            self.tails.valid.eq(tail & order.restore),
            self.tails.payload.eq(beat.bad | beat.short),
        ]
        p = Pipeline(m, control={"taken", "done", "tail"})
        p.let(verdict=order.verdict, restored=order.restore, bytes_out=plan.bytes_out)
        p.stage(taken=taken, done=done, tail=tail, bad=beat.bad, short=beat.short, ending=beat.ending)
        account = self.accounts.payload
        beats = Signal(13)
        self.probes |= {"beat_count": beats, "account": p}
        m.d.sync += [beats.eq(Mux(p.done, 0, beats + p.taken)), account.beats.eq(beats + p.taken)]
        with m.If(p.tail):
            m.d.sync += [account.bad.eq(p.bad), account.short.eq(p.short), account.ending.eq(p.ending)]
        p.stage()
        m.d.comb += [
            account.verdict.eq(p.verdict),
            account.restored.eq(p.restored),
            account.bytes_out.eq(p.bytes_out),
            self.accounts.valid.eq(p.done),
        ]

    def _plan(self, m: Module) -> ElasticRegister:
        """Hold the next order, with the sums that it needs."""
        m.submodules.plans = plans = ElasticRegister(_Plan, in_ram={"order", "udp_length", "bytes_out"})
        plan = plans.i.payload
        order = self.orders.payload
        # Headers end at 2 modulo 4 and payloads are a multiple of 4 long: the last byte's index is one
        # less in its last two bits alone.
        total = Signal(17)
        m.d.comb += [
            total.eq(order.payload_at + order.payload_length),
            plan.order.eq(order),
            plan.udp_length.eq(order.total_length - IPV4.size),
            plan.bytes_out.eq(total),
            # The last burst begins at the place of `payload_at`; if the frame ends below that, it is a rest.
            plan.rest.eq(total[2 : self._place_bits] <= order.payload_at[2 : self._place_bits]),
            plans.i.valid.eq(self.orders.valid),
            self.orders.ready.eq(plans.i.ready),
        ]
        return plans
