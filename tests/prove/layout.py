# SPDX-License-Identifier: BSD-2-Clause
"""The layout of received frames, against the byte positions of each part; one word of each, at any place."""

from functools import partial
from typing import Any

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof
from queues import Ring

from inceptionn.hdl.engine.receive_layout import ReceiveLayout, _Plan
from inceptionn.hdl.parts.width import Width

SHIM = 8
"""Bytes after a restored frame's headers, at least."""

Plans = list[tuple[Value, Value]]
"""Whether there is a plan, and the plan; for each place of the queue."""


def swapped(value: Value) -> Value:
    """16 bits in the byte order of ``tdata``."""
    return Cat(value[8:16], value[:8])


def possible(order: Any) -> Value:
    """Return whether an order is as the decision promises."""
    l4 = (order.payload_at - (order.vlan << 2))[:7]
    length = order.payload_length
    headers = Mux(order.tcp, (l4 >= 54) & (l4 <= 94) & (l4[:2] == 2), l4 == 42)
    return ~order.restore | (headers & (length != 0) & (length <= 9216) & ~length[:2].any())


class Model:
    """The frame of the order in force: which of its parts and beats are next."""

    def __init__(self, h: Harness, dut: ReceiveLayout, inside: Inside):
        m, self.width = h.m, dut.width
        self.plan = _Plan(inside["plan"])
        order = self.order = self.plan.order
        bits, beat = self.width.place_bits, dut.beats.payload
        self.open, self.parts_over, self.beats_over = Signal(name="open"), Signal(), Signal()
        self.at_part, self.count = Signal(9, name="at_part"), Signal(13, name="count")
        self.take_beat = dut.beats.valid & dut.beats.ready
        self.take_part = dut.parts.valid & dut.parts.ready
        self.whole = (order.payload_at + order.payload_length)[:17]
        self.last_part = self.at_part == ((self.whole - 1)[:17] >> bits)
        self.is_last = Mux(order.restore, self.last_part, beat.last)
        self.join = order.payload_at >> bits
        self.has_header = ~order.restore | (self.at_part <= self.join)
        ends = self.take_part & self.is_last
        tail = self.take_beat & beat.last
        self.close = Signal(name="close")
        m.d.comb += self.close.eq(
            self.open
            & Mux(
                order.restore,
                (self.parts_over & self.beats_over) | (ends & ~self.has_header & (self.beats_over | tail)),
                ends,
            )
        )
        self.load = inside["load"]
        self.begins = self.load & inside["plans.o.valid"]
        with m.If(self.take_part):
            m.d.sync += [self.at_part.eq(self.at_part + ~self.at_part.all()), self.parts_over.eq(ends)]
        m.d.sync += self.count.eq(Mux(self.close, 0, self.count + self.take_beat))
        with m.If(tail):
            m.d.sync += self.beats_over.eq(1)
        with m.If(self.close | self.load):
            m.d.sync += [
                self.open.eq(self.begins), self.at_part.eq(0), self.parts_over.eq(0), self.beats_over.eq(0)
            ]  # fmt: skip


def receive_layout(lanes: int, h: Harness) -> None:
    """Any frames with any orders; a part is held to the order in force and to its beat."""
    width = Width(lanes)
    dut = ReceiveLayout(width)
    inside = h.add(dut)
    m, bits = h.m, width.place_bits
    beat = dut.beats.payload
    for stream, name in ((dut.orders, "order"), (dut.beats, "beat")):
        m.d.comb += [
            stream.valid.eq(h.anything(1, f"{name}_valid")),
            Value.cast(stream.payload).eq(h.anything(Value.cast(stream.payload).shape(), name)),
        ]
    m.d.comb += dut.parts.ready.eq(h.anything(1, "ready"))
    model = Model(h, dut, inside)
    order, at_part = model.order, model.at_part

    h.assume(
        "a restored frame has the headers of UDP or TCP, and a payload of 4 to 9,216 bytes, a multiple of 4",
        possible(dut.orders.payload),
    )
    size = (model.count << bits) + Mux(beat.ending == 0, width.bytes, beat.ending)
    h.assume(
        "it came with its headers and a shim",
        ~(dut.beats.valid & beat.last & model.open & order.restore & ~model.beats_over)
        | (size >= order.payload_at + SHIM),
    )
    waited, was_beat = Signal(), Signal(Value.cast(beat).shape())
    m.d.sync += [waited.eq(dut.beats.valid & ~dut.beats.ready), was_beat.eq(Value.cast(beat))]
    h.assume("a beat stays until it is taken", ~waited | (dut.beats.valid & (Value.cast(beat) == was_beat)))

    plans = held_plans(h, inside, model)
    order_waits = orders(h, dut, model, plans)
    parts(h, dut, model)
    endings(h, dut, model, order_waits)
    accounts(h, dut, inside, model)
    invariants(h, inside, model, plans)
    h.cover(
        "the third part of a restored frame with a tag, of 32 bytes of payload",
        model.take_part & order.restore & order.vlan & (at_part == 2) & (order.payload_length == 32),
    )


