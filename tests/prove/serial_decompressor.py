# SPDX-License-Identifier: BSD-2-Clause
"""The schedule of the serial decompressors: groups as a line, each a cycle further in each cycle."""

from functools import partial

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof
from packing import Delayed

from inceptionn.hdl.codec.paper.decompression_block import DecompressionBlock
from inceptionn.hdl.codec.planes.lane_dequantiser import LaneDequantiser
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.serial.decompressor import Decompressor
from inceptionn.hdl.serial.paper.decompressor import Decompressor as PaperDecompressor
from inceptionn.hdl.serial.planes.decompressor import Decompressor as PlanesDecompressor
from inceptionn.wire import GROUP_LANES, MAX_LANES, RAW_CODE


class Groups:
    """The groups that have begun: ``at[i]`` says that one did ``i`` cycles before."""

    def __init__(self, h: Harness, dut: Decompressor, inside: Inside, word: int) -> None:
        m, self.word = h.m, word  # the cycle in which its first word leaves
        self.done = word + GROUP_LANES
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


def blocks(h: Harness, dut: Decompressor, inside: Inside, word: int) -> Groups:
    """Make claims about any blocks of any words: how many words leave, and when a block ends."""
    m = h.m
    start, count = h.anything(1, "start"), h.anything(len(dut.count), "count")
    kept, busy = Signal.like(dut.count), Signal(name="busy")
    m.d.comb += [
        dut.start.eq(start), dut.room.eq(h.anything(1, "room")),
        dut.base.eq(h.any_constant(8, "base")), dut.length.eq(h.anything(len(dut.length), "length")),
        dut.count.eq(Mux(start, count, kept)),
    ]  # fmt: skip
    h.assume("a block begins behind the one before, and has a word", ~start | (~busy & (count != 0)))
    h.assume("the most words", count <= MAX_LANES)
    groups = Groups(h, dut, inside, word)
    out = Signal.like(dut.count)
    m.d.sync += [kept.eq(dut.count), busy.eq(start | (busy & ~dut.done))]
    m.d.sync += out.eq(Mux(start, 0, out + dut.words.valid))

    active, left, slot = inside["active"], inside["left"], inside["slot"]
    h.invariant("the slot", slot == groups.place(0, dut.period))
    for cycles in range(1, dut.period + 1):
        alone = groups.at[cycles : cycles + dut.period]
        h.invariant("a group begins a period after the one before", sum(alone[1:], alone[0]) <= 1)
    for cycles in range(1, dut.period):
        there = groups.at[cycles]
        text = "the group in work is the last, or not"
        h.invariant(text, ~there | (active & (groups.ends[cycles] == inside["last"])))
        number = Mux(left > GROUP_LANES, GROUP_LANES, left)
        h.invariant("and has so many words", ~there | (groups.numbers[cycles] == number))
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
    h.invariant("a block has no more words than a payload", kept <= MAX_LANES)
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
    # Of the group before, those that leave behind this one's beginning.
    h.cover("as many words come as may", late == GROUP_LANES + min(GROUP_LANES, groups.done - dut.period - 1))
    return groups


def pipelines(h: Harness, dut: PlanesDecompressor, inside: Inside, groups: Groups) -> None:
    """Add invariants: what is in work follows from when the groups began."""
    first = dut.held + 5  # the cycle of a group's first lane
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


def registers(h: Harness, dut: PlanesDecompressor, inside: Inside, groups: Groups) -> None:
    """Make claims about the registers that hold a group's words."""
    held, first, period = dut.held, dut.held + 5, dut.period
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


def planes(bf16: bool, h: Harness) -> None:
    """Any memory: which registers hold what."""
    dut = PlanesDecompressor(EngineShape.of(1, "planes", bf16))
    inside = h.add(dut)
    h.m.d.comb += dut.word.eq(h.anything(32, "word"))
    groups = blocks(h, dut, inside, dut.held + 5 + LaneDequantiser.LATENCY)
    pipelines(h, dut, inside, groups)
    registers(h, dut, inside, groups)


def paper(h: Harness) -> None:
    """Any tags, and a memory whose words are their addresses: which of them each lane's vector is made of.

    A lane is in slot 3 and those behind it; its place, tag and words meet two cycles later.
    """
    dut = PaperDecompressor(EngineShape.of(1, "paper"))
    inside = h.add(dut)
    m, slot = h.m, inside["slot"]
    begins, met = dut.WORD_LATENCY + 1, dut.WORD_LATENCY  # the slot of a lane, and cycles until its words
    groups = blocks(h, dut, inside, begins + met + 1 + DecompressionBlock.LATENCY)
    place, tags = inside["place"], inside["tags"]
    was = Delayed(h, {"address": dut.address, "place": place, "table": slot == 0}, 3)
    table = h.anything(32, "table")
    m.d.comb += dut.word.eq(Mux(was("table", met), table, was("address", met)))

    for cycles in (1, 2):
        for ago in range(cycles, cycles + dut.period):
            h.invariant("a word of the table is asked for in slot 0", ~groups.at[ago] | (
                was("table", cycles) == (ago == cycles)))  # fmt: skip

    # The table: half 1 of the memory has the first group's tags.
    read = Signal(11, name="groups_read")
    chosen = Signal(16)
    with m.If(dut.start):
        m.d.sync += read.eq(0)
    with m.Elif(slot == dut.period - 1):
        m.d.sync += read.eq(read + 1)
    half = (read + 1)[:11]
    with m.If(slot == met):
        m.d.sync += chosen.eq(table.word_select(half[0], 16))
    h.invariant("groups are counted", inside["group"] == read[: len(inside["group"])])
    h.invariant("the table's half", ~inside["active"] | (inside["table_half"] == half))
    h.invariant(
        "words read and words left are the block's",
        ~inside["active"] | ((read << 3) + inside["left"] == dut.count),
    )
    h.claim("a group's tags are the half behind those of the group before", ~groups.at[0] | (
        dut.address == half[1:]))  # fmt: skip

    lane = groups.place(begins, begins + GROUP_LANES)
    takes = groups.among(begins, begins + GROUP_LANES)
    tag = chosen.word_select(lane, 2)
    h.claim("each lane has its tag", ~takes | (tags[:2] == tag))
    h.invariant("the tags behind it", ~takes | (tags == chosen >> (lane << 1)))
    before = Signal(3)  # bytes of the lane before
    m.d.sync += before.eq(Mux(tag == 3, 4, tag))
    h.claim("a lane lies behind the one before", ~(takes & (lane != 0)) | (
        place == (was("place", 1) + before)[: len(place)]))  # fmt: skip
    h.claim("the first of a group, too", ~groups.at[begins] | (place == was("place", 1)))
    contents(h, inside, groups, was, place, begins)


