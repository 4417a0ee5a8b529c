# SPDX-License-Identifier: BSD-2-Clause
"""The queue between two clocks, for any order of their edges; a step has any of them.

A register that samples a bit which changes at the same time gets the old value here. The new one comes where
the writing clock's edge is a step earlier.
"""

from typing import Any

from amaranth.hdl import C, Cat, ClockDomain, EnableInserter, Module, Mux, ResetSignal, Signal, Value
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

    def get_ff_sync(self, sync: Any) -> Module:
        """Two registers; the enable comes from ``EnableInserter``."""
        m = Module()
        previous = sync.i
        init = 0 if self.rest else sync._init
        # A reset sets a register to `sync._init`, whatever it begins with.
        reset = C(0, 1) if sync._reset_less else ResetSignal(sync._o_domain)
        for number in range(sync._stages):
            stage = Signal(sync.i.shape(), name=f"stage{number}", init=init, reset_less=True)
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

    def __init__(self, h: Harness, width: int, *, resets: bool, rest: bool, in_step: bool = False):
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
            m.d.comb += domain.rst.eq(raw[name] & enable)
        self.resets = raw
        # The harness's own domain steps always and is never reset.
        h.assume("the resets are those of the two clocks", ~h.domain.rst)
        self.dut = AsyncQueue(width, DEPTH, write_domain="write", read_domain="read")
        self.inside = h.add(EnableInserter(enables)(self.dut), platform=Edges(enables, raw, rest=rest))
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

    def held(self) -> Value:
        """Return whether a register that holds either side, or asks for that, is set."""
        names = []
        for side in ("write", "read"):
            names += [f"{side}_{part}" for part in ("request", "pending", "asked_before")]
            names += [f"{side}_at_once.held{n}" for n in range(2)]
            names += [f"{side}_{part}.stage{n}" for part in ("caught", "asked", "answer") for n in range(2)]
        return Cat(self.inside[name] for name in names).any()


def any_edges(h: Harness) -> None:
    """Without resets after power-up: by induction."""
    width = 9
    # Without resets nothing is held; how a hold ends after power-up is proved with them.
    bench = Bench(h, width, resets=False, rest=True)
    m, inside, dut = h.m, bench.inside, bench.dut
    push, pop = bench.push, bench.pop
    size = BITS + 1
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
    h.claim("it never holds more than its places and its output", count <= DEPTH + 1)
    waits, was = Signal(), Signal()
    m.d.sync += [waits.eq(dut.o.valid & ~(dut.o.ready & bench.read)), was.eq(of(dut.o.payload))]
    h.claim("what is offered stays until it is taken", ~waits | (dut.o.valid & (of(dut.o.payload) == was)))
    refused = Signal()
    m.d.sync += refused.eq(dut.i.ready & ~(dut.i.valid & bench.write))
    h.claim("ready stays until an item is accepted", ~refused | dut.i.ready)
    # The pointers, oldest first: the reader as the writer knows it, the reader, the writer likewise.
    produced, consumed = inside["produced"], inside["consumed"]
    gone, come = inside["consumed_gray"], inside["produced_gray"]
    order = [
        binary(inside["consumed.stage1"]), binary(inside["consumed.stage0"]), consumed,
        binary(inside["produced.stage1"]), binary(inside["produced.stage0"]), produced,
    ]  # fmt: skip
    distances = [(pointer - order[0])[:size] for pointer in order]
    h.invariant(
        "what each side knows of the other is old, never wrong",
        Cat(a <= b for a, b in zip(distances, [*distances[1:], C(DEPTH, size)], strict=True)).all(),
    )
    h.invariant(
        "pointers and their Gray codes agree",
        (come == gray(produced)) & (gone == gray(consumed)) & (inside["following"] == (produced + 1)[:size]),
    )
    h.invariant("ready leaves a place", ~dut.i.ready | (distances[-1] < DEPTH))
    h.invariant("the count is that of memory and output", count == (produced - consumed)[:size] + dut.o.valid)
    h.invariant("the item followed is in the queue", ~following | (ahead < count))
    place = (consumed + ahead - dut.o.valid)[:BITS]
    h.invariant(
        "the item followed is in the output",
        ~(following & dut.o.valid & (ahead == 0)) | (of(dut.o.payload) == kept),
    )
    h.invariant(
        "or in its word of the memory",
        ~(following & (ahead >= dut.o.valid)) | (of(inside.memory("ram.memory", place)) == kept),
    )
    h.invariant("nothing is held", ~bench.held())
    h.cover("a full queue", dut.o.valid & (count == DEPTH + 1))
    h.cover(
        "the item followed leaves after three others", pop & following & (ahead == 0) & kept & (produced == 4)
    )


