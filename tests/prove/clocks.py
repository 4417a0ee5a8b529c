# SPDX-License-Identifier: BSD-2-Clause
"""The queue between two clocks, for any order of their edges; a step has any of them.

A register that samples a bit which changes at the same time gets the old value here. The new one comes where
the writing clock's edge is a step earlier, for all bits alike.
"""

from functools import partial
from typing import Any

from amaranth.hdl import C, Cat, ClockDomain, EnableInserter, Module, Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import SignalDict
from amaranth.utils import exact_log2
from harness import Fault, Harness, Proof

from inceptionn.hdl.attach.async_queue import AsyncQueue

DEPTH = 8
BITS = 3


class Edges:
    """Synchronisers whose registers step with the enable of their clock; a platform for Amaranth.

    They hold the queue after power-up, or begin at rest: when that hold is over.
    """

    def __init__(self, enables: dict[str, Value], resets: dict[str, Value], *, rest: bool):
        self.enables, self.resets, self.rest = enables, resets, rest
        self.registers: SignalDict = SignalDict()
        """Those of each synchroniser, by its output."""

    def get_ff_sync(self, sync: Any) -> Module:
        """Two registers; the enable comes from ``EnableInserter``."""
        m = Module()
        previous = sync.i
        init = 0 if self.rest else sync._init
        # A reset sets a register to `sync._init`, whatever it begins with.
        reset = C(0, 1) if sync._reset_less else ResetSignal(sync._o_domain)
        for number in range(sync._stages):
            stage = Signal(sync.i.shape(), name=f"stage{number}", init=init, reset_less=True)
            self.registers.setdefault(sync.o, []).append(stage)
            m.d[sync._o_domain] += stage.eq(Mux(reset, sync._init, previous))
            previous = stage
        m.d.comb += sync.o.eq(previous)
        return m

    def get_async_ff_sync(self, sync: Any) -> Module:
        """Two registers that ``sync.i`` sets at once, and whose clock releases them."""
        m = Module()
        given = self.resets[sync.i.domain] if isinstance(sync.i, ResetSignal) else sync.i
        previous: Any = C(0, 1)
        for number in range(sync._stages):
            held = Signal(name=f"held{number}", init=int(not self.rest))
            self.registers.setdefault(sync.o, []).append(held)
            stage = Signal(name=f"stage{number}")
            with m.If(given):
                m.d.sync += held.eq(1)
            with m.Elif(self.enables[sync._o_domain]):
                m.d.sync += held.eq(previous)
            m.d.comb += stage.eq(given | held)
            previous = stage
        m.d.comb += sync.o.eq(previous)
        return m


def gray(value: Value) -> Value:
    return value ^ (value >> 1)


def binary(value: Value) -> Value:
    """From Gray code."""
    bits = [value[-1]]
    for place in reversed(range(len(value) - 1)):
        bits.insert(0, bits[0] ^ value[place])
    return Cat(bits)


