# SPDX-License-Identifier: BSD-2-Clause
"""The store of whole frames: each word carries its frame's number and its own, so any mistake shows."""

from functools import partial

from amaranth.hdl import Array, C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof
from packing import Delayed
from queues import Ring, claim_level

from inceptionn.hdl.parts.memory import BlockRam
from inceptionn.hdl.serial.frame_store import FrameStore

DEPTH, FRAMES = 4, 8
"""Words of the store, and places for frames."""
INDEX, NUMBER = 2, 3
"""Bits of a word's place in its frame, and of a frame's number among those that are not dropped."""
OTHERS = 26
"""Bits of a word that carry nothing."""


class Word:
    """A stored word; its low bits are its place, its frame's number, and whether it is the last."""

    def __init__(self, word: Value):
        self.index, self.number = word[:INDEX], word[INDEX : INDEX + NUMBER]
        self.tag, self.last = word[: INDEX + NUMBER], word[INDEX + NUMBER]
        self.others = word[INDEX + NUMBER + 1 :]

    @property
    def next(self) -> Value:
        """Tag of the word that must follow."""
        return Cat(Mux(self.last, 0, self.index + 1)[:INDEX], (self.number + self.last)[:NUMBER])


class Noted:
    """What the store notes of a frame.

    The first ``settings`` bits are its settings, which are the frame's number. A lossy store notes none while
    a frame waits: 0 bits.
    """

    def __init__(self, note: Value, settings: int = NUMBER):
        self.number, rest = note[:settings], note[settings:]
        self.last, self.ending = rest[:12], rest[12:]


class Inputs:
    """Frames of any lengths with gaps anywhere, and what the harness knows of them.

    Of one frame, any, it keeps one bit of one word, any, and how it ended; of all, the last word's place.
    Only frames that the store keeps have a number. Every store drops a frame that is too long; a lossy one
    also drops a frame that is bad, or had no room for one of its words.
    """

    def __init__(self, h: Harness, dut: FrameStore, inside: Inside) -> None:
        m, source, lossy = h.m, dut.s_axis, dut.lossy
        for name, shape in (("tvalid", 1), ("tlast", 1), ("tuser", 1), ("tkeep", 4)):
            m.d.comb += getattr(source, name).eq(h.anything(shape, name))
        keep, others = source.tkeep, h.anything(OTHERS, "others")
        h.assume(
            "bytes of a word are its first, at least one",
            keep[0] & ((keep[1:] & ~keep[:3]) == 0),
        )
        self.mine = h.any_constant(NUMBER, "mine")
        self.place, self.chosen = h.any_constant(INDEX, "place"), h.any_constant(range(OTHERS), "bit")
        self.bit, self.ending = Signal(name="mine_bit"), Signal(2 if lossy else 3, name="mine_ending")
        self.index, self.number = Signal(range(DEPTH + 1)), Signal(NUMBER)
        ends = [Signal(INDEX, name=f"end_{number}") for number in range(1 << NUMBER)]
        self.ends = Array(ends)
        self.ragged = Signal()
        self.accept = source.tvalid & source.tready
        self.ended = self.accept & source.tlast
        self.no_room = inside["full"] | ~inside["queue.room"]
        bad = source.tuser | self.ragged
        skip = (self.index >= DEPTH - 1) | (self.no_room if lossy else 0)
        self.kept = self.ended & ~skip & (~bad if lossy else 1)
        m.d.comb += source.tdata.eq(Cat(self.index[:INDEX], self.number, source.tlast, others))
        # Without loss the settings are the frame's number, in the cycle after its first word; else anything.
        self.began, self.first_number = Signal(), Signal(NUMBER)
        m.d.sync += [self.began.eq(self.accept & (self.index == 0)), self.first_number.eq(self.number)]
        self.settings = h.anything(NUMBER, "settings")
        m.d.comb += dut.settings.eq(Mux(self.began & (not lossy), self.first_number, self.settings))
        mine = self.number == self.mine
        with m.If(self.accept):
            m.d.sync += [
                self.index.eq(Mux(source.tlast, 0, Mux(skip, DEPTH, self.index + 1))),
                self.number.eq(self.number + self.kept),
                self.ragged.eq(~source.tlast & (self.ragged | ~keep.all())),
            ]
            with m.If(mine & (self.index == self.place)):
                m.d.sync += self.bit.eq(self.of(others))
        with m.If(self.kept):
            m.d.sync += self.ends[self.number].eq(self.index)
            with m.If(mine):
                m.d.sync += self.ending.eq(Cat(self.top(keep), bad))

    @staticmethod
    def top(keep: Value) -> Value:
        """Return the place of the last byte."""
        return (keep[1] + keep[2] + keep[3])[:2]

    def of(self, others: Value) -> Value:
        return others.bit_select(self.chosen, 1)

    def agrees(self, word: Word, complete: Value) -> Value:
        """Whether a word can be one of its frame; ``complete``: all of it has come."""
        end = self.ends[word.number]
        bit = self.of(word.others) == self.bit
        return Mux(complete, (word.index <= end) & (word.last == (word.index == end)), ~word.last) & (
            (word.number != self.mine) | (word.index != self.place) | bit
        )

    def right(self, note: Noted, number: Value) -> Value:
        """Whether what is noted is of this frame."""
        return (
            (note.number == number[: len(note.number)])  # of no bits: equal
            & (note.last == self.ends[number])
            & ((number != self.mine) | (note.ending == self.ending))
        )


