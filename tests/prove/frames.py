# SPDX-License-Identifier: BSD-2-Clause
"""The queue of whole frames: each beat carries its frame's number and its own, so any mistake shows."""

from functools import partial

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof
from queues import Ring, claim_level

from inceptionn.hdl.attach.frame_queue import FrameQueue

DEPTH, BEATS, FRAMES = 8, 16, 8
"""Places in the RAM, in the queue that it is read into, and for lengths."""
INDEX, NUMBER = 3, 4
"""Bits of a beat's place in its frame, and of a frame's number among those that are not dropped."""


class Beat:
    """A beat as the queue stores it; the low bits of its data are its place and its frame's number."""

    def __init__(self, word: Value):
        self.index, self.number = word[:INDEX], word[INDEX : INDEX + NUMBER]
        self.tag = word[: INDEX + NUMBER]
        self.others = word[INDEX + NUMBER : 16]
        self.ending, self.last, self.user = word[16], word[17], word[18]

    @property
    def next(self) -> Value:
        """Tag of the beat that must follow."""
        index = Mux(self.last, 0, self.index + 1)[:INDEX]
        return Cat(index, (self.number + self.last)[:NUMBER])


class Followed:
    """One frame, any, and one bit of its data, any."""

    def __init__(self, h: Harness) -> None:
        self.h = h
        self.number = h.any_constant(NUMBER, "mine")
        self.place, self.chosen = h.any_constant(INDEX, "place"), h.any_constant(range(9), "bit")
        self.end, self.half, self.bad, self.bit = Signal(INDEX), Signal(), Signal(), Signal()
        self.length = (self.end << 1) + 2 - self.half
        """Bytes; the last beat, ``end``, has one of two if it is ``half``."""

    def of(self, others: Value) -> Value:
        return others.bit_select(self.chosen, 1)

    def agrees(self, beat: Beat, complete: Value | int = 1) -> Value:
        """Whether a beat can be one of this frame, or of another; ``complete``: all of its frame has come."""
        mine = beat.number == self.number
        last = (beat.index == self.end) & (beat.ending == self.half) & (beat.user == self.bad)
        early = beat.index < self.end
        bit = self.of(beat.others) == self.bit
        return (
            (beat.last | (~beat.ending & ~beat.user))
            & (~mine | Mux(beat.last, last, early | ~complete))
            & (~mine | (beat.index != self.place) | bit)
        )


class Inputs:
    """Frames of any lengths with gaps anywhere, and what the harness knows of them."""

    def __init__(self, h: Harness, dut: FrameQueue, inside: Inside, mine: Followed) -> None:
        m, source = h.m, dut.s_axis
        for name, shape in (("tvalid", 1), ("tlast", 1), ("tuser", 1), ("tkeep", 2)):
            m.d.comb += getattr(source, name).eq(h.anything(shape, name))
        h.assume(
            "beats are full, but for the last of a frame, which has one byte or two",
            source.tkeep[0] & (source.tlast | source.tkeep[1]),
        )
        others = h.anything(9, "others")
        self.index, self.number = Signal(range(DEPTH + 1)), Signal(NUMBER)
        self.accept, self.drop = source.tvalid & source.tready, inside["drop"]
        self.ended = self.accept & source.tlast
        m.d.comb += [
            source.tdata.eq(Cat(self.index[:INDEX], self.number, others)),
            dut.s_word.eq(self.number),
        ]
        with m.If(self.accept):
            m.d.sync += [
                self.index.eq(Mux(source.tlast, 0, self.index + (self.index != DEPTH))),
                self.number.eq(self.number + (source.tlast & ~self.drop)),
            ]
            with m.If(self.number == mine.number):
                with m.If(self.index == mine.place):
                    m.d.sync += mine.bit.eq(mine.of(others))
                with m.If(source.tlast & ~self.drop):
                    m.d.sync += [
                        mine.end.eq(self.index), mine.half.eq(~source.tkeep[1]), mine.bad.eq(source.tuser),
                    ]  # fmt: skip