class Bench:
    """An AsyncQueue with free clocks, resets and neighbours that keep to the stream's rules.

    ``in_step``: both clocks have an edge in every step. ``rest``: it begins empty, and not held.
    """

    def __init__(
        self, h: Harness, width: int, *, resets: bool, rest: bool, in_step: bool = False, depth: int = DEPTH
    ):
        self.h, m = h, h.m
        self.write, self.read = (
            C(1, 1) if in_step else h.anything(1, f"{side}_edge") for side in ("write", "read")
        )
        enables = {"write": self.write, "read": self.read}
        raw = {name: h.anything(1, f"{name}_reset") if resets else C(0, 1) for name in enables}
        for name, enable in enables.items():
            domain = ClockDomain(name)
            domain.clk = h.domain.clk
            m.domains += domain
            # With clocks in step, too, a reset may come and go between two edges.
            seen = h.anything(1, f"{name}_seen") if resets and in_step else 1
            m.d.comb += domain.rst.eq(raw[name] & enable & seen)
        self.resets = raw
        # The harness's own domain steps always and is never reset.
        h.assume("the resets are those of the two clocks", ~h.domain.rst)
        self.dut = AsyncQueue(width, depth, write_domain="write", read_domain="read")
        self.edges = Edges(enables, raw, rest=rest)
        queue = EnableInserter(enables)(self.dut)
        self.inside = h.add(queue, platform=self.edges, probed=self.dut)
        self.given = h.anything(width, "given")
        m.d.comb += [
            self.dut.i.valid.eq(h.anything(1, "valid")), self.dut.i.payload.eq(self.given),
            self.dut.o.ready.eq(h.anything(1, "ready")),
        ]  # fmt: skip
        self.push = Signal(name="push")
        self.pop = Signal(name="pop")
        self.any_reset = raw["write"] | raw["read"]
        m.d.comb += [
            self.push.eq(self.write & self.dut.i.valid & self.dut.i.ready),  # with a reset's first edge, too
            self.pop.eq(self.read & ~raw["read"] & self.dut.o.valid & self.dut.o.ready),
        ]

    def stages(self, path: str) -> list[Value]:
        """Return the registers of the synchroniser of a probe."""
        found: list[Value] = self.edges.registers[self.inside[path]]
        return found

    def held(self) -> Value:
        """Return whether a register that holds either side, or asks for that, is set."""
        held = [self.asks()]
        for side in ("write", "read"):
            held.append(self.inside[f"{side}.asked_before"])
            held += [*self.stages(f"{side}.asked"), *self.stages(f"{side}.answer")]
        return Cat(held).any()

    def asks(self) -> Value:
        """Return whether a side keeps a reset, or asks for a hold."""
        asks = []
        for side in ("write", "read"):
            asks += [self.inside[f"{side}.request"], self.inside[f"{side}.pending"]]
            asks += [*self.stages(f"{side}.at_once"), *self.stages(f"{side}.caught")]
        return Cat(asks).any()

    def order(self) -> list[Value]:
        """Return the pointers, oldest first: the reader as the writer knows it, the reader, the writer."""
        gone, come = self.stages("consumed_seen"), self.stages("produced_seen")
        return [
            binary(gone[1]), binary(gone[0]), self.inside["consumed"],
            binary(come[1]), binary(come[0]), self.inside["produced"],
        ]  # fmt: skip


def any_edges(depth: int, h: Harness) -> None:
    """Without resets after power-up."""
    width = 9
    # Without resets nothing is held; how a hold ends after power-up is proved with them.
    bench = Bench(h, width, resets=False, rest=True, depth=depth)
    m, inside, dut = h.m, bench.inside, bench.dut
    push, pop = bench.push, bench.pop
    bits = exact_log2(depth)
    size = bits + 1
    count, ahead, following, kept = Signal(size + 1), Signal(size + 1), Signal(), Signal()
    bit = h.any_constant(range(width), "bit")

    def of(value: Any) -> Value:
        return Value.cast(value).bit_select(bit, 1)

    m.d.sync += count.eq(count + push - pop)
    with m.If(push & ~following & h.anything(1, "choose")):
        m.d.sync += [following.eq(1), ahead.eq(count - pop), kept.eq(of(bench.given))]
    with m.Elif(following & pop):
        m.d.sync += [ahead.eq(ahead - 1), following.eq(ahead != 0)]
    h.claim(
        "what comes is what was accepted, in order",
        ~(pop & following & (ahead == 0)) | (of(dut.o.payload) == kept),
    )
    h.claim("nothing comes that was not accepted", ~pop | (count != 0))
    h.claim("it never holds more than its places and its output", count <= depth + 1)
    waits, was = Signal(), Signal()
    m.d.sync += [waits.eq(dut.o.valid & ~(dut.o.ready & bench.read)), was.eq(of(dut.o.payload))]
    h.claim("what is offered stays until it is taken", ~waits | (dut.o.valid & (of(dut.o.payload) == was)))
    refused = Signal()
    m.d.sync += refused.eq(dut.i.ready & ~(dut.i.valid & bench.write))
    h.claim("ready stays until an item is accepted", ~refused | dut.i.ready)
    produced, consumed = inside["produced"], inside["consumed"]
    gone, come = inside["consumed_gray"], inside["produced_gray"]
    order = bench.order()
    distances = [(pointer - order[0])[:size] for pointer in order]
    h.invariant(
        "what each side knows of the other is old, never wrong",
        Cat(a <= b for a, b in zip(distances, [*distances[1:], C(depth, size)], strict=True)).all(),
    )
    h.invariant(
        "pointers and their Gray codes agree",
        (come == gray(produced))
        & (gone == gray(consumed))
        & (inside["following"] == (produced + 1)[:size])
        & (inside["after"] == (consumed + 1)[:size]),
    )
    h.invariant("ready leaves a place", ~dut.i.ready | (distances[-1] < depth))
    h.invariant("the count is that of memory and output", count == (produced - consumed)[:size] + dut.o.valid)
    h.invariant("the item followed is in the queue", ~following | (ahead < count))
    place = (consumed + ahead - dut.o.valid)[:bits]
    h.invariant(
        "the item followed is in the output",
        ~(following & dut.o.valid & (ahead == 0)) | (of(dut.o.payload) == kept),
    )
    h.invariant(
        "or in its word of the memory",
        ~(following & (ahead >= dut.o.valid)) | (of(inside.memory("ram", place)) == kept),
    )
    h.invariant("nothing is held", ~bench.held())
    if depth == DEPTH:  # a run that fills a deep one takes the solver long
        h.cover("a full queue", dut.o.valid & (count == DEPTH + 1))
    h.cover(
        "the item followed leaves after three others", pop & following & (ahead == 0) & kept & (produced == 4)
    )


