# SPDX-License-Identifier: BSD-2-Clause
"""Joins, shifter tree, rotation, and the units of all lanes; a claim is about any one byte or lane."""

from functools import partial

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Proof
from paper_codec import compressed, free_parameters, restored
from planes_codec import any_e0

from inceptionn.hdl.codec.paper.compression_block import CompressionBlock
from inceptionn.hdl.codec.paper.compression_unit import CompressionUnit
from inceptionn.hdl.codec.paper.decompression_unit import DecompressionUnit
from inceptionn.hdl.codec.paper.shifter_tree import ShifterTree
from inceptionn.hdl.codec.planes.dequantisation_unit import DequantisationUnit
from inceptionn.hdl.codec.planes.plane_unit import PlaneUnit
from inceptionn.hdl.parts.beat import Beat
from inceptionn.hdl.parts.joining import join_parts
from inceptionn.hdl.parts.pipeline import Pipeline
from inceptionn.hdl.parts.rotation import rotate_in_stages, rotate_left_bytes

WIDTHS = (8, 16)
JOINS = {4: 1, 8: 2, 16: 3, 32: 3}
"""Most bytes of a join's parts, and its stages."""


def size_of(tag: Value) -> Value:
    """Bytes of a vector (wire format, section 1)."""
    return Mux(tag == 3, 4, Mux(tag == 2, 2, Mux(tag == 1, 1, 0)))


def byte_of(value: Value, place: Value) -> Value:
    """Return a byte of ``value``, 0 beyond its end."""
    return (value >> (place << 3))[:8]


def join(part_bytes: int, stages: int, h: Harness) -> None:
    """Make claims about a join of the shifter tree or of two groups: parts of up to ``part_bytes``."""
    low, high = (h.anything(8 * part_bytes, name) for name in ("low", "high"))
    sizes = [h.anything(range(part_bytes + 1), name) for name in ("low_size", "high_size")]
    for part, size in zip((low, high), sizes, strict=True):
        h.assume(
            "a part has at most its bytes, and is zero above its size",
            (size <= part_bytes) & ((part >> (size << 3)) == 0),
        )
    if part_bytes == 4:
        h.assume("a vector has 0, 1, 2 or 4 bytes", (sizes[0] != 3) & (sizes[1] != 3))
    joined, total = join_parts(h.m, "join_", (low, high), sizes, stages)
    place = h.any_constant(range(2 * part_bytes), "place")
    late_low, late_high, low_size, high_size = (h.past(value, stages) for value in (low, high, *sizes))
    wanted = Mux(place < low_size, byte_of(late_low, place), byte_of(late_high, (place - low_size)[:7]))
    settled = h.running(stages)
    h.claim(
        "each byte is the lower part's, then the upper part's, then zero",
        ~settled | (byte_of(joined, place) == wanted),
    )
    h.claim("the size is the sum of both", ~settled | (total == low_size + high_size))
    h.cover("both parts full", settled & (low_size == part_bytes) & (high_size == part_bytes) & (place == 1))