def drops(h: Harness, dut: FrameQueue, inside: Inside, coming: Inputs, running: Value) -> None:
    """Make claims about which frames are dropped, and when the source waits."""
    ended, dropped = Signal(), Signal()
    index, bad = h.past(coming.index), h.past(dut.s_axis.tuser)
    h.m.d.sync += [ended.eq(coming.ended), dropped.eq(coming.drop)]
    h.claim("a frame is dropped at its end alone", ~dut.dropped | ended)
    h.claim("a frame that is said to be dropped is, and no other", dut.dropped == dropped)
    too_long = index >= DEPTH - 1
    h.claim("a frame that cannot be whole inside is dropped", ~(ended & too_long) | dut.dropped)
    if dut.drop_bad:
        h.claim("a bad frame is dropped", ~(ended & bad) | dut.dropped)
    else:
        bad = C(0, 1)
    # In the RAM one place stays free; the queue of lengths has room while it holds two.
    read, write = inside["read"], inside["write"]
    tight = ((write - read)[:3] == DEPTH - 1) | (inside["lengths.level"] >= 2)
    if dut.lossy:
        h.claim("the source never waits", dut.s_axis.tready)
        was_tight, reason = Signal(), Signal()
        with h.m.If(coming.accept):
            now = was_tight | tight | ~running
            h.m.d.sync += [was_tight.eq(~coming.ended & now), reason.eq(now)]
        h.invariant("a frame is refused after a beat without room", ~inside["refuse"] | was_tight)
        h.claim(
            "a frame is dropped only if it is bad, or a beat of it came without room",
            ~dut.dropped | bad | reason,
        )
    else:
        h.claim("the source waits only without room", dut.s_axis.tready | tight | ~running)
        h.claim(
            "a frame is dropped only if it is bad, or has more beats than the queue holds",
            ~dut.dropped | bad | too_long,
        )


def contents(
    h: Harness, inside: Inside, mine: Followed, coming: Inputs, out: Value, lossy: bool
) -> tuple[Value, Value, Value, Value]:
    """Add invariants about every beat inside: each is followed by the next.

    Returns tags of the beats that are next: at the output register, at the push into the queue, at the RAM's
    output register, and at the RAM.
    """
    m = h.m
    number_out = out[INDEX:]
    held = (coming.number - number_out)[:NUMBER]
    noted = inside["lengths.o.valid"] + inside["lengths.level"]

    def there(text: str, condition: Value, beat: Beat) -> None:
        """Claim that a beat behind the RAM can be one of the followed frame, and that its length is there."""
        age = (beat.number - number_out)[:NUMBER]
        h.invariant(text, ~condition | (mine.agrees(beat) & (age < noted)))

    # The output register and the ring before it.
    load, push, arriving = inside["beats.load"], inside["beats.i.valid"], inside["arriving"]
    valid, level = inside["beats.o.valid"], inside["beats.level"]
    next_load, next_push = Signal(INDEX + NUMBER, name="next_load"), Signal(INDEX + NUMBER, name="next_push")
    with m.If(load):
        m.d.sync += next_load.eq(Beat(inside["beats.ring.read_data"]).next)
    second = Beat(inside["ram.output"])
    with m.If(push):
        m.d.sync += next_push.eq(second.next)
    first = Beat(inside["beats.output"])
    there("the beat that is offered", valid, first)
    h.invariant(
        "the beat that is offered comes next, and before that of the ring",
        Mux(valid, (first.tag == out) & (first.next == next_load), next_load == out),
    )
    ring = Ring(h, inside, "beats.ring", 19, BEATS)
    ring.claim_addresses(level)
    read, write = ring.address("read", 0), ring.address("write", 0)
    words = [Beat(inside.memory("beats.ring.slices.0.ram", C(place, 4))) for place in range(BEATS)]
    for place, beat in enumerate(words):
        valid = (C(place, 4) - read)[:4] < level
        ends = write == (place + 1) % BEATS
        there(f"ring, word {place}", valid, beat)
        following = Mux(ends, next_push, words[(place + 1) % BEATS].tag)
        h.invariant(f"ring, word {place}: the next one follows", ~valid | (beat.next == following))
        h.invariant(
            f"ring, word {place}: it is the first", ~valid | (read != place) | (beat.tag == next_load)
        )
    h.invariant("an empty ring", (level != 0) | (next_load == next_push))

    # On the way from the RAM.
    there("the RAM's output register", arriving[1], second)
    h.invariant("the RAM's output register is next", ~arriving[1] | (second.tag == next_push))
    next_second = Mux(arriving[1], second.next, next_push)
    third = Beat(inside["ram.found"])
    there("the RAM's read register", arriving[0], third)
    h.invariant("the RAM's read register is next", ~arriving[0] | (third.tag == next_second))
    next_read = Mux(arriving[0], third.next, next_second)

    # In the RAM: whole frames, and one that is not yet.
    names = ("read", "whole", "refuse", "write", "length_so_far")
    read, whole, refuse, write, length = (inside[name] for name in names)
    words = [Beat(inside.memory("ram", C(place, 3))) for place in range(DEPTH)]
    size, more = (whole - read)[:3], (write - whole)[:3]
    start = Cat(C(0, INDEX), coming.number)
    for place, beat in enumerate(words):
        complete = (C(place, 3) - read)[:3] < size
        begun = (C(place, 3) - whole)[:3] < more
        age = (beat.number - number_out)[:NUMBER]
        known = Mux(complete, age < held, (age == held) & ~beat.last)
        h.invariant(f"RAM, word {place}", ~(complete | begun) | (mine.agrees(beat, complete) & known))
        ends = whole == (place + 1) % DEPTH
        following = Mux(ends, start, words[(place + 1) % DEPTH].tag)
        h.invariant(f"RAM, word {place}: the next one follows", ~complete | (beat.next == following))
        h.invariant(
            f"RAM, word {place}: it is the first", ~complete | (read != place) | (beat.tag == next_read)
        )
        h.invariant(
            f"RAM, word {place}: it is in its place",
            ~begun | (beat.index == (C(place, 3) - whole)[:3]),
        )
    h.invariant("without a whole frame in the RAM a frame begins", (size != 0) | (next_read == start))
    h.invariant("one place stays free", size + more <= DEPTH - 1)
    h.invariant("a frame that is refused leaves nothing", ~refuse | (more == 0))
    if not lossy:
        h.invariant("a frame is refused after more beats than fit", ~refuse | (coming.index == DEPTH))
    h.invariant("beats of the frame that comes", refuse | (coming.index == more))
    h.invariant("their bytes", refuse | (length == coming.index << 1))
    return next_load, next_push, next_second, next_read