def records(h: Harness, dut: FrameStore, inside: Inside, coming: Inputs, came: Value) -> None:
    """Add invariants about what is noted of frames: it is that of the frames inside, in order."""
    level, valid, push = inside["queue.level"], inside["queue.o.valid"], inside["queue.i.valid"]
    ended, settings = inside["ended.valid_1"], 0 if dut.lossy else NUMBER
    late = claim_level(h, inside, "queue.", FRAMES, 4, push)
    h.invariant(
        "pushes after room has fallen are few",
        inside["queue.room"] | (late + ended + push <= 2),
    )
    ring = Ring(h, inside, "queue.ring", 12 + len(coming.ending) + settings, FRAMES)
    ring.claim_addresses(level)
    frames = Signal(NUMBER, name="frames_inside")
    h.m.d.comb += frames.eq(coming.number - came)
    h.invariant("there is one note of each frame inside", frames == valid + level + push + ended)
    h.invariant("the note offered", ~valid | coming.right(Noted(inside["queue.output"], settings), came))
    read = ring.address("read", 0)
    for place in range(FRAMES):
        offset = (C(place, 3) - read)[:3]
        note = Noted(inside.memory("queue.ring.slices.0.ram", C(place, 3)), settings)
        number = Signal(NUMBER, name=f"noted_{place}")
        h.m.d.comb += number.eq(came + valid + offset)
        h.invariant(f"notes, place {place}", (offset >= level) | coming.right(note, number))
    # On the way into the queue.
    last, before = (coming.number - 1)[:NUMBER], Signal(NUMBER, name="number_before")
    h.m.d.comb += before.eq(last - ended)
    for stage, number, there in ((1, last, ended), (2, before, push)):
        end, top = inside[f"ended.last_{stage}"], inside[f"ended.top_{stage}"]
        tail = top if dut.lossy else Cat(top, inside[f"ended.bad_{stage}"])
        ending = (number != coming.mine) | (tail == coming.ending)
        h.invariant(f"the note of {stage} cycles before", ~there | ((end == coming.ends[number]) & ending))
    h.invariant("bytes are missing before the last word", inside["ragged"] == coming.ragged)
    if dut.lossy:
        return
    held, begun = inside["settings_held"], inside["begun"]
    h.invariant("the settings of a frame are held until it is noted", ~push | (held == before))
    h.invariant("or come now", ~ended | Mux(begun, coming.first_number == last, held == last))
    h.invariant(
        "or will",
        (coming.index == 0) | Mux(begun, coming.first_number == coming.number, held == coming.number),
    )
    h.invariant(
        "the first word of a frame is known",
        (inside["first"] == (coming.index == 0)) & (begun == coming.began),
    )


