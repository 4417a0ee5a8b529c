# SPDX-License-Identifier: BSD-2-Clause
"""Lays out received frames: one part per output beat, with everything except the payload."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES

from ..frame.header_fields import IPV4
from ..frame.header_walk import HeaderWalk, patched_word
from ..parts.beat import Beat
from ..parts.elastic_register import ElasticRegister
from ..parts.pipeline import Pipeline
from .receive_decision import ReceiveOrder


def wire_beat(lanes: int = GROUP_LANES) -> data.StructLayout:
    """A beat from the wire that waits for its frame's order."""
    width = Beat(lanes).bytes
    return data.StructLayout(
        {
            "tdata": 8 * width,
            "last": 1,
            "bad": 1,  # with `last`: the frame is marked bad
            "short": 1,  # with `last`: the frame is shorter than its IP total length says
            "ending": range(width),  # with `last`: bytes, modulo the beat's width
        }
    )


def restored_burst(lanes: int = GROUP_LANES) -> data.StructLayout:
    """A burst of a restored payload."""
    return data.StructLayout({"data": Beat(lanes).bits, "malformed": 1})  # `malformed`: with the last one


def frame_part(lanes: int = GROUP_LANES) -> data.StructLayout:
    """An output beat without its payload."""
    width = Beat(lanes).bytes
    return data.StructLayout(
        {
            "header": 8 * width,  # zero after the header
            "payload": 1,  # a burst belongs to it
            "place": range(lanes),  # the frame's payload begins at byte 4 * place + 2 of a beat
            "first": 1,
            "last": 1,
            "restored": 1,
            "awaits_tail": 1,  # the last part of a restored frame
            "bad": 1,  # with `last`, unless restored: the frame is marked bad
            "ending": range(width),  # with `last`: bytes, modulo the beat's width
        }
    )


def frame_account(lanes: int = GROUP_LANES) -> data.StructLayout:
    """What the report needs of a frame, except whether its block is malformed."""
    return data.StructLayout(
        {
            "verdict": 5,
            "restored": 1,
            "bad": 1,
            "short": 1,
            "beats": 13,  # from the wire
            "ending": range(Beat(lanes).bytes),  # bytes of the last of them, modulo the beat's width
            "bytes_out": 17,  # of a restored frame
        }
    )


class _Plan(data.Struct):
    """An order, and what follows from it alone."""

    order: ReceiveOrder
    bytes_out: 17  # of a restored frame
    rest: 1  # the last output beat holds nothing but the end of the payload's last burst


class _Next(enum.IntEnum, shape=3):
    """What the current frame's next part is made of: the place of the one bit that is set."""

    NO_FRAME = 0
    COPY = 1  # a beat as it is: the frame passes
    HEADER = 2  # a beat of header, patched
    LAST_HEADER = 3  # the same, and it is the restored frame's last part
    PAYLOAD = 4  # no beat, only payload
    LAST_PAYLOAD = 5
    WAIT_FOR_TAIL = 6  # no part: all are taken, but the frame's last beat was not there with the last part


class _Waiting(enum.Enum, shape=2):
    """What happens to the current frame's waiting beats."""

    WITH_PARTS = 0  # a beat is taken with the part that needs it
    DROPPED = 1  # the header is taken; the beats after it hold the block
    ALL_TAKEN = 2  # the tail of a restored frame has been taken