def held_plans(h: Harness, inside: Inside, model: Model) -> Plans:
    """Return what the two places of the queue hold, the older first."""
    valid, full = inside["plans.o.valid"], inside["plans.full"]
    ring = Ring(h, inside, "plans.ring", len(Value.cast(model.plan)) - 1, 4)
    ring.claim_addresses(Cat(valid ^ full, valid & full))
    h.invariant("the second plan comes after a first", ~full | valid)
    # The last field is in registers.
    return [
        (there, Cat(ring.word(C(place, 1)), inside[f"plans.{name}"]))
        for place, (there, name) in enumerate(((valid, "output"), (full, "spare")))
    ]


def orders(h: Harness, dut: ReceiveLayout, model: Model, plans: Plans) -> Value:
    """Claim that the model's order in force is one that came; return whether one waits to come in force.

    One order, any, is followed from the port, and any bit of it.
    """
    m = h.m
    given = Value.cast(dut.orders.payload)
    accepted = dut.orders.valid & dut.orders.ready
    bit, kept, following = h.any_constant(range(len(given)), "order_bit"), Signal(), Signal(name="following")
    count, ahead = (Signal(3, name=f"orders_{name}") for name in ("count", "ahead"))
    # In the cycle after it has begun, an order is in force and still counted.
    begun = Signal(name="begun")
    m.d.sync += [begun.eq(model.begins), count.eq(count + accepted - begun)]

    def of(value: Any) -> Value:
        return Value.cast(value).bit_select(bit, 1)

    behind, stays = Signal(), Signal(name="stays")
    comes = begun & following & (ahead == 0)
    m.d.sync += stays.eq((comes | stays) & ~model.load)
    with m.If(accepted & ~following & ~stays & h.anything(1, "choose_order")):
        m.d.sync += [
            following.eq(1), ahead.eq(count - begun), kept.eq(of(given)), behind.eq(count != begun)
        ]  # fmt: skip
    with m.Elif(following & begun):
        m.d.sync += [ahead.eq(ahead - 1), following.eq(ahead != 0)]
    h.claim(
        "the orders accepted come in force in their order; any bit of one is as it came, to its frame's end",
        ~(comes | stays) | (of(model.order) == kept),
    )
    h.claim("no more orders come in force than were accepted", ~begun | (count != 0))
    h.claim("at most two wait for the frame in force, so none is lost", count - begun <= 2)
    h.invariant("the order followed waits, or has just begun", ~following | (ahead < count))
    place: Value = begun
    for there, plan in plans:
        h.invariant("it is in its place", ~(following & there & (ahead == place)) | (of(plan) == kept))
        place = place + there
    h.invariant("the orders are those in the queue, and the one that has begun", count == place)
    h.cover(
        "an order comes in force that waited behind another",
        comes & behind & kept & (bit == len(given) - 1),
    )
    return count != begun


def parts(h: Harness, dut: ReceiveLayout, model: Model) -> None:
    """Claim what a part holds."""
    m, beat, part, shown = h.m, dut.beats.payload, dut.parts.payload, dut.parts.valid
    width, order, at_part = model.width, model.order, model.at_part
    bits = width.place_bits
    word = h.any_constant(range(width.words), "word")
    at = (at_part << bits) + (word << 1)
    l3 = 14 + (order.vlan << 2)
    copied = beat.tdata.word_select(word, 16)
    patched = Mux(
        at == l3 + 2, swapped(order.total_length),
        Mux(at == l3 + 10, swapped(order.ip_checksum),
            Mux((at == l3 + 24) & ~order.tcp, swapped((order.total_length - 20)[:16]), copied)),
    )  # fmt: skip
    header = Mux(~order.restore, copied, Mux(at < order.payload_at, patched, 0))
    bursts = (order.payload_length + (width.bytes - 1)) >> bits
    has_burst = order.restore & (at_part >= model.join) & (at_part < model.join + bursts)
    h.claim("a part is of a frame whose order came, and not all of whose parts were taken",
            ~shown | (model.open & ~model.parts_over))  # fmt: skip
    h.claim(
        "a part with header comes with its beat",
        ~shown | ~model.has_header | (dut.beats.valid & (~order.restore | (model.count == at_part))),
    )
    h.claim("and is taken with it", ~(model.take_part & model.has_header) | model.take_beat)
    h.claim(
        "any word of a part is that of its beat, patched within the headers, and zero after them",
        ~shown | (part.header.word_select(word, 16) == header),
    )
    h.claim(
        "a part has a burst if and only if its frame's payload does", ~shown | (part.payload == has_burst)
    )
    h.claim(
        "its place is that of the payload", ~(shown & has_burst) | (part.place == order.payload_at[2:bits])
    )
    h.claim("the first part and the last are marked",
            ~shown | ((part.first == (at_part == 0)) & (part.last == model.is_last)))  # fmt: skip
    h.claim(
        "so are those of a restored frame, and the one that awaits its tail",
        ~shown | ((part.restored == order.restore) & (part.awaits_tail == (order.restore & model.is_last))),
    )
    ending = Mux(order.restore, model.whole[:bits], beat.ending)
    h.claim(
        "the last part has its bytes, and the mark of a frame that passes",
        ~(shown & model.is_last) | ((part.ending == ending) & (order.restore | (part.bad == beat.bad))),
    )
    stalled, was_part = Signal(), Signal(20)
    now = Cat(part.header.word_select(word, 16), part.payload, part.first, part.last, part.restored)
    m.d.sync += [stalled.eq(shown & ~dut.parts.ready), was_part.eq(now)]
    h.claim("what is offered stays until it is taken", ~stalled | (shown & (was_part == now)))