def contents(h: Harness, inside: Inside, coming: Inputs, came: Value, out: Value) -> None:
    """Add invariants about every word inside: each is followed by the next.

    ``out``: how many words of the oldest frame are not needed any more.
    """
    m = h.m
    begin, words, oldest, used = (inside[name] for name in ("begin", "words", "oldest", "used"))
    head, held, frames = Signal(INDEX, name="head"), Signal(INDEX + 1), Signal(NUMBER, name="frames")
    m.d.comb += [head.eq(oldest + out), held.eq(used - inside["freed"]), frames.eq(coming.number - came)]
    h.invariant("what is released is counted a cycle later", used >= inside["freed"])
    h.invariant("words that are released", inside["released"] == out)
    for end in coming.ends:
        h.invariant("a frame has a place less than the store", end < DEPTH - 1)
    h.invariant("they are of the oldest frame", (out == 0) | ((frames != 0) & (out <= coming.ends[came] + 1)))
    h.invariant("all words have room", held + words <= DEPTH)
    h.invariant("the count of words is late by those released", used + words <= DEPTH)
    h.invariant("without a place no word is stored", inside["full"] | (used + words < DEPTH))
    h.invariant("the frame that comes lies behind them", begin == (head + held)[:INDEX])
    h.invariant("a frame that is too long leaves nothing", inside["refuse"] == (coming.index == DEPTH))
    h.invariant("words of the frame that comes", words == Mux(inside["refuse"], 0, coming.index))
    gone, front = out == coming.ends[came] + 1, Signal(INDEX + NUMBER, name="front")
    start = Cat(C(0, INDEX), coming.number)
    m.d.comb += front.eq(
        Mux(frames == 0, start, Mux(gone, Cat(C(0, INDEX), (came + 1)[:NUMBER]), Cat(out[:INDEX], came)))
    )
    h.invariant(
        "without words no frame is inside, or one whose words are released", (held != 0) | (front == start)
    )
    stored = [Word(inside.memory("ram", C(place, INDEX))) for place in range(DEPTH)]
    for place, word in enumerate(stored):
        complete = (C(place, INDEX) - head)[:INDEX] < held
        begun = ~complete & ((C(place, INDEX) - begin)[:INDEX] < words)
        age = (word.number - came)[:NUMBER]
        known = Mux(complete, age < frames, age == frames)
        h.invariant(f"word {place}: its frame is inside", ~(complete | begun) | known)
        h.invariant(f"word {place}", ~(complete | begun) | coming.agrees(word, complete))
        ends = begin == (place + 1) % DEPTH
        following = Mux(ends, start, stored[(place + 1) % DEPTH].tag)
        h.invariant(f"word {place}: the next one follows", ~complete | (word.next == following))
        h.invariant(f"word {place}: it is the first", ~complete | (head != place) | (word.tag == front))
        h.invariant(
            f"word {place}: it is in its place", ~begun | (word.index == (C(place, INDEX) - begin)[:INDEX])
        )


def frame_store(lossy: bool, h: Harness) -> None:
    """Make claims about a small store."""
    dut = FrameStore(NUMBER, depth=DEPTH, frames=FRAMES, lossy=lossy)
    inside = h.add(dut)
    m, frames, offered = h.m, dut.frames, dut.frames.payload
    coming = Inputs(h, dut, inside)
    running = h.running(1)
    address = h.anything(INDEX, "address")
    m.d.comb += [
        frames.ready.eq(h.anything(1, "ready")), dut.release.eq(h.anything(1, "release")),
        dut.address.eq(address),
    ]  # fmt: skip

    # What goes: `came` frames were taken, and of the next one `out` words are released.
    takes = frames.valid & frames.ready
    came, out = Signal(NUMBER), Signal(INDEX + 1)
    m.d.sync += [came.eq(came + takes), out.eq(Mux(takes, 0, out + dut.release))]
    h.assume(
        "no more words are released than the frame has, which is offered",
        ~dut.release | (frames.valid & (out <= offered.last)),
    )
    note = Noted(Value.cast(offered))
    mine = frames.valid & (came == coming.mine)
    if lossy:
        oldest = frames.valid & ~(h.past(frames.valid) & ~h.past(takes))
        h.claim(
            "a frame has the settings of the cycle before it became the oldest",
            ~oldest | ~running | (note.number == h.past(coming.settings)),
        )
        h.claim(
            "a frame that is dropped is told, in the cycle after its last word",
            ~running | (dut.dropped == h.past(coming.ended & ~coming.kept)),
        )
    else:
        h.claim(
            "frames come in order, each with the settings of its first word",
            ~frames.valid | (note.number == came),
        )
    h.claim("they were whole before", ~frames.valid | (came != coming.number))
    h.claim("the last word of each is known", ~frames.valid | (note.last == coming.ends[came]))
    # A lossy store's `coming.ending` has no bit for bad, so this says that no bad frame is offered.
    h.claim("and its last byte, and whether it is bad", ~mine | (note.ending == coming.ending))
    waits, was = Signal(), Signal(len(Value.cast(offered)))
    m.d.sync += [waits.eq(frames.valid & ~frames.ready), was.eq(offered)]
    h.claim("what is offered stays until it is taken", ~waits | (frames.valid & (Value.cast(offered) == was)))

    # Words, two cycles after their addresses.
    readable = frames.valid & (address >= out) & (address <= offered.last)
    then = Delayed(h, {
        "readable": readable, "address": address, "came": came, "bit": coming.bit,
        "last": address == offered.last,
    }, BlockRam.LATENCY)  # fmt: skip
    for cycles, found in ((1, inside["ram.found"]), (2, dut.word)):
        word = Word(found)
        there, number, place = then("readable", cycles), then("came", cycles), then("address", cycles)
        add = h.claim if cycles == 2 else h.invariant
        add(
            "a word that is read is that of the oldest frame at that place"
            + ", a cycle before" * (cycles == 1),
            ~there | ((word.index == place) & (word.number == number) & (word.last == then("last", cycles))),
        )
        followed = (number == coming.mine) & (place == coming.place)
        add(
            "any bit of it is that which came" + ", a cycle before" * (cycles == 1),
            ~(there & followed) | (coming.of(word.others) == then("bit", cycles)),
        )
    h.claim(
        "a word is not read while it is written",
        ~(readable & inside["ram.write"]) | (inside["ram.write_address"] != inside["ram.read_address"]),
    )
    records(h, dut, inside, coming, came)
    contents(h, inside, coming, came, out)
    progress(h, dut, inside, coming, came, running)

    second = (then("came", 2) == 1) & (then("address", 2) == 2)
    h.cover(
        "the last word of a second frame, which lies where the first frame was",
        mine & (came == 1) & then("readable", 2) & then("last", 2) & second,
    )
    h.cover("a frame that is left out while another is inside", coming.ended & ~coming.kept & frames.valid)
    h.cover("all places are used", inside["used"] == DEPTH)
    h.cover("no room for another frame's note", ~inside["queue.room"] & running)