def numbered(h: Harness, bench: Bench, width: int) -> tuple[Signal, Value]:
    """Make an item its number, so a repeat or an invention shows; return the next one's, and the output."""
    m = h.m
    number, last = Signal(width, name="number"), Signal(width, name="last")
    m.d.sync += number.eq(number + bench.push)
    h.assume("items are numbered", bench.given == number)
    taken = Value.cast(bench.dut.o.payload)
    with m.If(bench.pop):
        m.d.sync += last.eq(taken + 1)
    h.claim(
        "no item comes twice, none before an earlier one, none that was not accepted",
        ~bench.pop | ((taken >= last) & (taken < number)),
    )
    return number, taken


def any_resets(h: Harness) -> None:
    """Either side is reset at any step, from power-up on."""
    width = 4
    bench = Bench(h, width, resets=True, rest=False)
    number, taken = numbered(h, bench, width)
    inside = bench.inside
    both, once = Signal(2), Signal(width)
    for side, name in enumerate(("write", "read")):
        with h.m.If(bench.resets[name] & (number == 0)):
            h.m.d.sync += both[side].eq(1)
    with h.m.If(bench.resets["write"]):
        h.m.d.sync += once.eq(number)
    h.cover("an item passes after both sides were reset before the first one", bench.pop & both.all())
    h.cover("an item accepted before a reset of the writer is taken after it", bench.pop & (taken < once))
    pointers = ["produced", "produced_gray", "consumed", "consumed_gray"]
    pointers += [f"{side}.stage{number}" for side in ("produced", "consumed") for number in range(2)]
    h.cover(
        "the state in which the proof with clocks in step begins",
        ~bench.held() & ~Cat(inside[name] for name in pointers).any() & (inside["following"] == 1)
        & ~bench.dut.i.ready & ~bench.dut.o.valid & (number == 0),
    )  # fmt: skip


RECOVERY = 18
"""Cycles of two clocks in step from the last cycle of a reset until the queue works."""


def resets_in_step(h: Harness) -> None:
    """Either side is reset at any step, and the queue works again; both clocks have an edge in each."""
    width = 2
    bench = Bench(h, width, resets=True, rest=True, in_step=True)
    m, dut = h.m, bench.dut
    number, taken = numbered(h, bench, width)
    h.assume("at most two items are accepted", number != 3)
    # The first item after the recovery, and the one that is due.
    calm, first, due = Signal(range(RECOVERY + 1), name="calm"), Signal(width), Signal(width)
    works = calm == RECOVERY
    m.d.sync += calm.eq(Mux(bench.any_reset, 0, calm + ~works))
    with m.If(~works):
        m.d.sync += [first.eq(number + bench.push), due.eq(number + bench.push)]
    with m.Elif(bench.pop & (taken >= first)):
        m.d.sync += due.eq(taken + 1)
    h.claim(f"{RECOVERY} cycles after a reset it takes items", ~works | dut.i.ready)
    h.claim(
        "and loses none of them until the next reset",
        ~(works & bench.pop & (taken >= first) & ~bench.any_reset) | (taken == due),
    )
    late = Signal(3, name="late")
    m.d.sync += late.eq(Mux(works & (number != due) & ~dut.o.valid, late + 1, 0))
    h.claim("and it offers each within 5 cycles", ~works | (late < 5))
    for side in ("write", "read"):
        # An item accepted after the queue was held for the reset that came after an item.
        reset, held, after = Signal(), Signal(), Signal(width)
        with m.If(bench.resets[side] & (number != 0)):
            m.d.sync += reset.eq(1)
        with m.If(reset & ~held & ~dut.i.ready):
            m.d.sync += [held.eq(1), after.eq(number)]
        h.cover(
            f"an item, a reset of the {side} side that holds the queue, and an item accepted since passes",
            bench.pop & held & (taken >= after) & ~bench.any_reset,
        )


_QUEUE = "attach.async_queue"
PROOFS = (
    Proof("async_queue, any clocks", any_edges, 3, (
        Fault(_QUEUE, "0b11 << bits - 1", "0b1 << bits"),
        Fault(_QUEUE, "_gray(following) == limit", "_gray(produced) == limit"),
        Fault(_QUEUE, "stored & (~self.o.valid | self.o.ready)", "stored"),
    ), cover_depth=28, refute_depth=24),
    Proof("async_queue, any clocks and resets", any_resets, 26, (
        Fault(_QUEUE, 'answer, asked | asked_before', 'answer, 0 & asked'),
        Fault(_QUEUE, 'holds["read"] | read_clear', 'holds["read"]'),
    ), bounded=True),
    Proof("async_queue, clocks in step and resets", resets_in_step, 26, (
        Fault(_QUEUE, "request.eq(caught | ~answer)", "request.eq(1)"),
        Fault(_QUEUE, "(produced_seen != consumed_gray) & ~read_hold", "0"),
        Fault(_QUEUE, "(ram.write & ~write_hold)", "(ram.write & ram.write_data[0] & ~write_hold)"),
    ), bounded=True),
)  # fmt: skip
