# SPDX-License-Identifier: BSD-2-Clause
"""The schedule of the serial decompressor: groups as a line, each a cycle further in each cycle."""

from functools import partial

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof

from inceptionn.hdl.codec.planes.lane_dequantiser import LaneDequantiser
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.serial.planes.decompressor import Decompressor
from inceptionn.wire import GROUP_LANES, MAX_LANES, RAW_CODE


class Groups:
    """The groups that have begun: ``at[i]`` says that one did ``i`` cycles before."""

    def __init__(self, h: Harness, dut: Decompressor, inside: Inside) -> None:
        m, self.held, self.period = h.m, dut.held, dut.period
        self.first = dut.held + 5  # the cycle of its first lane
        self.word = self.first + LaneDequantiser.LATENCY  # and that in which it leaves
        self.done = self.word + GROUP_LANES
        left = inside["left"]
        begins = (inside["slot"] == 0) & inside["active"] & dut.room & ~dut.start
        number = Mux(left > GROUP_LANES, GROUP_LANES, left)[:4]
        self.odd = Signal(name="odd")
        m.d.sync += self.odd.eq(self.odd ^ begins)
        self.at, self.ends, self.numbers, self.odds = [begins], [left <= GROUP_LANES], [number], [self.odd]
        for line, name in (
            (self.at, "at"),
            (self.ends, "ends"),
            (self.numbers, "numbers"),
            (self.odds, "odds"),
        ):
            for cycles in range(1, self.done + 1):
                line.append(Signal(len(line[0]), name=f"{name}_{cycles}"))
                m.d.sync += line[-1].eq(line[-2])

    def among(self, begin: int, end: int) -> Value:
        """Whether a group began so many cycles before."""
        return Cat(self.at[begin:end]).any()

    def place(self, begin: int, end: int) -> Value:
        """How many cycles after ``begin``, if so."""
        place: Value = self.at[begin] & 0
        for cycles in range(begin, end):
            place = Mux(self.at[cycles], cycles - begin, place)
        return place

    def of(self, line: list[Value], begin: int, end: int) -> Value:
        """Return what the line says of that group."""
        found: Value = line[begin]
        for cycles in range(begin, end):
            found = Mux(self.at[cycles], line[cycles], found)
        return found


def pipelines(h: Harness, inside: Inside, groups: Groups) -> None:
    """Add invariants: what is in work follows from when the groups began."""
    period, first = groups.period, groups.first
    h.invariant("the slot", inside["slot"] == groups.place(0, period))
    for cycles in range(1, period + 1):
        alone = groups.at[cycles : cycles + period]
        h.invariant("a group begins a period after the one before", sum(alone[1:], alone[0]) <= 1)
    for cycles in range(1, period):
        there = groups.at[cycles]
        text = "the group in work is the last, or not"
        h.invariant(text, ~there | (inside["active"] & (groups.ends[cycles] == inside["last"])))
        number = Mux(inside["left"] > GROUP_LANES, GROUP_LANES, inside["left"])
        h.invariant("and has so many words", ~there | (groups.numbers[cycles] == number))
    for stage in range(1, 5):
        begin, end = 1 + stage, 1 + stage + GROUP_LANES
        valid, number = inside[f"fetch.valid_{stage}"], inside[f"fetch.number_{stage}"]
        h.invariant("a word is fetched", valid == groups.among(begin, end))
        h.invariant("its number", ~valid | (number == groups.place(begin, end)))
    lanes = inside["lanes"]
    for stage in range(LaneDequantiser.LATENCY + 1):
        begin, end = first + stage, first + stage + GROUP_LANES
        place, number = groups.place(begin, end), groups.of(groups.numbers, begin, end)
        last = groups.of(groups.ends, begin, end)
        leaves = groups.among(begin, end)
        h.invariant("a lane leaves", inside[f"sent.leaves_{stage}"] == leaves)
        h.invariant("a lane that is there", inside[f"sent.present_{stage}"] == (leaves & (place < number)))
        ends = leaves & last & (place == GROUP_LANES - 1)
        h.invariant("the last lane", inside[f"sent.ends_{stage}"] == ends)
        if stage == 0:
            h.invariant("its number in the group", ~leaves | (inside["lane"] == place))
            h.invariant("lanes of the group", ~leaves | ((lanes == number) & (inside["ends"] == last)))


def registers(h: Harness, inside: Inside, groups: Groups) -> None:
    """Make claims about the registers that hold a group's words."""
    held, first, period = groups.held, groups.first, groups.period
    at = inside["at"]
    size, rest, raw, is_raw = inside["size"], inside["rest"], inside["code"] == RAW_CODE, inside["is_raw"]
    odd = groups.of(groups.odds, 5, 5 + GROUP_LANES)
    has = [Signal(4, name=f"has_{place}") for place in range(held)]
    for place, one in enumerate(has):
        with h.m.If(inside[f"writes.{place}"]):
            h.m.d.sync += one.eq(Cat(at, odd))
    for cycles in range(1, period + 3):
        there = groups.at[cycles]
        if 6 <= cycles < 6 + GROUP_LANES:
            gone = 4 * (cycles - 5)
            h.invariant("bytes to come", ~there | (rest == Mux(size > gone, size - gone, 0)))
        if cycles >= first:
            h.invariant("a group is raw, or not", ~there | (is_raw == raw))
    for cycles in range(6, first + GROUP_LANES):
        own = groups.odds[cycles]
        for place, one in enumerate(has):
            numbers = [number for number in range(place, GROUP_LANES, held) if number + 6 <= cycles]
            if not numbers or cycles >= period + place + 6:
                continue
            ring = is_raw if cycles >= first else raw
            wanted = Cat(Mux(ring, C(numbers[-1], 3), C(place, 3)), own)
            h.invariant("what each register holds", ~groups.at[cycles] | (one == wanted))
    leaves, lane = inside["leaves"], inside["lane"]
    odd = groups.of(groups.odds, first, first + GROUP_LANES)
    for place, one in enumerate(has):
        h.claim(
            "planes are held from a group's first lane to its last",
            ~leaves | is_raw | (one == Cat(C(place, 3), odd)),
        )
        mine = Cat(lane == number for number in range(place, GROUP_LANES, held)).any()
        h.claim("a raw word is held until its lane", ~(leaves & is_raw & mine) | (one == Cat(lane, odd)))
    h.cover("a raw group behind one of planes", leaves & (lane == 7) & ~is_raw & raw)