def progress(
    h: Harness, dut: FrameStore, inside: Inside, coming: Inputs, came: Value, running: Value
) -> None:
    """Make claims that no frame and no source waits for ever."""
    held, offered, level = coming.number != came, dut.frames.valid, inside["queue.level"]
    push = inside["queue.i.valid"]
    waited = Signal(range(5))
    h.m.d.sync += waited.eq(Mux(held & ~offered, waited + (waited != 4), 0))
    h.invariant("a frame is noted", (waited < 1) | offered | (level != 0) | push)
    h.invariant("and its note comes", (waited < 2) | offered | (level != 0))
    h.claim(
        "a whole frame is offered four cycles after its last word, or in the cycle after the one before",
        (waited < 3) | offered,
    )
    h.invariant("there is room for notes", inside["queue.room"] | (level >= 2) | ~running)
    long = coming.index >= DEPTH - 1
    was = Delayed(h, {"held": held, "long": long, "refused": long & coming.accept}, 3)
    full = inside["full"]
    h.invariant("room is used", (inside["used"] == 0) | held | was("held", 1))
    h.invariant("the store is full", ~full | held | was("held", 1) | was("held", 2) | was("long", 1))
    busy = held | was("held", 1) | was("held", 2) | was("refused", 1)
    when = "only for other frames, until two cycles after they have left, or a cycle after a word too many"
    if dut.lossy:
        h.claim("the source never waits", dut.s_axis.tready)
        h.claim(f"a word that may come has no room {when}", ~coming.no_room | long | busy | ~running)
    else:
        h.claim(f"the source waits {when}", dut.s_axis.tready | busy | ~running)


_STORE = "serial.frame_store"
_FAULTS = (
    Fault(_STORE, "words + used >= self.depth - 1", "words + used >= self.depth"),
    Fault(_STORE, "frame.last + 1 - released", "frame.last + 1"),
)
PROOFS = (
    Proof("frame_store", partial(frame_store, False), 1, (
        *_FAULTS,
        Fault(_STORE, "source.tlast & ~skip &", "source.tlast & ~most &"),
        Fault(_STORE, "samples.eq(taken & first)", "samples.eq(taken)"),
        Fault(_STORE, "(~full | skip)", "~full"),
    ), cover_depth=20, refute_depth=16, apart=True),
    Proof("frame_store, lossy", partial(frame_store, True), 1, (
        *_FAULTS,
        Fault(_STORE, "refuse | most | full | ~queue.room", "refuse | most | full"),
        Fault(_STORE, "~skip & (~bad if", "~skip & (1 if"),
        Fault(_STORE, "source.tlast & ~whole)", "source.tlast & skip)"),
        Fault(_STORE, "~self.frames.valid | takes", "~self.frames.valid"),
        Fault(_STORE, "refuse.eq(~source.tlast & skip)", "refuse.eq(skip)"),
    ), cover_depth=20, refute_depth=24, apart=True),
)  # fmt: skip