def no_gap(
    h: Harness, inside: Inside, next_load: Value, next_push: Value, next_second: Value, next_read: Value
) -> None:
    """Add invariants: a gap inside a frame arises only while the queue after the RAM is nearly full."""
    level, arriving = inside["beats.level"], inside["arriving"]

    def unless(text: str, tag: Value, fine: Value) -> None:
        h.invariant(text, (tag[:INDEX] == 0) | fine)

    unless("a frame is read on, or much is held", next_read, inside["beats.room"] | (level >= 10))
    unless("its beats leave the RAM without a gap, or much is held", next_read, arriving[0] | (level >= 9))
    unless("and pass the RAM's register", next_second, arriving[1] | (level >= 8))
    unless("and enter the queue", next_push, inside["beats.pushed"] | (level >= 7))
    unless("and reach its ring's end", next_load, inside["beats.stored"])


def notes(h: Harness, inside: Inside, mine: Followed, coming: Inputs, came: Value) -> None:
    """Add invariants about lengths and words: those of the frames inside, in order, before their beats."""
    level, valid = inside["lengths.level"], inside["lengths.o.valid"]
    push = inside["lengths.i.valid"]
    ring = Ring(h, inside, "lengths.ring", 21, FRAMES)
    ring.claim_addresses(level)
    held = (coming.number - came)[:NUMBER]
    h.invariant("there is one of each frame inside", held == valid + level + push)

    def right(note: Value, number: Value) -> Value:
        return (note[17:] == number) & ((number != mine.number) | (note[:17] == mine.length))

    h.invariant("the length and word offered", ~valid | right(inside["lengths.output"], came))
    index = (mine.number - came - valid)[:NUMBER]
    h.invariant(
        "length and word of the followed frame", (index >= level) | right(ring.word(index[:3]), mine.number)
    )
    read = ring.address("read", 0)
    for place in range(FRAMES):
        word = inside.memory("lengths.ring.slices.0.ram", C(place, 3))
        offset = (C(place, 3) - read)[:3]
        h.invariant(
            f"lengths, word {place}",
            (offset >= level) | (word[17:] == (came + valid + offset)[:NUMBER]),
        )
    h.invariant(
        "length and word that come",
        ~push | right(inside["lengths.i.payload"], (coming.number - 1)[:NUMBER]),
    )
    beats = inside["beats.o.valid"] | (inside["beats.level"] != 0)
    arriving = inside["arriving"]
    h.invariant("they are before the beats in the queue", valid | ~(beats | arriving[1]))
    h.invariant("they are before the beats in the RAM's register", valid | (level != 0) | ~arriving[0])


def progress(h: Harness, dut: FrameQueue, inside: Inside, held: Value, running: Value) -> None:
    """Make claims that no frame and no source waits for ever; ``held``: a whole frame is inside."""
    offered = dut.m_axis.tvalid
    waited = Signal(range(5))
    h.m.d.sync += waited.eq(Mux(held & ~offered, waited + 1, 0))
    level, arriving = inside["beats.level"], inside["arriving"]
    h.invariant("after a reset nothing is inside", running | ~held)
    h.invariant(
        "the queue after the RAM has room unless much is held",
        inside["beats.room"] | (level >= 10) | ~running,
    )
    h.invariant("one is among lengths", inside["lengths.room"] | (inside["lengths.level"] >= 2) | ~running)
    h.invariant("a frame inside is read", (waited < 1) | offered | (level != 0) | arriving.any())
    h.invariant("and comes", (waited < 2) | offered | (level != 0) | arriving[1])
    h.invariant("and has come", (waited < 3) | offered | (level != 0))
    h.claim("a frame that is whole, and the next, is offered after 4 cycles at most", (waited < 4) | offered)
    if not dut.lossy:
        h.claim("the source waits only while a whole frame is inside", dut.s_axis.tready | held | ~running)


