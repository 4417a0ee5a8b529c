# SPDX-License-Identifier: BSD-2-Clause
"""Puts frames together for the host: as they came, or patched header and restored payload."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import LANES, Verdict

from ..codec.alignment_unit import rotate_left_bytes
from ..control.counters import FrameReport
from ..frame.header_walk import HeaderWalk, patched_word
from ..parts.axi import AXIStream, beat_bytes
from ..parts.delay import delayed
from ..parts.elastic_register import ElasticRegister
from ..parts.output_queue import OutputQueue
from ..parts.queue import PushQueue
from .receive_decision import ReceiveOrder

_IP_BYTES = 20


def wire_beat(lanes: int = LANES) -> data.StructLayout:
    """A beat as it came, waiting for its frame's order."""
    width = beat_bytes(lanes)
    return data.StructLayout(
        {
            "tdata": 8 * width,
            "last": 1,
            "bad": 1,  # with `last`: the frame came marked bad
            "short": 1,  # with `last`: the frame is shorter than its IP total length says
            "ending": range(width),  # with `last`: bytes, modulo the beat's width
        }
    )


class _Plan(data.Struct):
    """An order, and what follows from it alone."""

    order: ReceiveOrder
    bytes_out: 17  # of a restored frame
    rest: 1  # the last output beat holds nothing but what the payload's last burst left over


def _part(lanes: int) -> data.StructLayout:
    """An output beat without its payload."""
    width = beat_bytes(lanes)
    return data.StructLayout(
        {
            "header": 8 * width,  # zero behind the header
            "payload": 1,  # a burst belongs to it
            "place": range(lanes),  # where payloads begin in their beat: byte 4 * place + 2
            "first": 1,
            "last": 1,
            "restored": 1,
            "awaits_tail": 1,  # the last one of a restored frame
            "bad": 1,  # with `last`, unless restored: marked bad
            "ending": range(width),  # with `last`: bytes, modulo the beat's width
        }
    )


def _account(lanes: int) -> data.StructLayout:
    """What the report needs of a frame, but for its payload's faults."""
    return data.StructLayout(
        {
            "verdict": 5,
            "restored": 1,
            "bad": 1,
            "short": 1,
            "beats": 13,
            "ending": range(beat_bytes(lanes)),
            "bytes_out": 17,
        }
    )