def endings(h: Harness, dut: ReceiveLayout, model: Model, order_waits: Value) -> None:
    """Beats, tails, and the end of a frame; nothing stalls."""
    m, beat, order = h.m, dut.beats.payload, model.order
    h.claim("a beat is taken after its order has come, and none of the next frame",
            ~model.take_beat | (model.open & ~model.beats_over))  # fmt: skip
    ends = model.take_beat & beat.last & order.restore
    h.claim("a restored frame's last beat gives its tail", dut.tails.valid == ends)
    h.claim("a tail says bad or short", ~ends | (dut.tails.payload == (beat.bad | beat.short)))
    h.claim("an order comes in force when all of the frame before has been taken",
            ~model.load | ~model.open | model.close)  # fmt: skip
    idle = Signal(2)
    runs = dut.beats.valid & dut.parts.ready & (model.open | order_waits)
    m.d.sync += idle.eq(Mux(runs & ~model.take_beat & ~model.take_part, idle + 1, 0))
    h.claim("with order, beat and room, something is taken within 3 cycles", idle != 3)
    h.invariant(
        "after an idle cycle the next order loads, or has",
        (idle == 0)
        | Mux(
            model.open, (idle != 3) & (model.at_part == 0) & ~model.parts_over & (model.count == 0), idle == 1
        ),
    )
    h.cover("an account of a restored frame", dut.accounts.valid & dut.accounts.payload.restored)
    h.cover("a frame's tail comes after its last part", model.parts_over & model.take_beat & beat.last)


def accounts(h: Harness, dut: ReceiveLayout, inside: Inside, model: Model) -> None:
    """Claim what a frame's account says, two cycles after all of the frame has been taken."""
    m, beat, account = h.m, dut.beats.payload, dut.accounts.payload
    names = ("closed", "closed_before", "tail", "bad", "short")
    closed, closed_before, tail, bad, short = (Signal(name=name) for name in names)
    ending, told = Signal.like(beat.ending), Signal(5 + 1 + 17 + 13)
    m.d.sync += [
        closed.eq(model.close), closed_before.eq(closed), tail.eq(model.take_beat & beat.last)
    ]  # fmt: skip
    with m.If(model.take_beat & beat.last):
        m.d.sync += [bad.eq(beat.bad), short.eq(beat.short), ending.eq(beat.ending)]
    order = model.order
    now = Cat(order.verdict, order.restore, model.plan.bytes_out, model.count + model.take_beat)[: len(told)]
    m.d.sync += told.eq(now)
    h.claim("an account comes two cycles after its frame is over", dut.accounts.valid == closed_before)
    was = h.past(told)
    came = Cat(bad, short, ending)
    came_before, count_before, taken_before = Signal(len(came)), Signal(13), Signal()
    m.d.sync += [
        came_before.eq(came), count_before.eq(model.count), taken_before.eq(model.take_beat)
    ]  # fmt: skip
    shown = Cat(account.bad, account.short, account.ending)
    h.claim(
        "it has what became of the frame, and how the frame came",
        ~dut.accounts.valid
        | (
            (Cat(account.verdict, account.restored, account.bytes_out, account.beats) == was)
            & (shown == came_before)
        ),
    )

    def stage(*names: str) -> Value:
        return Cat(inside[f"account.{name}_1"] for name in names)

    happened = Cat(taken_before, closed, tail)
    h.invariant(
        "the account's registers are one cycle behind",
        (inside["beat_count"] == count_before) & (stage("taken", "done", "tail") == happened)
        & (shown == came_before)
        & (model.count == Mux(closed, 0, (count_before + taken_before)[:13]))
        & (came == Mux(tail, stage("bad", "short", "ending"), came_before)),
    )  # fmt: skip


