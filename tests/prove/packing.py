# SPDX-License-Identifier: BSD-2-Clause
"""The Alignment Unit: one byte of all beats, at any place, against a model of that byte alone."""

from collections.abc import Callable
from functools import partial

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof

from inceptionn.hdl.codec.alignment_unit import AlignmentUnit
from inceptionn.hdl.parts.width import Width


def byte_of(value: Value, place: Value) -> Value:
    """Return the byte at ``place``."""
    return value.word_select(place, 8)


class Delayed:
    """Values as they were some cycles ago; a reset clears all."""

    def __init__(self, h: Harness, values: dict[str, Value], most: int):
        self.lines = {name: [value] for name, value in values.items()}
        for name, line in self.lines.items():
            for cycles in range(1, most + 1):
                line.append(Signal.like(line[0], name=f"{name}_before_{cycles}"))
                h.m.d.sync += line[-1].eq(line[-2])

    def __call__(self, name: str, cycles: int) -> Value:
        return self.lines[name][cycles]


def parts(was: Delayed, cycles: int, place: Value) -> tuple[Value, Value]:
    """Return the byte at ``place`` that a vector gave to the current beat, and to the one that follows."""
    split, given = place >= was("fill", cycles), was("given", cycles)
    return Mux(split, given, 0), Mux(split, 0, given)


def alignment_unit(lanes: int, h: Harness) -> None:
    """Any blocks of any vectors; beats and ends are a line, of which one leaves in each cycle."""
    width = Width(lanes)
    dut = AlignmentUnit(width)
    inside = h.add(dut)
    m, beat_bytes, bits, split = h.m, width.bytes, width.place_bits, dut.latency - 1
    valid, last = h.anything(1, "valid"), h.anything(1, "last")
    size, data = h.anything(range(beat_bytes + 1), "size"), h.anything(width.bits, "data")
    vector = dut.vectors.payload
    m.d.comb += [
        dut.vectors.valid.eq(valid),
        vector.size.eq(size),
        vector.last.eq(last),
        vector.data.eq(data),
    ]

    # What follows from the sizes: `fill` bytes lie in the block's current beat. A vector gives an item, a
    # beat or the end of a block or both, and the last one may give a second. `late`: one item waits.
    fill, total = Signal(bits), Signal(bits + 1)
    m.d.comb += total.eq(fill + size)
    whole, rest = total[bits], total[:bits].any()
    two, beat, end = Signal(), Signal(), Signal()
    m.d.comb += [
        two.eq(valid & last & whole & rest),
        beat.eq(valid & (whole | (last & rest))),
        end.eq(valid & last & ~two),
    ]
    late, late_beat, late_end = Signal(), Signal(), Signal()
    with m.If(valid):
        m.d.sync += fill.eq(Mux(last, 0, total[:bits]))
    m.d.sync += [late.eq(Mux(late, beat | end, two)), late_beat.eq(~late | beat), late_end.eq(~late | end)]
    if not width.payload_overlaps:
        h.assume("with 8 lanes the cycle after a vector that gives two beats is idle", ~(late & valid))

    # The byte at `place` that a vector gives to the current beat, or to the one that follows.
    place, given = h.any_constant(range(beat_bytes), "place"), Signal(8)
    index = Signal(bits)
    m.d.comb += [index.eq(place - fill), given.eq(byte_of(data, index))]
    h.assume(
        "a vector is zero above its size, and the data are zero without one",
        (valid & (index < size)) | (given == 0),
    )
    was = Delayed(h, {
        "alive": C(1, 1), "valid": valid, "beat": beat, "end": end, "two": two, "fill": fill, "late": late,
        "late_beat": late_beat, "late_end": late_end, "given": given,
    }, dut.latency)  # fmt: skip

    def item(kind: str, cycles: int) -> Value:
        """Whether a beat, or an end, left the line."""
        return Mux(was("late", cycles), was(f"late_{kind}", cycles), was(kind, cycles))

    # That byte of the current beat and of the late one, zero before a vector has given it.
    current, late_byte, out = Signal(8), Signal(8), Signal(8)
    own, following = parts(was, split, place)
    reached, waits, ends = current | own, was("late", split), was("end", split) | was("two", split)
    m.d.sync += [
        current.eq(Mux(ends, 0, Mux(was("beat", split), following, reached))),
        late_byte.eq(Mux(waits, reached, following)),
        out.eq(Mux(waits, late_byte, reached)),
    ]  # fmt: skip
    h.claim("at most one item is late", ~(late & two))
    h.claim("a beat leaves in its cycle, and none besides", dut.beats.valid == item("beat", dut.latency))
    h.claim("an end leaves in its cycle, and none besides", dut.done == item("end", dut.latency))
    h.claim(
        "any byte of a beat is that of its vector, and zero after the block's end",
        ~dut.beats.valid | (byte_of(dut.beats.payload, place) == out),
    )
    held = Mux(waits & was("late_beat", split), late_byte, current)
    h.invariant(
        "the pending beat is the late one, or the current one", byte_of(inside["pending"], place) == held
    )
    h.invariant("the current beat is zero above its level", (place < was("fill", split)) | (current == 0))
    invariants_of_items(h, inside, width, was, item, place)
    invariants_of_rotation(h, inside, width, was, place)

    over = was("late", dut.latency)
    h.cover("a byte of a second beat leaves", over & dut.beats.valid & (out == 0x5A) & (place == 3))
    h.cover("a block without a byte ends", dut.done & ~dut.beats.valid)
    if width.payload_overlaps:
        h.cover("a block's first beat is late", over & dut.beats.valid & ~dut.done)