class ReceiveAssembler(wiring.Component):
    """Carries out one order after the other, one output beat per cycle, without a gap between frames.

    A frame that passes is copied. Of one that is restored, the header is taken from the waiting beats
    and patched, the payload comes from the Decompressor and is rotated to where the header ends, and
    the waiting beats that held the block are thrown away meanwhile. Its last beat waits for the last of
    these, which tells whether the frame came whole and good.

    Latency: 6 cycles from the cycle in which order, beat and burst are there to the output queue.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.

    Members
    -------
    order, order_valid, order_pop
        From the decision, in the frames' order.
    wire_beat, wire_valid, wire_pop
        Waiting beats.
    payload : :py:`In(AXIStream(4 * lanes))`
        From the Decompressor; ``tuser`` at ``tlast``: malformed.
    m_axis : :py:`Out(AXIStream(4 * lanes))`
    report, report_valid
        To the counters.
    """

    _PIPELINE = 3  # from joining header and payload to the output queue

    def __init__(self, *, lanes: int = LANES):
        self.beat_bytes = beat_bytes(lanes)
        self.lanes = lanes
        self._place_bits = exact_log2(self.beat_bytes)
        super().__init__(
            {
                "order": In(ReceiveOrder),
                "order_valid": In(1),
                "order_pop": Out(1),
                "wire_beat": In(wire_beat(lanes)),
                "wire_valid": In(1),
                "wire_pop": Out(1),
                "payload": In(AXIStream(self.beat_bytes)),
                "m_axis": Out(AXIStream(self.beat_bytes)),
                "report": Out(FrameReport),
                "report_valid": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # Two steps with an elastic register between them, so that neither waits in one cycle for all that the
        # frame needs. `_lay_out` turns orders and waiting beats into parts, one per output beat; `_join`
        # brings parts and payload together. The tail's news (how a restored frame came) pass by the register,
        # with 8 lanes one frame's at a time: they come with its second part at the earliest, and that one is
        # let in only when the frame before has left. With 16 lanes they may come with the first: a queue.
        m = Module()
        m.submodules.parts = parts = ElasticRegister(_part(self.lanes))
        m.submodules.accounts = accounts = PushQueue(_account(self.lanes), 16, 0)
        tail_known = Signal()
        tail_spoilt = Signal()
        tails = None
        if self.lanes != LANES:
            m.submodules.tails = tails = PushQueue(1, 4, 0)
            m.d.comb += [tail_known.eq(tails.valid), tail_spoilt.eq(tails.data)]
        self._lay_out(m, parts, accounts, tails, tail_known, tail_spoilt)
        self._join(m, parts, accounts, tails, tail_known, tail_spoilt)
        return m

    def _plan(self, m: Module) -> ElasticRegister:
        """The next order, with the sums that it needs."""
        m.submodules.plans = plans = ElasticRegister(_Plan)
        plan = data.View(_Plan, plans.source_data)
        order = self.order
        # Headers end at 2 modulo 4 and payloads are a multiple of 4 long: the last byte's index is one
        # less in its last two bits alone.
        total = Signal(17)
        m.d.comb += [
            total.eq(order.payload_at + order.payload_length),
            plan.order.eq(order),
            plan.bytes_out.eq(total),
            # The last burst begins at the place of `payload_at`; if the frame ends below that, it is a rest.
            plan.rest.eq(total[2 : self._place_bits] <= order.payload_at[2 : self._place_bits]),
            plans.source_valid.eq(self.order_valid),
            self.order_pop.eq(plans.source_ready),
        ]
        return plans

    def _lay_out(
        self,
        m: Module,
        parts: ElasticRegister,
        accounts: PushQueue,
        tails: PushQueue | None,
        tail_known: Signal,
        tail_spoilt: Signal,
    ) -> None:
        plans = self._plan(m)
        following = data.View(_Plan, plans.data)
        wire = self.wire_beat

        # The plan at hand. `taking`: the next part needs a waiting beat, in a frame that is `copying` or in a
        # header; `filling`: it needs none. `final`: it is the last one of a restored frame, `closing`: and
        # needs no beat. What waits behind a header is thrown away while `dropping`. A frame whose tail is
        # not there with its last part has all `laid` and waits; that costs two cycles, and so does a header
        # that fills its frame to the end, or a frame of one part.
        plan = Signal(_Plan)
        order = plan.order
        idle = Signal(init=1)
        taking = Signal()
        copying = Signal()
        filling = Signal()
        laid = Signal()
        final = Signal()
        closing = Signal()
        first = Signal()
        dropping = Signal()
        tail_seen = Signal()
        number = Signal(9)  # of the part that follows
        m.submodules.walk = walk = HeaderWalk(lanes=self.lanes)
        issue = Signal()
        leave = Signal()
        load = Signal()
        waited = Signal()
        final_follows = order.restore & (number == plan.bytes_out[self._place_bits :])
        # 32 bytes do not hold the headers of a restored frame.
        only_part = (
            0
            if self.lanes == LANES
            else following.order.restore & (following.bytes_out[self._place_bits :] == 0)
        )
        # In beats of 64 bytes, a frame on the wire has as many of them as the restored one more often.
        tail_there = (
            tail_seen if self.lanes == LANES else tail_seen | (dropping & self.wire_valid & wire.last)
        )
        m.d.comb += [
            parts.source_valid.eq((taking & self.wire_valid) | filling),
            issue.eq(parts.source_valid & parts.source_ready),
            leave.eq(parts.source_ready & ((copying & self.wire_valid & wire.last) | (closing & tail_there))),
            waited.eq(laid & tail_seen),
            load.eq(idle | leave),
            plans.pop.eq(load),
            self.wire_pop.eq((taking & parts.source_ready) | dropping),
            walk.load.eq(load),
            walk.step.eq(issue),
            walk.patch.eq(following.order.restore),
            walk.vlan.eq(following.order.vlan),
            walk.tcp.eq(following.order.tcp),
            walk.payload_at.eq(following.order.payload_at),
        ]
        taken = Signal()
        tail = Signal()
        m.d.comb += [taken.eq(self.wire_valid & self.wire_pop), tail.eq(taken & wire.last)]
        with m.If(tail):
            m.d.sync += [dropping.eq(0), tail_seen.eq(order.restore)]
        with m.If(issue):
            m.d.sync += [
                first.eq(0),
                number.eq(number + 1),
                final.eq(final_follows),
                closing.eq(final_follows & ~walk.header_follows),
                taking.eq(walk.header_follows & ~final),
                filling.eq(~walk.header_follows & ~final),
                laid.eq(final),
            ]
            with m.If(taking & ~walk.header_follows & ~wire.last):
                m.d.sync += dropping.eq(1)
        with m.If(waited):
            m.d.sync += [idle.eq(1), laid.eq(0)]
        with m.If(load):
            m.d.sync += [
                idle.eq(~plans.valid),
                plan.eq(following),
                taking.eq(plans.valid),
                copying.eq(plans.valid & ~following.order.restore),
                filling.eq(0),
                laid.eq(0),
                dropping.eq(0),
                tail_seen.eq(0),
                first.eq(1),
                final.eq(only_part),
                closing.eq(0),
                number.eq(1),
            ]

        part = data.View(_part(self.lanes), parts.source_data)
        fields = {
            "total_length": order.total_length,
            "ip_checksum": order.ip_checksum,
            "udp_length": (order.total_length - _IP_BYTES)[:16],
        }
        for i in range(self.beat_bytes // 2):
            hit, value = patched_word(walk.marks, i, fields, self.lanes)
            word = Mux(walk.keep[i], wire.tdata.word_select(i, 16), 0)
            m.d.comb += part.header.word_select(i, 16).eq(Mux(hit, value, word))
        m.d.comb += [
            part.payload.eq(walk.in_payload & ~(final & plan.rest)),
            part.place.eq(order.payload_at[2 : self._place_bits]),
            part.first.eq(first),
            part.last.eq(Mux(order.restore, final, wire.last)),
            part.restored.eq(order.restore),
            part.awaits_tail.eq(order.restore & final),
            part.bad.eq(wire.bad),
            part.ending.eq(Mux(order.restore, plan.bytes_out[: self._place_bits], wire.ending)),
        ]

        # The tail's news hold until `_join` has put out the frame's last beat.
        tail_of_restored = tail & order.restore
        if tails is None:
            with m.If(tail_of_restored):
                m.d.sync += [tail_known.eq(1), tail_spoilt.eq(wire.bad | wire.short)]
        else:
            m.d.comb += [tails.push.eq(tail_of_restored), tails.push_data.eq(wire.bad | wire.short)]

        # The account, two cycles behind the frame's end: by then its tail is held, and the next one's is not.
        taken1 = delayed(m, taken, 1, name="taken", reset=True)
        done1 = delayed(m, leave | waited, 1, name="done", reset=True)
        beats = Signal(13)
        m.d.sync += beats.eq(Mux(done1, 0, beats + taken1))
        tail1 = delayed(m, tail, 1, name="tail", reset=True)
        news1 = delayed(m, wire, 1, name="news")
        account = accounts.push_data
        m.d.sync += account.beats.eq(beats + taken1)
        with m.If(tail1):
            m.d.sync += [
                account.bad.eq(news1.bad),
                account.short.eq(news1.short),
                account.ending.eq(news1.ending),
            ]
        m.d.comb += [
            account.verdict.eq(delayed(m, order.verdict, 2, name="verdict")),
            account.restored.eq(delayed(m, order.restore, 2, name="restored")),
            account.bytes_out.eq(delayed(m, plan.bytes_out, 2, name="bytes_out")),
            accounts.push.eq(delayed(m, done1, 1, name="account", reset=True)),
        ]

    def _join(
        self,
        m: Module,
        parts: ElasticRegister,
        accounts: PushQueue,
        tails: PushQueue | None,
        tail_known: Signal,
        tail_spoilt: Signal,
    ) -> None:
        # When the queue's `room` falls, a beat is on its way in each stage, and one more may go, since `room`
        # here is a cycle old.
        m.submodules.output = output = OutputQueue(slack=self._PIPELINE + 1, lanes=self.lanes)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        width = self.beat_bytes
        part = data.View(_part(self.lanes), parts.data)
        go = Signal()
        room = Signal()
        m.d.comb += [
            go.eq(
                parts.valid & room & (~part.payload | self.payload.tvalid) & (~part.awaits_tail | tail_known)
            ),
            parts.pop.eq(go),
            self.payload.tready.eq(go & part.payload),
        ]
        m.d.sync += room.eq(output.room)
        if tails is None:
            with m.If(go & part.awaits_tail):
                m.d.sync += tail_known.eq(0)
        else:
            m.d.comb += tails.pop.eq(go & part.awaits_tail)

        # Stages 1 and 2: the payload moves up by `4 * place + 2` bytes and is split at that, and header
        # and payload join.
        rotated1 = Signal(8 * width, reset_less=True)
        header1 = Signal(8 * width, reset_less=True)
        place1 = Signal(range(self.lanes), reset_less=True)
        payload1 = Signal(reset_less=True)
        m.d.sync += [
            rotated1.eq(rotate_left_bytes(self.payload.tdata.rotate_left(16), part.place[:2], 4)),
            header1.eq(part.header),
            place1.eq(part.place),
            payload1.eq(part.payload),
        ]
        current2 = Signal(8 * width, reset_less=True)
        leftover2 = Signal(8 * width, reset_less=True)
        rotated = rotate_left_bytes(rotated1, place1[2:], 16)
        for i in range(width // 2):
            word = rotated.word_select(i, 16)
            here = Signal(name=f"here{i}")
            later = Signal(name=f"later{i}")
            m.d.comb += [
                here.eq(payload1 & ((place1 << 1) < i)),
                later.eq(payload1 & ((place1 << 1) >= i)),
            ]
            m.d.sync += [
                current2.word_select(i, 16).eq(Mux(here, word, 0) | header1.word_select(i, 16)),
                leftover2.word_select(i, 16).eq(Mux(later, word, 0)),
            ]
        # Stage 3: with what the burst before left over.
        carry = Signal(8 * width, reset_less=True)
        first2 = delayed(m, part.first, 2, name="first")
        go2 = delayed(m, go, 2, name="go", reset=True)
        with m.If(go2):
            m.d.sync += carry.eq(leftover2)
        m.d.sync += output.push_data.tdata.eq(current2 | Mux(first2, 0, carry))

        # A block is known to be malformed with its last burst; the frame's last beat may be a rest behind it.
        malformed = Signal()
        malformed_before = Signal()
        m.d.comb += malformed.eq(Mux(part.payload, self.payload.tuser, malformed_before))
        with m.If(go):
            m.d.sync += malformed_before.eq(malformed)
        bad = Mux(part.restored, tail_spoilt | malformed, part.bad)
        late = delayed(
            m, Cat(part.last, part.last & bad, Mux(part.last, part.ending, 0)), self._PIPELINE, name="late"
        )
        m.d.comb += [
            output.push.eq(delayed(m, go, self._PIPELINE, name="push", reset=True)),
            output.push_data.tlast.eq(late[0]),
            output.push_data.tuser.eq(late[1]),
            output.push_data.ending.eq(late[2:]),
        ]
        self._report(m, accounts, go & part.last, malformed)

    def _report(self, m: Module, accounts: PushQueue, done: Value, malformed: Value) -> None:
        """One report per frame; of a frame that passes, both lengths are what was counted.

        Accounts and payload faults come in the same order, either of them first; each queue holds at most
        what the two steps are apart.
        """
        m.submodules.faults = faults = PushQueue(1, 16, 0)
        both = accounts.valid & faults.valid
        m.d.comb += [
            faults.push.eq(delayed(m, done, 1, name="fault_valid", reset=True)),
            faults.push_data.eq(delayed(m, malformed, 1, name="fault")),
            faults.pop.eq(both),
            accounts.pop.eq(both),
        ]
        account = accounts.data
        whole = Mux(account.short | faults.data, Verdict.MALFORMED, Verdict.RESTORED)
        length = Signal(17)
        m.d.comb += length.eq(((account.beats - (account.ending != 0)) << self._place_bits) + account.ending)
        m.d.sync += [
            self.report_valid.eq(both),
            self.report.verdict.eq(
                Mux(account.bad, Verdict.BAD, Mux(account.restored, whole, account.verdict))
            ),
            self.report.bytes_in.eq(length),
            self.report.bytes_out.eq(Mux(account.restored, account.bytes_out, length)),
        ]