def frame_queue(lossy: bool, drop_bad: bool, h: Harness) -> None:
    """Make claims about a small queue."""
    dut = FrameQueue(2, depth=DEPTH, frames=FRAMES, word_width=NUMBER, drop_bad=drop_bad, lossy=lossy)
    inside = h.add(dut)
    m, sink = h.m, dut.m_axis
    mine = Followed(h)
    coming = Inputs(h, dut, inside, mine)
    running = h.running(1)
    drops(h, dut, inside, coming, running)
    m.d.comb += sink.tready.eq(h.anything(1, "tready"))

    # What comes out: `came` frames, and of the next one `place` beats.
    took = sink.tvalid & sink.tready
    place, came = Signal(INDEX), Signal(NUMBER)
    with m.If(took):
        m.d.sync += [place.eq(Mux(sink.tlast, 0, place + 1)), came.eq(came + sink.tlast)]
    beat = Beat(Cat(sink.tdata, ~sink.tkeep[1], sink.tlast, sink.tuser))
    here = sink.tvalid & (came == mine.number)
    h.claim("a frame that has begun comes without a gap", (place == 0) | sink.tvalid)
    h.claim("its beats come in order", ~sink.tvalid | (beat.index == place))
    h.claim("frames come in order, and all that were not dropped", ~sink.tvalid | (beat.number == came))
    h.claim("they were whole before", ~sink.tvalid | (came != coming.number))
    h.claim("its word is that of the frame", ~sink.tvalid | (dut.word == came))
    h.claim("its length is known from the first beat on", ~here | (dut.length == mine.length))
    h.claim(
        "its last beat has its last bytes and its mark",
        ~here
        | (
            (sink.tlast == (place == mine.end))
            & (sink.tkeep == Mux(sink.tlast & mine.half, 1, 3))
            & (sink.tuser == (sink.tlast & mine.bad))
        ),
    )
    h.claim(
        "its bytes are those that came", ~here | (place != mine.place) | (mine.of(beat.others) == mine.bit)
    )
    waits, was = Signal(), Signal(17 + 4 + 16 + 2 + 2)
    payload = Cat(dut.length, dut.word, sink.tdata, sink.tkeep, sink.tuser, sink.tlast)
    m.d.sync += [waits.eq(sink.tvalid & ~sink.tready), was.eq(payload)]
    h.claim("what is offered stays until it is taken", ~waits | (sink.tvalid & (payload == was)))
    progress(h, dut, inside, coming.number != came, running)

    # Behind the fall of `room` come what is on its way from the RAM, and one length.
    for queue, depth, coming_in, most in (
        ("beats.", BEATS, inside["arriving"][0] + inside["arriving"][1], 2),
        ("lengths.", FRAMES, inside["lengths.i.valid"], 1),
    ):
        late = claim_level(h, inside, queue, depth, 4, inside[f"{queue}i.valid"])
        text = f"pushes after room has fallen are few ({queue[:-1]})"
        h.invariant(text, inside[f"{queue}room"] | (late + coming_in <= most))
    tags = contents(h, inside, mine, coming, Cat(place, came), lossy)
    no_gap(h, inside, *tags)
    notes(h, inside, mine, coming, came)

    h.cover("a frame of three beats after another", here & sink.tlast & (place == 2) & (came == 1))
    h.cover("a dropped frame", dut.dropped)


_QUEUE = "attach.frame_queue"
PROOFS = tuple(
    Proof(f"frame_queue, {name}", partial(frame_queue, lossy, drop_bad), 1, (
        Fault(_QUEUE, "Mux(ending == 0, self.data_bytes, ending)", "ending"),
        Fault(_QUEUE, "lengths, read, whole)", "lengths, read, write)"),
        Fault(_QUEUE, *change),
    ), cover_depth=14, refute_depth=14, apart=True)
    for name, lossy, drop_bad, change in (
        ("lossless", False, False, ("stuck = full & (whole == read)", "stuck = full")),
        ("lossless, without bad frames", False, True, ("if self.drop_bad else 0", "if self.lossy else 0")),
        ("lossy, without bad frames", True, True, ("m.If(skip | drop)", "m.If(skip)")),
    )
)  # fmt: skip