class Ring:
    """The handshake by which one side holds the other: a request and its answer, in order around the ring.

    It changes one register at a time, from the first to the last.
    """

    def __init__(self, bench: Bench, side: str) -> None:
        inside = bench.inside
        self.request, self.asked_before = inside[f"{side}.request"], inside[f"{side}.asked_before"]
        self.asked, self.answer = bench.stages(f"{side}.asked"), bench.stages(f"{side}.answer")
        self.all = [self.request, *self.asked, self.asked_before, *self.answer]
        self.ends = ~self.request & self.answer[1]
        """The request is over, and its answer is not."""

    def in_order(self) -> Value:
        changes = [one ^ other for one, other in zip(self.all, self.all[1:], strict=False)]
        return sum(changes, C(0)) <= 1


def clears(h: Harness, bench: Bench) -> Value:
    """Add invariants about pointers that are cleared; return whether their order may be lost."""
    inside, write, read = bench.inside, Ring(bench, "write"), Ring(bench, "read")
    produced, consumed = inside["produced"], inside["consumed"]
    come, gone = bench.stages("produced_seen"), bench.stages("consumed_seen")
    for own, other, mine, theirs, seen, known in (
        (write, "read", produced, consumed, come, gone),
        (read, "write", consumed, produced, gone, come),
    ):
        side = "write" if own is write else "read"
        h.invariant(f"{side}: request and answer pass one after the other", own.in_order())
        pending = inside[f"{side}.pending"]
        h.invariant(f"{side}: what is pending waits for the answer's end", ~pending | ~own.request)
        h.invariant(
            f"{side}: the {other} side's pointer is cleared before it answers, and seen with the answer",
            (~own.asked_before | (theirs == 0))
            & (~own.answer[0] | (known[0] == 0)) & (~own.answer[1] | (known[1] == 0)),
        )  # fmt: skip
        h.invariant(
            f"{side}: its own is cleared when its request ends, and seen before the {other} side is released",
            ~own.ends | (
                (mine == 0) & (own.asked[0] | (seen[0] == 0)) & (own.asked[1] | (seen[1] == 0))
            ),
        )  # fmt: skip
    h.invariant("a reader that is released finds nothing until the writer is", ~write.ends | (consumed == 0))
    h.claim(
        "a writer that asks, or is held, takes nothing",
        ~(write.request | read.asked_before) | ~bench.dut.i.ready,
    )
    h.claim(
        "a reader that asks, or is held, offers nothing",
        ~(read.request | write.asked_before) | ~bench.dut.o.valid,
    )
    return write.asked[1] | read.asked[1]


def claim_order(h: Harness, bench: Bench, clearing: Value) -> Value:
    """Add invariants about pointers, and what each side knows of them; return the items in the memory."""
    inside, size = bench.inside, BITS + 1
    produced, consumed = inside["produced"], inside["consumed"]
    come_gray, gone_gray = inside["produced_gray"], inside["consumed_gray"]
    h.invariant(
        "pointers and their Gray codes agree",
        (come_gray == gray(produced)) & (gone_gray == gray(consumed))
        & (inside["following"] == (produced + 1)[:size])
        & (inside["after"] == (consumed + 1)[:size]),
    )  # fmt: skip
    order = bench.order()
    distances = [(pointer - order[0])[:size] for pointer in order]
    h.invariant(
        "what each side knows of the other is old, never wrong, but while pointers are cleared",
        clearing
        | Cat(a <= b for a, b in zip(distances, [*distances[1:], C(DEPTH, size)], strict=True)).all(),
    )
    h.invariant("ready leaves a place", clearing | ~bench.dut.i.ready | (distances[-1] < DEPTH))
    return (produced - consumed)[:size]