def contents(h: Harness, inside: Inside, groups: Groups, was: Delayed, place: Value, begins: int) -> None:
    """Add what the pipeline of the lanes holds, and make the claim about their words."""
    last = begins + DecompressionBlock.LATENCY
    for stage in range(last + 1):
        begin, end = begins + stage, begins + stage + GROUP_LANES
        takes, number = groups.among(begin, end), groups.of(groups.numbers, begin, end)
        there = groups.place(begin, end)
        h.invariant("a lane is decoded", inside[f"lanes.takes_{stage}"] == takes)
        h.invariant("a lane that is there", inside[f"lanes.present_{stage}"] == (takes & (there < number)))
        ends = groups.at[end - 1] & groups.ends[end - 1]
        h.invariant("the last lane", inside[f"lanes.ends_{stage}"] == ends)
    for stage in (0, 1, 2):
        begin, end = begins + stage, begins + stage + GROUP_LANES
        here = was("place", stage)
        takes, first = groups.among(begin, end), groups.at[begin]
        moved = inside[f"lanes.moved_{stage}"]
        step = (here[2:] - was("place", stage + 1)[2:])[: len(here) - 2]
        h.invariant("a place in the word of the one before, or the next", ~takes | first | (step <= 1))
        h.invariant("it moved, or not", ~takes | (moved == (first | step[0])))
        h.invariant("the place of the lane before the first", ~first | (step == 0))
        if stage:
            h.invariant("where in its word", ~takes | (inside[f"lanes.shift_{stage}"] == here[:2]))
            h.invariant("the next word's address", ~takes | (was("address", stage) == (here[2:] + 1)[:12]))
    for stage in (1, 2, 3):  # slot 2 has asked for the first word
        h.invariant(
            "the first word's address",
            ~groups.at[begins - 1 + stage] | (was("address", stage) == was("place", stage)[2:]),
        )
    takes, here = groups.among(begins + 2, begins + 2 + GROUP_LANES), was("place", 2)[2:]
    behind = groups.among(begins + 3, begins + 3 + GROUP_LANES)
    h.invariant("the word that came last", ~(behind | groups.at[begins + 2]) | (
        inside["before"] == was("address", 3)))  # fmt: skip
    past = was("place", 3)[2:]
    h.invariant("the lane before had its words", ~behind | (
        (inside["kept"] == past) & (was("address", 3) == (past + 1)[:12])))  # fmt: skip
    h.claim("a vector begins in the word of its place", ~takes | (inside["lower"] == here))
    h.claim("and ends in the next", ~takes | (was("address", 2) == (here + 1)[:12]))
    h.cover("a lane in the word of the one before", takes & ~inside["lanes.moved_2"])
    h.cover("a lane in the next", takes & inside["lanes.moved_2"] & ~groups.at[begins + 2])


_PLANES, _PAPER, _BASE = "serial.planes.decompressor", "serial.paper.decompressor", "serial.decompressor"
PROOFS = (
    *(
        Proof(f"serial_decompressor, planes{', bf16' if bf16 else ''}", partial(planes, bf16), 1, (
            Fault(_PLANES, "self.held + GROUP_LANES - 1)", "self.held + GROUP_LANES - 2)"),
            Fault(_PLANES, "(again & whole)", "again"),
            Fault(_PLANES, "Mux(last, self._left, GROUP_LANES)", "GROUP_LANES"),
            Fault(_BASE, "left <= GROUP_LANES", "left < GROUP_LANES"),
        ), cover_depth=48, refute_depth=40, apart=True)
        for bf16 in (False, True)
    ),
    Proof("serial_decompressor, paper", paper, 1, (
        Fault(_PAPER, "Mux(tag.all(), 4, tag)", "tag"),
        Fault(_PAPER, "(slot == begins) | (place[2] != held)", "place[2] != held"),
        Fault(_PAPER, "kept.eq(lower)", "kept.eq(before)"),
        Fault(_PAPER, "place[2:] + takes", "place[2:] + 1"),
        Fault(_BASE, "left <= GROUP_LANES", "left < GROUP_LANES"),
        Fault(_BASE, "((group + 1) >>", "(group >>"),
    ), cover_depth=48, refute_depth=40, apart=True),
)  # fmt: skip
