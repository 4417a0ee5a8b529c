# SPDX-License-Identifier: BSD-2-Clause
"""Joins, shifter tree, rotation, and the units of all lanes; a claim is about any one byte or lane."""

from functools import partial

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof
from paper_codec import compressed, free_parameters, restored
from planes_codec import LATEST, any_e0

from inceptionn.hdl.codec.paper.compression_block import CompressionBlock
from inceptionn.hdl.codec.paper.compression_unit import CompressionUnit
from inceptionn.hdl.codec.paper.decompression_unit import DecompressionUnit
from inceptionn.hdl.codec.paper.shifter_tree import ShifterTree
from inceptionn.hdl.codec.planes.dequantisation_unit import DequantisationUnit
from inceptionn.hdl.codec.planes.lane_quantiser import LaneQuantiser
from inceptionn.hdl.codec.planes.plane_unit import PlaneUnit
from inceptionn.hdl.parts.joining import join_parts
from inceptionn.hdl.parts.pipeline import Pipeline
from inceptionn.hdl.parts.rotation import rotate_in_stages, rotate_left_bytes
from inceptionn.hdl.parts.width import Width

WIDTHS = (8, 16)
_READ = ("lane", "present", "e0", "t", "b")
"""What a compression block reads."""
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
    joined, total, _ = join_parts(h.m, "join_", (low, high), sizes, stages)
    place = h.any_constant(range(2 * part_bytes), "place")
    late_low, late_high, low_size, high_size = (h.past(value, stages) for value in (low, high, *sizes))
    wanted = Mux(place < low_size, byte_of(late_low, place), byte_of(late_high, (place - low_size)[:7]))
    running = h.running(stages)
    h.claim(
        "each byte is the lower part's, then the upper part's, then zero",
        ~running | (byte_of(joined, place) == wanted),
    )
    h.claim("the size is the sum of both", ~running | (total == low_size + high_size))
    h.cover("both parts full", running & (low_size == part_bytes) & (high_size == part_bytes) & (place == 1))


def shifter_tree(lanes: int, h: Harness) -> None:
    """Claim what each join of the tree reads, and where the last output goes.

    A join has proofs of its own.
    """
    dut = ShifterTree(Width(lanes))
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
            low, high, size, total = (inside[f"levels.{level}.{pair}.{name}_0"] for name in names)
            h.claim(
                "each join reads two neighbours of the level below",
                (low == parts[2 * pair]) & (high == parts[2 * pair + 1]),
            )
            h.claim(
                "each join reads their sizes",
                (size == sizes[2 * pair]) & (total == sizes[2 * pair] + sizes[2 * pair + 1]),
            )
        parts, sizes = (
            [inside[f"levels.{level}.{pair}.{name}_{stages}"] for pair in joins]
            for name in ("joined", "total")
        )
        level += 1
    h.claim("the outputs are those of the last join", (dut.aligned == parts[0]) & (dut.size == sizes[0]))
    h.cover("all lanes full", h.running(latency) & (dut.size == 4 * lanes) & dut.aligned.any())