def shifter_tree(lanes: int, h: Harness) -> None:
    """Claim what each join of the tree reads, and where the last output goes.

    A join has proofs of its own.
    """
    dut = ShifterTree(Beat(lanes))
    inside = h.add(dut)
    tags, vectors = h.anything(2 * lanes, "tags"), h.anything(32 * lanes, "vectors")
    h.m.d.comb += [dut.tags.eq(tags), dut.vectors.eq(vectors)]
    parts = [vectors.word_select(lane, 32) for lane in range(lanes)]
    sizes = [size_of(tags.word_select(lane, 2)) for lane in range(lanes)]
    level = latency = 0
    while len(parts) > 1:
        stages, joins = JOINS[len(parts[0]) // 8], range(len(parts) // 2)
        latency += stages
        for pair in joins:
            names = ("low", "high", "rest", "total")
            low, high, size, total = (inside[f"level{level}_{pair}_{name}_0"] for name in names)
            h.claim(
                "each join reads two neighbours of the level below",
                (low == parts[2 * pair]) & (high == parts[2 * pair + 1]),
            )
            h.claim(
                "each join reads their sizes",
                (size == sizes[2 * pair]) & (total == sizes[2 * pair] + sizes[2 * pair + 1]),
            )
        parts, sizes = (
            [inside[f"level{level}_{pair}_{name}_{stages}"] for pair in joins] for name in ("joined", "total")
        )
        level += 1
    h.claim("the outputs are those of the last join", (dut.aligned == parts[0]) & (dut.size == sizes[0]))
    h.cover("all lanes full", h.running(latency) & (dut.size == 4 * lanes) & dut.aligned.any())


def compression_unit(lanes: int, h: Harness) -> None:
    e0, t, b = free_parameters(h)
    dut = CompressionUnit(Beat(lanes))
    inside = h.add(dut)
    burst, present = h.anything(32 * lanes, "burst"), h.anything(lanes, "present")
    h.m.d.comb += [dut.burst.eq(burst), dut.present.eq(present), dut.e0.eq(e0), dut.t.eq(t), dut.b.eq(b)]
    lane, latency = h.any_constant(range(lanes), "number"), CompressionBlock.LATENCY
    here = h.past(present.bit_select(lane, 1), latency)
    tag, vector = compressed(h.past(burst.word_select(lane, 32), latency), e0, t, b)
    tag, vector = Mux(here, tag, 0), Mux(here, vector, 0)
    settled, later = h.running(latency), h.running(dut.latency)
    tags, vectors = Value.cast(inside["tree.tags"]), Value.cast(inside["tree.vectors"])
    h.claim(
        "any lane's tag at the tree is that of Algorithm 2", ~settled | (tags.word_select(lane, 2) == tag)
    )
    h.claim(
        "any lane's vector at the tree is that of Algorithm 2",
        ~settled | (vectors.word_select(lane, 32) == vector),
    )
    h.claim(
        "the tags leave with their vectors",
        ~later | (dut.tags.word_select(lane, 2) == h.past(tags.word_select(lane, 2), dut.latency - latency)),
    )
    h.cover("a short vector of the last lane", later & (lane == lanes - 1) & (tag == 1) & vector[:7].any())


def decompression_unit(lanes: int, h: Harness) -> None:
    dut = DecompressionUnit(Beat(lanes))
    h.add(dut)
    tags, vectors = h.anything(2 * lanes, "tags"), h.anything(32 * lanes, "vectors")
    base = h.anything(8, "base")
    h.m.d.comb += [dut.tags.eq(tags), dut.vectors.eq(vectors), dut.base.eq(base)]
    lane, settled = h.any_constant(range(lanes), "lane"), h.running(dut.LATENCY)
    own = (tags.word_select(lane, 2), vectors.word_select(lane, 32), base)
    value, impossible = restored(*(h.past(part, dut.LATENCY) for part in own))
    h.claim(
        "any lane of the burst is that of Algorithm 3",
        ~settled | impossible | (dut.burst.word_select(lane, 32) == value),
    )
    h.claim(
        "a lane is impossible if and only if its exponent falls below 1",
        ~settled | (dut.impossible.bit_select(lane, 1) == impossible),
    )
    h.cover("the last lane restored", settled & (lane == lanes - 1) & ~impossible & (value[23:31] == 9))


def plane_unit(lanes: int, h: Harness) -> None:
    """From the lanes' integers on, which the quantiser's own proof covers."""
    e0, dut = any_e0(h), PlaneUnit(Beat(lanes))
    inside = h.add(dut)
    burst, present = h.anything(32 * lanes, "burst"), h.anything(lanes, "present")
    h.m.d.comb += [dut.burst.eq(burst), dut.present.eq(present), dut.e0.eq(e0)]
    settled = h.running(3)
    lane, plane = h.any_constant(range(8), "lane"), h.any_constant(range(15), "plane")
    for group in range(lanes // 8):
        prefix = f"group{group}_" if lanes > 8 else ""
        every, raw = C(0, 15), C(0, 1)
        integers = [inside[f"lane{i}.z"] for i in range(8 * group, 8 * group + 8)]
        raws = [inside[f"lane{i}.raw"] for i in range(8 * group, 8 * group + 8)]
        for one, whole in zip(integers, raws, strict=True):
            every, raw = every | one, raw | whole
        code = C(0, 4)
        for place in range(15):
            code = Mux(every[place], min(place + 1, 14), code)
        code = h.past(Mux(raw, 15, code), 3)
        size = Mux(code == 15, 32, Mux(code == 14, 15, code))
        vector = inside[f"{prefix}vector_3"]
        h.claim(
            "the code of each group is its number of planes, 14 for 15 planes, 15 for a raw lane",
            ~settled | (inside[f"{prefix}code_3"] == code),
        )
        h.claim("the size follows from the code", ~settled | (inside[f"{prefix}size_3"] == size))
        own = h.past(Cat(integers).word_select(lane, 15).bit_select(plane, 1), 3)
        h.claim(
            "any bit plane of each group is the bits of its lanes' integers, and zero above its size",
            ~settled | (code == 15) | (vector.word_select(plane, 8).bit_select(lane, 1) == own),
        )
        h.claim("nothing follows the planes", ~settled | (code == 15) | ((vector >> (size << 3)) == 0))
        words = Cat(inside[f"lane{i}.lossy"] for i in range(8 * group, 8 * group + 8)).word_select(lane, 32)
        h.claim(
            "a raw group is its lanes' lossy words",
            ~settled | (code != 15) | (vector.word_select(lane, 32) == h.past(words, 2)),
        )
        h.cover(f"15 planes in group {group}", settled & (code == 14) & own & (plane == 14))
        h.cover(f"group {group} raw", settled & (code == 15))


def dequantisation_unit(lanes: int, h: Harness) -> None:
    """Claim what each lane's block reads and where its value goes; the block has a proof of its own."""
    e0, dut = any_e0(h), DequantisationUnit(Beat(lanes))
    inside = h.add(dut)
    codes, data = h.anything(4 * (lanes // 8), "codes"), h.anything(32 * lanes, "data")
    absent = h.anything(lanes, "absent")
    h.m.d.comb += [dut.codes.eq(codes), dut.data.eq(data), dut.absent.eq(absent), dut.base.eq(e0)]
    plane = h.any_constant(range(15), "plane")
    for lane in range(lanes):
        group = data.word_select(lane // 8, 256)
        read = {
            name: inside[f"lane_{lane}.{name}"] for name in ("z", "word", "is_raw", "absent", "e0", "value")
        }
        h.claim(
            "each lane reads its bit of every plane",
            read["z"].bit_select(plane, 1) == group.word_select(plane, 8)[lane % 8],
        )
        h.claim("each lane reads its raw word", read["word"] == group.word_select(lane % 8, 32))
        h.claim(
            "each lane reads its group's code and parameters",
            (read["is_raw"] == codes.word_select(lane // 8, 4).all())
            & (read["absent"] == absent[lane])
            & (read["e0"] == e0),
        )
        h.claim(
            "each lane's value is its word of the burst", dut.burst.word_select(lane, 32) == read["value"]
        )
    h.cover("a raw group", (codes == 15) if lanes == 8 else (codes == 0xF3))


def rotation(data_bytes: int, unit: int, stages: int, h: Harness) -> None:
    """``rotate_in_stages`` and the caller's rotation by the rest."""
    units = data_bytes // unit
    value, by = h.anything(8 * data_bytes, "value"), h.anything(range(units), "by")
    p = Pipeline(h.m, "rotation_")
    p.let(rotated=value, rotation=by)
    rotate_in_stages(p, unit, stages)
    result = Signal.like(value)
    h.m.d.comb += result.eq(rotate_left_bytes(p.rotated, p.rest, unit << 2 * stages))
    place = h.any_constant(range(data_bytes), "place")
    late, amount = h.past(value, stages), h.past(by, stages)
    source = (place - unit * amount)[: len(place)]
    settled = h.running(stages)
    h.claim(
        "any byte moves up by the rotation, around the end",
        ~settled | (result.word_select(place, 8) == late.word_select(source, 8)),
    )
    number = (place >> unit.bit_length() - 1)[: len(by)]
    h.claim(
        "current marks the units at or above the rotation",
        ~settled | (p.current.bit_select(number, 1) == (number >= amount)),
    )
    h.cover("the longest rotation", settled & (amount == units - 1) & (place == 2) & (result != late))


_JOINING = "parts.joining"
PROOFS = (
    *(
        Proof(f"shifter_tree, join of {size} bytes", partial(join, size, stages), stages + 2, (
            Fault(_JOINING, "total=sizes[0] + sizes[1]", "total=sizes[0] | sizes[1]"),
            Fault(_JOINING, "p.low | shift_left_bytes(p.high", "p.low ^ shift_left_bytes(p.low"),
        ))
        for size, stages in JOINS.items()
    ),
    *(
        Proof(f"shifter_tree, {lanes} lanes", partial(shifter_tree, lanes),
              ShifterTree.latency_of(Beat(lanes)) + 2, (
            Fault("codec.paper.shifter_tree", "tag == TAG_BYTES.index(2)", "tag >= TAG_BYTES.index(2)"),
        ))
        for lanes in WIDTHS
    ),
    *(
        Proof(f"compression_unit, {lanes} lanes", partial(compression_unit, lanes),
              CompressionUnit.latency_of(Beat(lanes)) + 2, (
            Fault("codec.paper.compression_unit", "tree.tags[i].eq", "tree.tags[i ^ (i > 4)].eq"),
        ))
        for lanes in WIDTHS
    ),
    *(
        Proof(f"decompression_unit, {lanes} lanes", partial(decompression_unit, lanes),
              DecompressionUnit.LATENCY + 2, (
            Fault("codec.paper.decompression_unit", "tags.word_select(lane,", "tags.word_select(lane ^ 4,"),
        ))
        for lanes in WIDTHS
    ),
    *(
        Proof(f"plane_unit, {lanes} lanes", partial(plane_unit, lanes),
              PlaneUnit.latency_of(Beat(lanes)) + 2, (
            Fault("codec.planes.plane_unit", "min(plane + 1, _MOST_PLANES)", "min(plane + 1, 13)"),
        ))
        for lanes in WIDTHS
    ),
    *(
        Proof(f"dequantisation_unit, {lanes} lanes", partial(dequantisation_unit, lanes),
              DequantisationUnit.LATENCY + 2, (
            Fault("codec.planes.dequantisation_unit", "8 * plane + place]", "8 * plane + (place ^ 1)]"),
        ))
        for lanes in WIDTHS
    ),
    *(
        Proof(f"rotation, {data_bytes} bytes by {unit}", partial(rotation, data_bytes, unit, stages),
              stages + 2, (
            Fault("parts.rotation", "unit << 2 * stage)", "unit << stage)"),
            Fault("parts.rotation", "p.rotation <= i", "p.rotation < i"),
        ))
        for data_bytes, unit, stages in ((32, 2, 2), (64, 2, 2))
    ),
)  # fmt: skip