def invariants_of_items(
    h: Harness, inside: Inside, width: Width, was: Delayed, item: Callable[[str, int], Value], place: Value
) -> None:
    """Claim what each stage of the pipeline holds, so that the induction takes one stage after the other."""
    split, overlaps = width.place_bits // 2 + 2, width.payload_overlaps
    h.invariant("the level is the bytes in the current beat", inside["level"] == was("fill", 0))
    for cycles in range(split + 1):
        h.invariant(
            "while an item is late, the current beat is empty",
            ~was("late", cycles) | ((was("fill", cycles) == 0) & (overlaps | ~was("valid", cycles))),
        )
        h.invariant(
            "no item without a vector, and none from before a reset",
            (was("valid", cycles) | ~(was("beat", cycles) | was("end", cycles)))
            & (was("valid", cycles) | (was("given", cycles) == 0))
            & (was("alive", cycles) | ~(was("valid", cycles) | was("late", cycles)))
            & (~was("two", cycles) | (was("beat", cycles) & ~was("end", cycles))),
        )
        if cycles < split:
            ago, then = cycles, cycles + 1
            queued = was("late", then)
            h.invariant(
                "what is late is the second item, or what came while one was late",
                (was("late", ago) == Mux(queued, was("beat", then) | was("end", then), was("two", then)))
                & (~was("late", ago) | (was("late_beat", ago) == (~queued | was("beat", then))))
                & (~was("late", ago) | (was("late_end", ago) == (~queued | was("end", then)))),
            )
            ends = was("end", then) | was("two", then)
            own, following = parts(was, then, place)
            below, kept = place < was("fill", ago), was("fill", ago) >= was("fill", then)
            h.invariant(
                "bytes are below the level that follows, or in a beat that ends",
                Mux(
                    ends,
                    (was("fill", ago) == 0)
                    & (~was("end", then) | (following == 0))
                    & (was("beat", then) | ((was("given", then) == 0) & (was("fill", then) == 0))),
                    (below | (following == 0))
                    & (was("beat", then) | (kept & (following == 0) & (below | (own == 0)))),
                ),
            )
        if cycles == 0:
            if not overlaps:
                h.invariant("the unit remembers a second beat", inside["over"] == was("late", 0))
            continue
        moves = was("valid", cycles) | (C(0) if overlaps else was("late", cycles))
        kind = was if overlaps else item
        h.invariant(
            "the stages keep beats, ends, and what moves the current beat",
            (inside[f"stages.emit_{cycles}"] == kind("beat", cycles))
            & (inside[f"stages.done_{cycles}"] == kind("end", cycles))
            & (inside[f"stages.moves_{cycles}"] == moves),
        )
        if overlaps:
            h.invariant("the stages keep second beats", inside[f"stages.over_{cycles}"] == was("two", cycles))


def invariants_of_rotation(h: Harness, inside: Inside, width: Width, was: Delayed, place: Value) -> None:
    """Where each stage has the byte that its vector gives to ``place``."""
    digits = width.place_bits // 2
    split, overlaps = digits + 2, width.payload_overlaps
    for cycles in range(1, digits + 2):
        amount = was("fill", cycles)
        done = min(2 * (cycles - 1), width.place_bits)
        left = Cat(C(0, done), amount[done:]) if done < width.place_bits else C(0, width.place_bits)
        at = (place - left)[: width.place_bits]
        h.invariant(
            "a stage's rotated vector has the byte where the rest of the rotation puts it",
            ~was("alive", cycles) | (byte_of(inside[f"stages.rotated_{cycles}"], at) == was("given", cycles)),
        )
        if cycles <= digits:
            h.invariant(
                "a stage keeps its rotation",
                ~was("alive", cycles) | (inside[f"stages.rotation_{cycles}"] == amount),
            )
    amount, alive = was("fill", digits + 1), was("alive", digits + 1)
    h.invariant(
        "the byte at or above the level belongs to the current beat",
        ~alive | (inside[f"stages.current_{digits + 1}"].bit_select(place, 1) == (place >= amount)),
    )
    if not overlaps:
        rest = inside[f"stages.rest_{digits + 1}"]
        h.invariant("a last digit is left", ~alive | (rest == amount[2 * digits :]))
    own, following = parts(was, split, place)
    h.invariant(
        "the split gives the byte to the current beat or to the next",
        ~was("alive", split)
        | (byte_of(inside[f"stages.current_{split}"], place) == own)
        & (byte_of(inside[f"stages.following_{split}"], place) == following),
    )
    if overlaps:
        late = was("late", split)
        h.invariant(
            "the unit owes the item that is late",
            (inside["owed"] == late)
            & (~late | (inside["owed_emit"] == was("late_beat", split)))
            & (~late | (inside["owed_done"] == was("late_end", split))),
        )


_UNIT = "codec.alignment_unit"
PROOFS = tuple(
    Proof(f"alignment_unit, {lanes} lanes", partial(alignment_unit, lanes),
          2, (
        Fault(_UNIT, "p.following, pending | p.current)" if lanes == 8 else "p.following, kept | p.current)",
              "p.current, pending | p.current)" if lanes == 8 else "p.current, kept | p.current)"),
        Fault(_UNIT, "emits = valid & (full | (vector.last & rest))",
              "emits = valid & (full | vector.last)"),
    ), cover_depth=12, refute_depth=10)
    for lanes in (8, 16)
)  # fmt: skip