def compression_unit(lanes: int, h: Harness) -> None:
    e0, t, b = free_parameters(h)
    dut = CompressionUnit(Width(lanes))
    inside = h.add(dut)
    burst, present = h.anything(32 * lanes, "burst"), h.anything(lanes, "present")
    h.m.d.comb += [dut.burst.eq(burst), dut.present.eq(present), dut.e0.eq(e0), dut.t.eq(t), dut.b.eq(b)]
    lane, latency = h.any_constant(range(lanes), "number"), CompressionBlock.LATENCY
    here = h.past(present.bit_select(lane, 1), latency)
    tag, vector = compressed(h.past(burst.word_select(lane, 32), latency), e0, t, b)
    tag, vector = Mux(here, tag, 0), Mux(here, vector, 0)
    running, later = h.running(latency), h.running(dut.latency)
    tags, vectors = Value.cast(inside["tree.tags"]), Value.cast(inside["tree.vectors"])
    h.claim(
        "any lane's tag at the tree is that of Algorithm 2", ~running | (tags.word_select(lane, 2) == tag)
    )
    h.claim(
        "any lane's vector at the tree is that of Algorithm 2",
        ~running | (vectors.word_select(lane, 32) == vector),
    )
    blocks = [{name: inside[f"blocks.{i}.{name}"] for name in (*_READ, "cleared")} for i in range(lanes)]
    for i, block in enumerate(blocks):
        h.claim(
            "each block reads its own lane, and the parameters",
            (block["lane"] == burst.word_select(i, 32))
            & (block["present"] == present[i])
            & (Cat(block[name] for name in ("e0", "t", "b")) == Cat(e0, t, b)),
        )
    # One bit of each lane, the same: a choice from all bits is dearer.
    bit = h.any_constant(range(32), "bit")
    cleared = Cat(block["cleared"].bit_select(bit, 1) for block in blocks)
    left = Cat(dut.cleared.word_select(i, 32).bit_select(bit, 1) for i in range(lanes))
    h.claim(
        "any bit that a block clears leaves with the vectors",
        ~later | (left == h.past(cleared, dut.latency - latency)),
    )
    h.claim(
        "the vector and its size are the tree's",
        (dut.aligned == inside["tree.aligned"]) & (dut.size == inside["tree.size"]),
    )
    h.claim(
        "the tags leave with their vectors",
        ~later | (dut.tags.word_select(lane, 2) == h.past(tags.word_select(lane, 2), dut.latency - latency)),
    )
    h.cover("a short vector of the last lane", later & (lane == lanes - 1) & (tag == 1) & vector[:7].any())


def decompression_unit(lanes: int, h: Harness) -> None:
    dut = DecompressionUnit(Width(lanes))
    h.add(dut)
    tags, vectors = h.anything(2 * lanes, "tags"), h.anything(32 * lanes, "vectors")
    base = h.anything(8, "base")
    h.m.d.comb += [dut.tags.eq(tags), dut.vectors.eq(vectors), dut.base.eq(base)]
    lane, running = h.any_constant(range(lanes), "lane"), h.running(dut.LATENCY)
    own = (tags.word_select(lane, 2), vectors.word_select(lane, 32), base)
    value, impossible = restored(*(h.past(part, dut.LATENCY) for part in own))
    h.claim(
        "any lane of the burst is that of Algorithm 3",
        ~running | impossible | (dut.burst.word_select(lane, 32) == value),
    )
    h.claim(
        "a lane is impossible if and only if its exponent falls below 1",
        ~running | (dut.impossible.bit_select(lane, 1) == impossible),
    )
    h.cover("the last lane restored", running & (lane == lanes - 1) & ~impossible & (value[23:31] == 9))