def any_resets(h: Harness) -> None:
    """Either side is reset at any step, from power-up on. Items tell if they are one, any, or later."""
    bench = Bench(h, 3, resets=True, rest=False)
    m, inside, dut, push, pop = h.m, bench.inside, bench.dut, bench.push, bench.pop
    chosen, gone, safe, stale, dead = Signal(), Signal(), Signal(), Signal(), Signal()
    choose = h.anything(1, "choose")
    own = choose & ~chosen
    h.assume("items are marked: accepted, the one, later than it", bench.given == Cat(C(1, 1), own, chosen))
    produced, consumed = inside["produced"], inside["consumed"]
    place = Signal.like(produced)
    taken = dut.o.payload
    quiet = ~bench.held() & ~bench.any_reset
    with m.If(push & own):
        m.d.sync += [chosen.eq(1), place.eq(produced), safe.eq(quiet), stale.eq(bench.any_reset)]
    with m.Elif(bench.any_reset):
        m.d.sync += [safe.eq(0), stale.eq(chosen)]
    with m.If(stale & ~bench.held()):
        m.d.sync += dead.eq(1)
    with m.If(pop & taken[1]):
        m.d.sync += gone.eq(1)
    h.claim("nothing comes that was not accepted", ~pop | taken[0])
    h.claim("no item comes twice, none before an earlier one", ~(pop & gone) | taken[2])
    h.claim(
        "what is accepted while nothing is held comes before all later ones, unless a side is reset",
        ~(pop & safe & ~gone) | ~taken[2],
    )
    h.claim("what was accepted before a reset never comes after the hold", ~(pop & dead) | ~taken[1])
    waits, was = Signal(), Signal(3)
    m.d.sync += [waits.eq(dut.o.valid & ~(dut.o.ready & bench.read)), was.eq(taken)]
    h.claim("what is offered changes only once it is taken", ~waits | ~dut.o.valid | (taken == was))

    clearing = clears(h, bench)
    level = claim_order(h, bench, clearing)

    def marked(item: Value) -> Value:
        """Whether an item inside has a mark that it can have."""
        mine, later = item[1], item[2]
        return (
            item[0]
            & Mux(gone, later, ~later | chosen)
            & (~mine | (chosen & ~gone & ~dead & ~later & (~stale | bench.asks())))
        )

    cells = [inside.memory("ram", C(number, BITS)) for number in range(DEPTH)]
    for number, cell in enumerate(cells):
        offset = (C(number, BITS) - consumed[:BITS])[:BITS]
        there, following = clearing | (offset >= level), cells[(number + 1) % DEPTH]
        h.invariant(f"word {number}: its marks", there | marked(cell))
        h.invariant(
            f"word {number}: what follows it is later",
            there | (offset + 1 >= level) | ~cell[1:].any() | following[2],
        )
        h.invariant(
            f"word {number}: what follows the output is later",
            there | (offset != 0) | ~dut.o.valid | ~taken[1:].any() | cell[2],
        )
    h.invariant(
        "the one is taken, or was there at a reset, after it was accepted", ~(gone | stale | dead) | chosen
    )
    h.invariant("the output's marks", ~dut.o.valid | marked(taken))
    h.invariant("where nothing is held, nothing is until the next reset", ~safe | (chosen & ~bench.held()))
    stays = ((place - consumed)[: BITS + 1] < level) & inside.memory("ram", place[:BITS])[1]
    h.invariant("the one is inside", ~safe | gone | stays | (dut.o.valid & taken[1]))

    both, accepted, again = Signal(2), Signal(), Signal()
    m.d.sync += accepted.eq(accepted | push)
    for side, name in enumerate(("write", "read")):
        with m.If(bench.resets[name] & ~accepted):
            m.d.sync += both[side].eq(1)
    with m.If(bench.resets["write"] & chosen):
        m.d.sync += again.eq(1)
    h.cover("an item passes after both sides were reset before the first one", pop & both.all())
    h.cover("an item accepted before a reset of the writer is taken after it", pop & taken[1] & again)
    names = ("produced", "produced_gray", "consumed", "consumed_gray")
    pointers = [inside[name] for name in names]
    pointers += [*bench.stages("produced_seen"), *bench.stages("consumed_seen")]
    h.cover(
        "the state in which the proof without resets begins",
        ~bench.held() & ~Cat(pointers).any() & (inside["following"] == 1) & (inside["after"] == 1)
        & ~dut.i.ready & ~dut.o.valid & ~accepted,
    )  # fmt: skip