def invariants(h: Harness, inside: Inside, model: Model, plans: Plans) -> None:
    """Claim what the registers say of the frame in force."""
    order, width, at_part = model.order, model.width, model.at_part
    bits = width.place_bits
    for there, raw in (*plans, (model.open, inside["plan"])):
        plan = _Plan(raw)
        whole = (plan.order.payload_at + plan.order.payload_length)[:17]
        rest = whole[2:bits] <= plan.order.payload_at[2:bits]
        udp_length = (plan.order.total_length - 20)[:16]
        h.invariant(
            "a plan is that of a possible order",
            ~there
            | (
                possible(plan.order) & (plan.bytes_out == whole) & (plan.rest == rest)
                & (plan.udp_length == udp_length)
            ),
        )  # fmt: skip
    restored = model.open & order.restore
    running = restored & ~model.parts_over
    # needs_beat, needs_none, copied, last, ends, no_frame, waits.
    last, header = model.last_part, model.has_header
    wanted = Mux(
        ~model.open, C(0b0100000, 7),
        Mux(~order.restore, C(0b0010101, 7),
            Mux(model.parts_over, C(0b1000000, 7),
                Cat(header, ~header, C(0, 1), last, last & ~header, C(0, 2)))),
    )  # fmt: skip
    h.invariant("the next part is the one that is due", inside["next_part"] == wanted)
    h.invariant(
        "the part's number is counted, and compared",
        ~running
        | (
            (inside["number"] == (at_part + 2)[:9])
            & (inside["last_follows"] == ((at_part + 1)[:9] == model.plan.bytes_out[bits:]))
        ),
    )
    h.invariant("the first part is known", ~model.open | (inside["first"] == (at_part == 0)))
    h.invariant("a restored frame has no more parts than bytes", ~running | ((at_part << bits) < model.whole))
    after_header = model.parts_over | ~model.has_header
    h.invariant(
        "what follows the headers is dropped to the last beat",
        (inside["dropping"] == (restored & after_header & ~model.beats_over))
        & (~model.open | (inside["tail_seen"] == model.beats_over)),
    )
    h.invariant("a restored frame's headers are in its beats",
                ~running | ~model.has_header | ((model.count == at_part) & ~model.beats_over))  # fmt: skip
    h.invariant("only a restored frame is over in parts", ~(model.parts_over | model.beats_over) | restored)
    h.invariant("no beat without a frame", model.open | (model.count == 0))
    h.invariant("the last part is the last", ~(restored & model.parts_over) | (at_part > 0))
    steps = len(inside["walk.header"])
    covered = Cat(order.payload_at[1:bits] > word for word in range(width.words))
    first = Mux(order.restore & (at_part == 0), Cat(~order.vlan, order.vlan), 0)
    fields = first if width.headers_in_one_beat else Mux(
        order.restore & (at_part == 1), Cat(~order.vlan, order.vlan), 0)  # fmt: skip
    marks = Cat(first, Mux(order.tcp, 0, fields), Mux(order.tcp, fields, 0))
    ahead = [at_part + step for step in range(steps)]
    walking = model.open & ~model.parts_over
    h.invariant(
        "the walk through the headers is at this part",
        ~walking
        | (
            (inside["walk.header"] == Cat(~order.restore | (model.join >= part) for part in ahead))
            & (inside["walk.payload"] == Cat(order.restore & (model.join <= part) for part in ahead))
            & (~order.restore | (inside["walk.covers"] == covered))
            & (inside["walk.held_patch"] == order.restore)
            & (inside["walk.held_tcp"] == order.tcp)
            & (inside["walk.marks"] == marks)
        ),
    )
    header, payload = order.restore & ~model.has_header, order.restore & (model.join == at_part)
    keep = Cat(~order.restore | (~header & (~payload | word)) for word in covered)
    h.invariant("and so are the words to keep", ~walking | (inside["walk.keep"] == keep))


_LAYOUT = "engine.receive_layout"
PROOFS = tuple(
    Proof(f"receive_layout, {lanes} lanes", partial(receive_layout, lanes), 4, (
        Fault(_LAYOUT, "_place_bits] <= order.payload_at[2", "_place_bits] < order.payload_at[2"),
        Fault(_LAYOUT, "next_part.ends & (tail_seen | (", "next_part.ends & (tail_seen & ("),
        Fault(_LAYOUT, "order.total_length - IPV4.size", "order.total_length"),
        *((
            Fault(_LAYOUT, "plan.order.eq(order)", "plan.order.eq(Value.cast(order) ^ (1 << 3))"),
            Fault(_LAYOUT, "self.orders.ready.eq(plans.i.ready)", "self.orders.ready.eq(1)"),
        ) if lanes == 8 else ()),
    ), cover_depth=10, refute_depth=9)
    for lanes in (8, 16)
)  # fmt: skip