def plane_unit(lanes: int, bf16: bool, h: Harness) -> None:
    """From the lanes' integers on, which the quantiser's own proof covers."""
    e0, dut = any_e0(h), PlaneUnit(Width(lanes, bf16=bf16))
    inside = h.add(dut)
    burst, present = h.anything(32 * lanes, "burst"), h.anything(lanes, "present")
    is_bf16 = h.anything(1, "is_bf16") if bf16 else C(0, 1)
    h.m.d.comb += [dut.burst.eq(burst), dut.present.eq(present), dut.e0.eq(Cat(e0[:7], is_bf16))]
    quantisers(h, dut, inside, (burst, present, e0, is_bf16))
    # In step with the quantisers' integers.
    late_bf16 = h.past(is_bf16, LaneQuantiser.LATENCY)
    groups = []
    for group in range(lanes // 8):
        prefix = f"group{group}_" if lanes > 8 else ""
        plane_group(h, inside, group, prefix, late_bf16 if bf16 else None)
        groups.append({name: inside[f"groups.{group}.{name}_3"] for name in ("code", "size", "vector")})
    if lanes == 8:
        (one,) = groups
        h.claim(
            "codes, size and data that leave are the group's",
            (dut.codes == one["code"]) & (dut.size == one["size"]) & (dut.aligned == one["vector"]),
        )
        return
    # The join has a proof of its own.
    lower, upper = groups
    read = {name: inside[f"join.{name}_0"] for name in ("low", "high", "rest", "total")}
    h.claim(
        "the join reads the lower group, then the upper",
        (read["low"] == lower["vector"]) & (read["high"] == upper["vector"]),
    )
    h.claim(
        "the join reads their sizes",
        (read["rest"] == lower["size"]) & (read["total"] == lower["size"] + upper["size"]),
    )
    stages = JOINS[32]
    h.claim(
        "size and data that leave are the join's",
        (dut.size == inside[f"join.total_{stages}"]) & (dut.aligned == inside[f"join.joined_{stages}"]),
    )
    codes = h.past(Cat(lower["code"], upper["code"]), stages)
    h.claim("the codes leave with them, the lower group's first", ~h.running(stages) | (dut.codes == codes))


def quantisers(h: Harness, dut: PlaneUnit, inside: Inside, given: tuple[Value, Value, Value, Value]) -> None:
    """Claim what each quantiser of a plane unit reads, and where what it gained goes."""
    burst, present, e0, is_bf16 = given
    lanes, latency = len(present), LaneQuantiser.LATENCY
    running, late_bf16 = h.running(latency), h.past(is_bf16, latency)
    for i in range(lanes):
        own, word = f"lanes.{i}.", burst.word_select(i, 32)
        gained, carry = inside[f"{own}stages.gained_{latency}"], inside[f"{own}carry"]
        h.claim(
            "each quantiser reads its own lane and E0 (bf16: the odd lane, above zeros)",
            (inside[f"{own}lane"] == Mux(is_bf16, Cat(C(0, 16), word[16:]), word))
            & (inside[f"{own}present"] == present[i])
            & (inside[f"{own}e0"] == e0),
        )
        h.claim("each lane's carry is its quantiser's", dut.carries[i] == carry)
        if dut.width.bf16:
            even = f"narrow.{i}."
            h.claim(
                "each narrow quantiser reads its even bf16 lane and E0; fp32 lanes are absent to it",
                (inside[f"{even}lane"] == word[:16])
                & (inside[f"{even}present"] == (is_bf16 & present[i]))
                & (inside[f"{even}e0"] == e0),
            )
            h.claim(
                "each even lane's carry is its quantiser's",
                dut.carries[lanes + i] == inside[f"{even}carry"],
            )
            h.claim(
                "an odd bf16 lane gains 0 or -0 in the lower half, which does not leave",
                ~running | ~late_bf16 | gained[:16].all() | ~gained[:16].any(),
            )
            narrow = inside[f"{even}stages.gained_{latency}"]
            gained = Cat(Mux(late_bf16, narrow, gained[:16]), gained[16:])
        h.claim(
            "each lane gains what its quantiser says",
            ~running | (dut.gained.word_select(i, 32) == gained),
        )


def plane_group(h: Harness, inside: Inside, group: int, prefix: str, late_bf16: Value | None) -> None:
    """Claim code, size and data of a group, from the integers of its lanes.

    ``late_bf16``: the lanes are bf16, in step with the integers; None in a unit without them.
    """
    lane, plane = h.any_constant(range(8), f"{prefix}lane"), h.any_constant(range(15), f"{prefix}plane")
    odd = h.any_constant(1, f"{prefix}odd")

    def every(name: str, kind: str = "lanes") -> list[Value]:
        return [inside[f"{kind}.{i}.{name}"] for i in range(8 * group, 8 * group + 8)]

    def of_lane(values: list[Value]) -> Value:
        return Cat(values).word_select(lane, len(values[0]))

    integers, raws, words = every("z"), every("raw"), of_lane(every("lossy"))
    bit = of_lane(integers).bit_select(plane, 1)
    bf16 = C(0, 1)
    if late_bf16 is not None:
        # Even lanes are those of the narrow quantisers.
        even = [Mux(late_bf16, z, 0) for z in every("z", "narrow")]
        bit = Mux(late_bf16 & ~odd, of_lane(even).bit_select(plane, 1), bit)
        integers, bf16 = integers + even, h.past(late_bf16, 3)
        raws += [late_bf16 & raw for raw in every("raw", "narrow")]
        words = Cat(Mux(h.past(late_bf16), of_lane(every("lossy", "narrow")), words[:16]), words[16:])
    any_integer, any_raw = C(0, 15), C(0, 1)
    for z in integers:
        any_integer = any_integer | z
    for raw in raws:
        any_raw = any_raw | raw
    code = C(0, 4)
    for place in range(15):
        code = Mux(any_integer[place], min(place + 1, 14), code)
    code, running = h.past(Mux(any_raw, 15, code), 3), h.running(3 + (late_bf16 is not None) * LATEST)
    size = Mux(code == 15, 32, Mux(bf16, code << 1, Mux(code == 14, 15, code)))
    vector = inside[f"groups.{group}.vector_3"]
    h.claim(
        "the code of each group is its number of planes, 14 for 15 planes, 15 for a raw lane",
        ~running | (inside[f"groups.{group}.code_3"] == code),
    )
    h.claim("the size follows from the code", ~running | (inside[f"groups.{group}.size_3"] == size))
    bf16_bit = vector.word_select(plane, 16).bit_select(Cat(odd, lane), 1)
    mine = Mux(bf16, bf16_bit, vector.word_select(plane, 8).bit_select(lane, 1))
    beyond = bf16 & (plane == 14)
    h.claim(
        "any bit plane of each group is the bits of its lanes' integers",
        ~running | (code == 15) | beyond | (mine == h.past(bit, 3)),
    )
    h.claim("nothing follows the planes", ~running | (code == 15) | ((vector >> (size << 3)) == 0))
    h.claim(
        "a raw group is its lanes' lossy words",
        ~running | (code != 15) | (vector.word_select(lane, 32) == h.past(words, 2)),
    )
    name = prefix.rstrip("_") or "group0"
    h.cover(f"15 planes in {name}", running & ~bf16 & (code == 14) & mine & (plane == 14))
    h.cover(f"{name} raw", running & (code == 15))
    if late_bf16 is not None:
        h.cover(f"14 planes of bf16 in {name}", running & bf16 & (code == 14) & mine & ~odd & (plane == 13))


def dequantisation_unit(lanes: int, bf16: bool, h: Harness) -> None:
    """Claim what each lane's block reads and where its value goes; the block has a proof of its own."""
    e0, dut = any_e0(h), DequantisationUnit(Width(lanes, bf16=bf16))
    inside = h.add(dut)
    codes, data = h.anything(4 * (lanes // 8), "codes"), h.anything(32 * lanes, "data")
    absent = h.anything(lanes, "absent")
    is_bf16 = h.anything(1, "is_bf16") if bf16 else C(0, 1)
    base = Cat(e0[:7], is_bf16)
    h.m.d.comb += [dut.codes.eq(codes), dut.data.eq(data), dut.absent.eq(absent), dut.base.eq(base)]
    plane = h.any_constant(range(15), "plane")
    names = ("z", "word", "is_raw", "absent", "e0", "value", "impossible", *(["even"] if bf16 else []))
    for lane in range(lanes):
        group, place = data.word_select(lane // 8, 256), lane % 8
        read = {name: inside[f"lanes.{lane}.{name}"] for name in names}
        fp32_bit = group.word_select(plane, 8)[place]
        pair = group.word_select(plane, 16).word_select(place, 2)
        h.claim(
            "each lane reads its bit of every plane" + (", of bf16 pairs the odd lane's" if bf16 else ""),
            read["z"].bit_select(plane, 1) == Mux(is_bf16, (plane < 14) & pair[1], fp32_bit),
        )
        if bf16:
            h.claim(
                "each even bf16 lane reads its bit of every plane",
                ~is_bf16 | (plane == 14) | (read["even"].bit_select(plane, 1) == pair[0]),
            )
        h.claim("each lane reads its raw word", read["word"] == group.word_select(place, 32))
        h.claim(
            "each lane reads its group's code and parameters",
            (read["is_raw"] == codes.word_select(lane // 8, 4).all())
            & (read["absent"] == absent[lane])
            & (read["e0"] == base),
        )
        h.claim(
            "each lane's value is its word of the burst", dut.burst.word_select(lane, 32) == read["value"]
        )
        h.claim("each lane says whether it is impossible", dut.impossible[lane] == read["impossible"])
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
    running = h.running(stages)
    h.claim(
        "any byte moves up by the rotation, around the end",
        ~running | (result.word_select(place, 8) == late.word_select(source, 8)),
    )
    number = (place >> unit.bit_length() - 1)[: len(by)]
    h.claim(
        "current marks the units at or above the rotation",
        ~running | (p.current.bit_select(number, 1) == (number >= amount)),
    )
    h.cover("the longest rotation", running & (amount == units - 1) & (place == 2) & (result != late))


_JOINING, _PLANES, _BACK = "parts.joining", "codec.planes.plane_unit", "codec.planes.dequantisation_unit"


def _to(latency: int) -> dict[str, int]:
    """Let covers and faults have the cycles to the outputs. Induction needs fewer, and is cheaper so."""
    return {"cover_depth": latency + 2, "refute_depth": latency + 2}


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
              ShifterTree.latency_of(Width(lanes)) + 2, (
            Fault("codec.paper.shifter_tree", "tag == TAG_BYTES.index(2)", "tag >= TAG_BYTES.index(2)"),
        ))
        for lanes in WIDTHS
    ),
    *(
        Proof(f"compression_unit, {lanes} lanes", partial(compression_unit, lanes),
              ShifterTree.latency_of(Width(lanes)) + 1,
              tuple(Fault("codec.paper.compression_unit", old, new) for old, new in faults),
              **_to(CompressionUnit.latency_of(Width(lanes))))
        for lanes, faults in (
            # With 16 lanes, one that a short run shows.
            (8, (
                ("self.size.eq(tree.size)", "self.size.eq(0)"),
                ("cleared[i].eq(block.cleared)", "cleared[i].eq(~block.cleared)"),
            )),
            (16, (("tree.tags[i].eq", "tree.tags[i ^ (i > 4)].eq"),)),
        )
    ),
    *(
        Proof(f"decompression_unit, {lanes} lanes", partial(decompression_unit, lanes),
              DecompressionUnit.LATENCY + 2, (
            Fault("codec.paper.decompression_unit", "tags.word_select(lane,", "tags.word_select(lane ^ 4,"),
        ))
        for lanes in WIDTHS
    ),
    *(
        Proof(f"plane_unit, {lanes} lanes{', bf16' if bf16 else ''}", partial(plane_unit, lanes, bf16),
              LaneQuantiser.LATENCY + 3, faults, **_to(PlaneUnit.latency_of(Width(lanes))))
        for lanes, bf16, faults in (
            (8, False, (
                Fault(_PLANES, "min(plane + 1, _MOST_PLANES)", "min(plane + 1, 13)"),
                Fault(_PLANES, "self.aligned.eq(p.vector)", "self.aligned.eq(~p.vector)"),
                Fault(_PLANES, "self.carries[i].eq(block.carry)", "self.carries[i].eq(0)"),
            )),
            (16, False, (
                Fault(_PLANES, "(lower.vector, upper.vector)", "(upper.vector, lower.vector)"),
                Fault(_PLANES, "Cat(lower.code, upper.code)", "Cat(upper.code, lower.code)"),
            )),
            (8, True, (
                Fault(_PLANES, "gained[:16].eq(block.gained)", "gained[:16].eq(0)"),
                Fault(_PLANES, "zip(p.even, p.planes,", "zip(p.planes, p.even,"),
            )),
            (16, True, (Fault(_PLANES, "bf16 & self.present[i]", "self.present[i]"),)),
        )
    ),
    *(
        Proof(f"dequantisation_unit, {lanes} lanes{', bf16' if bf16 else ''}",
              partial(dequantisation_unit, lanes, bf16), DequantisationUnit.LATENCY + 2, faults)
        for lanes, bf16, faults in (
            (8, False, (
                Fault(_BACK, "8 * plane + place]", "8 * plane + (place ^ 1)]"),
                Fault(_BACK, "self.impossible[lane].eq(block.impossible)", "self.impossible[lane].eq(0)"),
            )),
            (16, False, (Fault(_BACK, "8 * plane + place]", "8 * plane + (place ^ 1)]"),)),
            (8, True, (Fault(_BACK, "m.d.comb += block.even.eq(even)", "m.d.comb += block.even.eq(odd)"),)),
            (16, True, (Fault(_BACK, "z = Mux(self.base[-1], odd, z)", "z = Mux(self.base[-1], even, z)"),)),
        )
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
