# SPDX-License-Identifier: BSD-2-Clause
"""The queues of one clock: one item, any, is followed from its push to its pop; every bit of it, any."""

from functools import partial
from typing import Any

from amaranth.hdl import C, Cat, Shape, Signal, Value
from harness import Fault, Harness, Inside, Proof

from inceptionn.hdl.catalogue import CATALOGUE
from inceptionn.hdl.parts.elastic_register import ElasticRegister
from inceptionn.hdl.parts.queue import DirectQueue, ElasticQueue, ForwardQueue, StagedQueue

SLICE = 80
"""Bits of a word that share an address in a LutRing."""


class Ring:
    """The memory and addresses of a LutRing inside a component."""

    def __init__(self, h: Harness, inside: Inside, path: str, width: int, depth: int):
        self.h, self.inside, self.path, self.width, self.depth = h, inside, path, width, depth
        self.slices = range(-(-width // SLICE))

    def address(self, kind: str, number: int) -> Value:
        return self.inside[f"{self.path}.slices.{number}.{kind}"]

    def claim_addresses(self, level: Value) -> None:
        """Every slice has ``level`` words between its addresses, all slices alike."""
        for number in self.slices:
            read, write = (self.address(kind, number) for kind in ("read", "write"))
            bits = len(read)
            self.h.invariant("the write address leads by the level", (write - read)[:bits] == level[:bits])
            self.h.invariant(
                "slices keep their distance", (read - self.address("read", 0))[:bits] == number % self.depth
            )

    def word(self, index: Value) -> Value:
        """Return the ``index``-th word from the front."""
        parts = []
        for number in self.slices:
            place = Signal(range(self.depth), name=f"place_{number}")
            self.h.m.d.comb += place.eq(self.address("read", number) + index)
            parts.append(self.inside.memory(f"{self.path}.slices.{number}.ram", place))
        return Cat(parts)


def claim_level(h: Harness, inside: Inside, queue: str, depth: int, slack: int, push: Value) -> Signal:
    """Claim that a PushQueue's level and its registers agree; ``queue``: its path, with a dot, or empty.

    Returns the number of pushes since ``room`` has fallen, which must be at most ``slack``.
    """
    level, room = inside[f"{queue}level"], inside[f"{queue}room"]
    late = Signal(range(slack + 2), name=f"{queue[:-1]}late")
    with h.m.If(room):
        h.m.d.sync += late.eq(0)
    with h.m.Elif(push):
        h.m.d.sync += late.eq(late + 1)
    of = f" ({queue[:-1]})" if queue else ""
    h.invariant(f"stored says that the memory holds an item{of}", inside[f"{queue}stored"] == (level != 0))
    h.claim(f"the memory never holds more than its depth{of}", level <= depth)
    before, more, less = (inside[f"{queue}{name}"] for name in ("before", "pushed", "loaded"))
    h.invariant(
        f"the level is that of the cycle before, and what came and went since, within its range{of}",
        (before <= depth) & (~more | less | (before < depth)) & (~less | (before != 0)),
    )
    h.invariant(f"with room the slack is free{of}", ~room | (level <= depth - slack - 1))
    h.invariant(
        f"without room the pushes since are counted{of}",
        room | ((level <= depth - slack + late) & (late <= slack)),
    )
    return late


class Follower:
    """Follows one pushed item, any, and one of its bits, any."""

    def __init__(
        self, h: Harness, width: int, most: int, push: Value, pushed: Value, pop: Value, popped: Value
    ):
        m = h.m
        self.count = Signal(range(most + 2), name="count")
        self.ahead = Signal(range(most + 2), name="ahead")
        self.following = Signal(name="following")
        self.bit, self.kept = h.any_constant(range(width), "bit"), Signal(name="kept")
        chosen = push & ~self.following & h.anything(1, "choose")
        m.d.sync += self.count.eq(self.count + push - pop)
        with m.If(chosen):
            m.d.sync += [
                self.following.eq(1), self.ahead.eq(self.count - pop), self.kept.eq(self.of(pushed)),
            ]  # fmt: skip
        with m.Elif(self.following & pop):
            m.d.sync += [self.ahead.eq(self.ahead - 1), self.following.eq(self.ahead != 0)]
        h.claim(
            "what comes is what was pushed, in order",
            ~(pop & self.following & (self.ahead == 0)) | (self.of(popped) == self.kept),
        )
        h.claim("nothing comes that was not pushed", ~pop | (self.count != 0))
        h.claim("it never holds more items than it has places", self.count <= most)
        h.invariant("the item followed is in the queue", ~self.following | (self.ahead < self.count))

    def of(self, value: Any) -> Value:
        return Value.cast(value).bit_select(self.bit, 1)

    def at(self, h: Harness, text: str, index: Value | int, value: Value, condition: Value | int = 1) -> None:
        """Claim that the item followed lies in ``value`` if ``index`` items are before it."""
        h.invariant(
            text, ~(self.following & (self.ahead == index) & condition) | (self.of(value) == self.kept)
        )


def stable(h: Harness, o: Any, bit: Value) -> None:
    """Claim that a payload offered stays until it is taken; a reset ends that."""
    waits, was = Signal(name="waits"), Signal(name="was")
    now = Value.cast(o.payload).bit_select(bit, 1)
    h.m.d.sync += [waits.eq(o.valid & ~o.ready), was.eq(now)]
    h.claim("what is offered stays until it is taken", ~waits | (o.valid & (now == was)))


def push_queue(name: str, variant: int, h: Harness) -> None:
    """Any kind of queue, as in the catalogue: the level is the same, the registers at its output are not."""
    dut: Any = CATALOGUE[name].make(variant)
    inside = h.add(dut)
    width, depth, slack = Shape.cast(dut.shape).width, dut.depth, dut.slack
    push, pushed = h.anything(1, "push"), h.anything(width, "pushed")
    h.m.d.comb += [dut.i.valid.eq(push), dut.i.payload.eq(pushed)]
    if isinstance(dut, ForwardQueue):
        room_after = h.anything(1, "room_after")
        h.m.d.comb += dut.o_room.eq(room_after)
        pop = dut.o.valid
    else:
        h.m.d.comb += dut.o.ready.eq(h.anything(1, "ready"))
        pop = dut.o.valid & dut.o.ready

    late = claim_level(h, inside, "", depth, slack, push)
    # What the pipeline before the queue promises.
    h.assume("at most `slack` pushes after room has fallen", dut.room | ~push | (late < slack))

    level = inside["level"]
    held = []
    if isinstance(dut, ElasticQueue):
        held = [(dut.o.valid, inside["register.output"]), (inside["register.full"], inside["register.spare"])]
    elif not isinstance(dut, DirectQueue):
        held = [(dut.o.valid, inside["output"])]
    if isinstance(dut, StagedQueue):
        held.append((inside["offered"], inside["offer"]))
        h.invariant("the stage is vacant or offers", inside["vacant"] != inside["offered"])
    most = depth + len(held)
    follower = Follower(h, width, most, push, pushed, pop, dut.o.payload)
    ring = Ring(h, inside, "ring", width, depth)
    ring.claim_addresses(level)
    before: Value = C(0, 2)
    for occupied, value in held:
        follower.at(h, "the item followed is in its register", before, value, occupied)
        before = before + occupied
    h.invariant("the count is that of registers and memory", follower.count == before + level)
    index = (follower.ahead - before)[: len(level)]
    follower.at(
        h,
        "the item followed is in its word of the memory",
        follower.ahead,
        ring.word(index),
        follower.ahead >= before,
    )
    if isinstance(dut, ElasticQueue):
        h.invariant(
            "the register's second place follows its first",
            (inside["register.ready"] != inside["register.full"]) & (~inside["register.full"] | dut.o.valid),
        )

    latency = dut.LATENCY
    recent = Signal(latency - 1)
    h.m.d.sync += recent.eq(Cat(push, recent))
    older = follower.count - sum(recent[i] for i in range(latency - 1))
    if isinstance(dut, ForwardQueue):
        was_room = Signal(name="was_room")
        h.m.d.sync += was_room.eq(dut.o_room)
        h.claim(
            f"with room downstream, an item leaves {latency} cycles after its push, and one in each cycle",
            ~was_room | (older <= 0) | dut.o.valid,
        )
        h.claim("nothing leaves without room downstream", was_room | ~dut.o.valid)
    else:
        stable(h, dut.o, follower.bit)
        h.claim(
            f"an item can be taken {latency} cycles after its push, and one in each cycle",
            (older <= 0) | dut.o.valid,
        )
    few = max(depth - slack - 3, 0)
    calm = Signal(3)
    h.m.d.sync += calm.eq(Cat(follower.count <= few, calm))
    h.claim("room comes back once the queue is nearly empty", ~(calm.all() & h.running(3)) | dut.room)
    h.cover(
        "the item followed leaves after others",
        pop
        & follower.following
        & (follower.ahead == 0)
        & follower.kept
        & (follower.count == min(depth, 5) - 1),
    )
    h.cover("no room", h.running(3) & ~dut.room)


def elastic_register(arguments: dict[str, Any], h: Harness) -> None:
    dut = ElasticRegister(**arguments)
    inside = h.add(dut)
    width = Shape.cast(dut.shape).width
    valid, given = h.anything(1, "valid"), h.anything(width, "given")
    h.m.d.comb += [dut.i.valid.eq(valid), dut.i.payload.eq(given), dut.o.ready.eq(h.anything(1, "ready"))]
    push, pop = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
    follower = Follower(h, width, 2, push, given, pop, dut.o.payload)
    full = inside["full"]
    h.invariant(
        "full and ready are opposite, and full needs a first item",
        (inside["ready"] != full) & (~full | dut.o.valid),
    )
    h.invariant("the count is that of both places", follower.count == dut.o.valid + full)
    follower.at(h, "the item followed is offered", 0, Value.cast(dut.o.payload))
    names = [name for name, _ in dut.shape] if dut.in_ram else []
    plain = [name for name in names if name not in dut.in_ram]
    if plain or not dut.in_ram:
        spare = inside["spare"]
        wide = [Value.cast(dut.o.payload[name]) for name in names] if names else []
        # The spare place, laid out as an item; fields in RAM follow from the memory.
        item = Signal(width, name="spare_item")
        if names:
            fields = {name: len(value) for name, value in zip(names, wide, strict=True)}
            at, parts = 0, []
            for name in names:
                size = fields[name]
                parts.append(spare[at : at + size] if name in plain else C(0, size))
                at += size if name in plain else 0
            h.m.d.comb += item.eq(Cat(parts))
            outside = Cat(C((1 << fields[name]) - 1 if name in plain else 0, fields[name]) for name in names)
            follower.at(h, "or it is in the second place", 1, item, outside.bit_select(follower.bit, 1))
        else:
            h.m.d.comb += item.eq(spare)
            follower.at(h, "or it is in the second place", 1, item)
    if dut.in_ram:
        sizes = {name: len(Value.cast(dut.o.payload[name])) for name in names}
        words = sum(size for name, size in sizes.items() if name in dut.in_ram)
        ring = Ring(h, inside, "ring", words, 4)
        ring.claim_addresses(follower.count)
        second, at, parts, mask = ring.word(C(1, 1)), 0, [], []
        for name, size in sizes.items():
            ram = name in dut.in_ram
            parts.append(second[at : at + size] if ram else C(0, size))
            mask.append(C((1 << size) - 1 if ram else 0, size))
            at += size if ram else 0
        follower.at(h, "or in the memory's second word", 1, Cat(parts), Cat(mask).bit_select(follower.bit, 1))
    stable(h, dut.o, follower.bit)
    h.claim(
        "an item can be taken one cycle after its push, and one in each cycle",
        (follower.count == 0) | dut.o.valid,
    )
    h.claim("it takes an item unless both places are full", dut.i.ready == (follower.count != 2))
    h.cover(
        "the item followed leaves from behind another",
        pop & follower.following & (follower.ahead == 0) & follower.kept & full,
    )


_QUEUE, _REGISTER = "parts.queue", "parts.elastic_register"
_OVERFLOW = Fault(_QUEUE, "limit = self.depth - self.slack - 1", "limit = self.depth - self.slack + 1")
"""Sought in the smallest queue alone: a run that fills a deep one takes the solver minutes."""


def _variants(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of each variant in the catalogue."""
    entry = CATALOGUE[name]
    return [(f"{name}, {number + 1} of {len(entry.variants)}", dict(arguments))
            for number, arguments in enumerate(entry.variants)]  # fmt: skip


PROOFS = (
    *(
        Proof(name, partial(push_queue, kind, variant), 3, (
            Fault(_QUEUE, "push | (stored & ~(wanted & one))", "(push | stored) & ~(wanted & one)"),
            Fault("parts.lut_ring", "write + self.write)", "write + (self.write & ~self.step))"),
            *((_OVERFLOW,) if arguments["depth"] == 4 else ()),
        ), refute_depth=12, cover_depth=arguments["depth"] + 8)
        for kind in ("queue", "elastic_queue", "staged_queue", "direct_queue", "forward_queue")
        for variant, (name, arguments) in enumerate(_variants(kind))
    ),
    *(
        Proof(name, partial(elastic_register, arguments), 3, (
            Fault(_REGISTER, "(full | self.i.valid)", "self.i.valid"),
            Fault(_REGISTER, "ready.eq(~full_next)", "ready.eq(~full)"),
        ), refute_depth=8, cover_depth=8)
        for name, arguments in (*_variants("elastic_register"), *_variants("elastic_register_in_ram"))
    ),
)  # fmt: skip