RECOVERY = 19
"""Cycles of two clocks in step from the last cycle of a reset until the queue works."""


def resets_in_step(h: Harness) -> None:
    """Either side is reset at any step, and the queue works again; both clocks have an edge in each."""
    bench = Bench(h, 2, resets=True, rest=False, in_step=True)
    m, dut = h.m, bench.dut
    level = claim_order(h, bench, clears(h, bench))
    calm, late, many = Signal(range(RECOVERY + 1), name="calm"), Signal(3, name="late"), Signal(4)
    works = calm == RECOVERY
    m.d.sync += [
        calm.eq(Mux(bench.any_reset, 0, calm + ~works)),
        late.eq(Mux(works & (level != 0) & ~dut.o.valid, late + 1, 0)),
        many.eq(Cat(works & (level > 2), many)),
    ]
    h.claim(f"{RECOVERY} cycles after a reset nothing is held", ~works | ~bench.held())
    h.claim("and it takes items while at most four are inside", ~works | (level > 4) | dut.i.ready)
    h.claim("and it offers each within 3 cycles", ~works | (late < 4))
    h.claim(
        "and one in each cycle, while three or more are in its memory", ~(works & many.all()) | dut.o.valid
    )
    accepted, since = Signal(), Signal(2, name="since")
    m.d.sync += accepted.eq(accepted | bench.push)
    h.assume("items tell after whose resets they were accepted", bench.given == since)
    for number, side in enumerate(("write", "read")):
        reset = Signal()
        m.d.sync += [
            reset.eq(reset | (accepted & bench.resets[side])),
            since[number].eq(since[number] | (reset & ~dut.i.ready)),
        ]
        h.cover(
            f"an item, a reset of the {side} side that holds the queue, and an item accepted since passes",
            bench.pop & dut.o.payload[number] & ~bench.any_reset,
        )


_QUEUE = "attach.async_queue"
PROOFS = (
    Proof("async_queue, any clocks", partial(any_edges, DEPTH), 3, (
        Fault(_QUEUE, "0b11 << bits - 1", "0b1 << bits"),
        Fault(_QUEUE, "_gray(following) == limit", "_gray(produced) == limit"),
        Fault(_QUEUE, "stored & (~self.o.valid | self.o.ready)", "stored"),
    ), cover_depth=28, refute_depth=24),
    Proof("async_queue, any clocks, 16 places", partial(any_edges, 16), 1, (
        Fault(_QUEUE, "stored & (~self.o.valid | self.o.ready)", "stored"),
    ), cover_depth=14, refute_depth=14, apart=True),
    Proof("async_queue, any clocks and resets", any_resets, 1, (
        Fault(_QUEUE, 'answer, asked | asked_before', 'answer, 0 & asked'),
        Fault(_QUEUE, 'holds["read"] | read_clear', 'holds["read"]'),
        Fault(_QUEUE, "(ram.write & ~write_hold)", "(ram.write & ~ram.write_data[1] & ~write_hold)"),
    ), cover_depth=26, refute_depth=26, apart=True),
    Proof("async_queue, clocks in step and resets", resets_in_step, RECOVERY + 3, (
        Fault(_QUEUE, "request.eq(caught | ~answer)", "request.eq(1)"),
        Fault(_QUEUE, "(produced_seen != consumed_gray) & ~read_hold", "0"),
        Fault(_QUEUE, "Mux(ram.write, _gray(following) == limit,", "Mux(1, produced_gray == 0,"),
    ), cover_depth=34, refute_depth=28, apart=True),
)  # fmt: skip