def schedule(bf16: bool, h: Harness) -> None:
    """Any blocks of any words: which registers hold what, how many words leave, and when a block ends."""
    dut = Decompressor(EngineShape.of(1, "planes", bf16))
    inside = h.add(dut)
    m = h.m
    start, count = h.anything(1, "start"), h.anything(len(dut.count), "count")
    kept, busy = Signal.like(dut.count), Signal(name="busy")
    m.d.comb += [
        dut.start.eq(start), dut.room.eq(h.anything(1, "room")), dut.word.eq(h.anything(32, "word")),
        dut.base.eq(h.any_constant(8, "base")), dut.length.eq(h.anything(len(dut.length), "length")),
        dut.count.eq(Mux(start, count, kept)),
    ]  # fmt: skip
    h.assume("a block begins behind the one before, and has a word", ~start | (~busy & (count != 0)))
    h.assume("the most words", count <= MAX_LANES)
    groups = Groups(h, dut, inside)
    out = Signal.like(dut.count)
    m.d.sync += [kept.eq(dut.count), busy.eq(start | (busy & ~dut.done))]
    m.d.sync += out.eq(Mux(start, 0, out + dut.words.valid))

    pipelines(h, inside, groups)
    registers(h, inside, groups)
    active, left, slot = inside["active"], inside["left"], inside["slot"]
    # Words of the groups in work that have not left, and those of groups that have not begun.
    most: Value = C(0, 6)
    coming: Value = C(0, 6)
    for cycles in range(1, groups.word + GROUP_LANES):
        gone = max(cycles - groups.word, 0)
        there, number = groups.at[cycles], groups.numbers[cycles]
        most = most + Mux(there, GROUP_LANES - gone, 0)
        coming = coming + Mux(there & (number > gone), number - gone, 0)[:4]
    begun = Mux(left > GROUP_LANES, left - GROUP_LANES, 0)
    todo = Mux(active, Mux(slot == 0, left, begun), 0)
    ends = Cat(at & last for at, last in zip(groups.at[1:], groups.ends[1:], strict=True))
    h.invariant("all words are counted", ~busy | (out + coming + todo == kept))
    h.invariant("groups to begin have words", ~active | ((left != 0) & busy & (left <= MAX_LANES)))
    h.invariant("a last group is the last", ~ends.any() | ~(active & (slot == 0)))
    for cycles in range(1, groups.done + 1):
        h.invariant("groups are of a block in work", ~groups.at[cycles] | busy)
        number = groups.numbers[cycles]
        h.invariant("each has words", ~groups.at[cycles] | ((number != 0) & (number <= GROUP_LANES)))
        behind = groups.ends[cycles] & Cat(groups.at[1:cycles]).any() if cycles > 1 else groups.at[1] & 0
        h.invariant("no group follows the last", ~groups.at[cycles] | ~behind)
    late = Signal(range(dut.SLACK + 2))
    m.d.sync += late.eq(Mux(dut.room, 0, late + dut.words.valid))
    h.invariant("few words are on their way", dut.room | (late + most <= dut.SLACK))
    h.claim(f"at most {dut.SLACK} words come behind the fall of room", late <= dut.SLACK)
    h.claim("no word comes but of a block", ~dut.words.valid | (busy & (out != kept)))
    h.claim("at its end all words of a block are out", ~dut.done | (busy & (out == kept)))
    last = groups.at[groups.done] & groups.ends[groups.done]
    h.claim(
        f"a block ends {groups.done} cycles after its last group begins, and never else", dut.done == last
    )
    h.claim("a block in work has a group to begin, or its last has begun", ~busy | active | ends.any())
    h.cover("a block of two groups ends", dut.done & (kept == 10))
    h.cover("as many words come as may", late == dut.SLACK)


_PLANES, _BASE = "serial.planes.decompressor", "serial.decompressor"
PROOFS = tuple(
    Proof(f"serial_decompressor, planes{', bf16' if bf16 else ''}", partial(schedule, bf16), 1, (
        Fault(_PLANES, "self.held + GROUP_LANES - 1)", "self.held + GROUP_LANES - 2)"),
        Fault(_PLANES, "(again & whole)", "again"),
        Fault(_PLANES, "Mux(last, self._left, GROUP_LANES)", "GROUP_LANES"),
        Fault(_BASE, "left <= GROUP_LANES", "left < GROUP_LANES"),
    ), cover_depth=48, refute_depth=40, apart=True)
    for bf16 in (False, True)
)  # fmt: skip