class ReceiveLayout(wiring.Component):
    """Turns orders and waiting beats into parts, one per cycle, without a gap between most frames.

    A part of a frame that passes is a copy of its beat. The parts of a restored frame hold its patched
    header; the waiting beats after the header hold the block, and are dropped. They may end before, with or
    after the last part: :attr:`tails` tells when, and how the frame ended.

    Two cycles are lost after a restored frame whose beats end after its last part, or whose last part holds
    header.

    Latency: the first part is offered 2 cycles after its order and its beat.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.

    Members
    -------
    orders : :py:`In(stream.Signature(ReceiveOrder))`
        In the frames' order.
    beats : :py:`In(stream.Signature(wire_beat(lanes)))`
        Every frame's beats as they came from the wire.
    parts : :py:`Out(stream.Signature(frame_part(lanes)))`
    tails : :py:`Out(stream.Signature(1, always_ready=True))`
        Once per restored frame, when its last beat from the wire is taken: 1 if it was bad or short.
    accounts : :py:`Out(stream.Signature(frame_account(lanes), always_ready=True))`
        Once per frame, when its last part and its last beat have been taken.
    """

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
        self._place_bits = self.width.place_bits
        super().__init__(
            {
                "orders": In(stream.Signature(ReceiveOrder)),
                "beats": In(stream.Signature(wire_beat(lanes))),
                "parts": Out(stream.Signature(frame_part(lanes))),
                "tails": Out(stream.Signature(1, always_ready=True)),
                "accounts": Out(stream.Signature(frame_account(lanes), always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        plans = self._plan(m)
        following = plans.o.payload
        beat = self.beats.payload

        # Both states are registers, set one part ahead. A frame that is not over with its last part waits
        # for its tail, which costs two cycles. So does a last part that holds header: it needs a beat.
        plan = Signal(_Plan)
        order = plan.order
        next_part = Signal(len(_Next), init=1 << _Next.NO_FRAME)
        waiting = Signal(_Waiting)
        first = Signal()
        number = Signal(9)  # of the part that follows
        copying = next_part[_Next.COPY]
        needs_beat = copying | next_part[_Next.HEADER] | next_part[_Next.LAST_HEADER]
        needs_none = next_part[_Next.PAYLOAD] | next_part[_Next.LAST_PAYLOAD]
        last = next_part[_Next.LAST_HEADER] | next_part[_Next.LAST_PAYLOAD]
        dropping = waiting == _Waiting.DROPPED
        tail_seen = waiting == _Waiting.ALL_TAKEN
        m.submodules.walk = walk = HeaderWalk(lanes=self.lanes)
        issue = Signal()
        leave = Signal()
        load = Signal()
        waited = Signal()
        last_follows = number == plan.bytes_out[self._place_bits :]
        # 32 bytes do not hold the headers of a restored frame.
        only_part = following.bytes_out[self._place_bits :] == 0 if self.width.payload_overlaps else Const(0)
        header = Mux(only_part, 1 << _Next.LAST_HEADER, 1 << _Next.HEADER)
        # The tail may come with the last part: a frame that shrank by less than a beat loses no cycle.
        tail_there = tail_seen | (dropping & self.beats.valid & beat.last)
        passed = copying & self.beats.valid & beat.last
        restored = next_part[_Next.LAST_PAYLOAD] & tail_there
        m.d.comb += [
            self.parts.valid.eq((needs_beat & self.beats.valid) | needs_none),
            issue.eq(self.parts.valid & self.parts.ready),
            leave.eq(self.parts.ready & (passed | restored)),
            waited.eq(next_part[_Next.WAIT_FOR_TAIL] & tail_seen),
            load.eq(next_part[_Next.NO_FRAME] | leave),
            plans.o.ready.eq(load),
            self.beats.ready.eq((needs_beat & self.parts.ready) | dropping),
            walk.load.eq(load),
            walk.step.eq(issue),
            walk.patch.eq(following.order.restore),
            walk.vlan.eq(following.order.vlan),
            walk.tcp.eq(following.order.tcp),
            walk.payload_at.eq(following.order.payload_at),
        ]
        taken = Signal()
        tail = Signal()
        m.d.comb += [taken.eq(self.beats.valid & self.beats.ready), tail.eq(taken & beat.last)]
        with m.If(tail & order.restore):
            m.d.sync += waiting.eq(_Waiting.ALL_TAKEN)
        with m.If(issue):
            m.d.sync += [first.eq(0), number.eq(number + 1)]
            with m.If(last):
                m.d.sync += next_part.eq(1 << _Next.WAIT_FOR_TAIL)
            with m.Elif(~copying & walk.header_follows):
                m.d.sync += next_part.eq(Mux(last_follows, 1 << _Next.LAST_HEADER, 1 << _Next.HEADER))
            with m.Elif(~copying):
                m.d.sync += next_part.eq(Mux(last_follows, 1 << _Next.LAST_PAYLOAD, 1 << _Next.PAYLOAD))
            with m.If(needs_beat & ~walk.header_follows & ~beat.last):
                m.d.sync += waiting.eq(_Waiting.DROPPED)
        with m.If(waited):
            m.d.sync += next_part.eq(1 << _Next.NO_FRAME)
        with m.If(load):
            m.d.sync += [
                plan.eq(following),
                next_part.eq(1 << _Next.NO_FRAME),
                waiting.eq(_Waiting.WITH_PARTS),
                first.eq(1),
                number.eq(1),
            ]
            with m.If(plans.o.valid):
                m.d.sync += next_part.eq(Mux(following.order.restore, header, 1 << _Next.COPY))

        part = self.parts.payload
        fields = {
            "total_length": order.total_length,
            "ip_checksum": order.ip_checksum,
            "udp_length": (order.total_length - IPV4.size)[:16],
        }
        for i in range(self.width.words):
            hit, value = patched_word(walk.marks, i, fields, self.lanes)
            word = Mux(walk.keep[i], beat.tdata.word_select(i, 16), 0)
            m.d.comb += part.header.word_select(i, 16).eq(Mux(hit, value, word))
        m.d.comb += [
            part.payload.eq(walk.in_payload & ~(last & plan.rest)),
            part.place.eq(order.payload_at[2 : self._place_bits]),
            part.first.eq(first),
            part.last.eq(Mux(order.restore, last, beat.last)),
            part.restored.eq(order.restore),
            part.awaits_tail.eq(last),
            part.bad.eq(beat.bad),
            part.ending.eq(Mux(order.restore, plan.bytes_out[: self._place_bits], beat.ending)),
        ]

        m.d.comb += [
            self.tails.valid.eq(tail & order.restore),
            self.tails.payload.eq(beat.bad | beat.short),
        ]

        # The account comes two cycles after the frame's end: its tail is held by then, the next one's is not.
        p = Pipeline(m, control={"taken", "done", "tail"})
        p.let(verdict=order.verdict, restored=order.restore, bytes_out=plan.bytes_out)
        p.stage(
            taken=taken, done=leave | waited, tail=tail, bad=beat.bad, short=beat.short, ending=beat.ending
        )
        account = self.accounts.payload
        beats = Signal(13)
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
        return m

    def _plan(self, m: Module) -> ElasticRegister:
        """The next order, with the sums that it needs."""
        m.submodules.plans = plans = ElasticRegister(_Plan)
        plan = plans.i.payload
        order = self.orders.payload
        # Headers end at 2 modulo 4 and payloads are a multiple of 4 long: the last byte's index is one
        # less in its last two bits alone.
        total = Signal(17)
        m.d.comb += [
            total.eq(order.payload_at + order.payload_length),
            plan.order.eq(order),
            plan.bytes_out.eq(total),
            # The last burst begins at the place of `payload_at`; if the frame ends below that, it is a rest.
            plan.rest.eq(total[2 : self._place_bits] <= order.payload_at[2 : self._place_bits]),
            plans.i.valid.eq(self.orders.valid),
            self.orders.ready.eq(plans.i.ready),
        ]
        return plans
