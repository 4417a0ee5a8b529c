# SPDX-License-Identifier: BSD-2-Clause
"""The serial compressor of the planes codec."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from inceptionn.wire import BF16_LANES, CODE_WORD_GROUPS, CODES, GROUP_LANES, RAW_CODE

from ...codec.planes.lane_quantiser import Z_BITS, LaneQuantiser
from ...codec.planes.plane_unit import CODE_BITS, code_bytes
from ...parts.memory import LutRam
from ...parts.pipeline import Pipeline
from .. import compressor
from ..compressor import Encoded

_MOST_PLANES = RAW_CODE - 1


class Compressor(compressor.Compressor):
    """Compresses words of an fp32 lane, with ``shape.bf16`` also of two bf16 lanes (sections 9 and 10).

    ::

        slot       0 1 2 3 4 5 6 7 . 0 1 2 3 4 5 6 7 .
        planes     shift, a lane a slot    ▼ held, with the code
        data                         0 1 2 3 4 5 6 7 . bytes of the planes, 4 a slot, or a raw group's words
        table                                        c

    The transposition is 15 shift registers, one for each bit of a lane's integer; even bf16 lanes have a
    second set. A raw group's lossy words wait in 8 words of LUT RAM: each is read one cycle before the next
    group's takes its place.
    """

    TABLE_WORDS = CODE_WORD_GROUPS * GROUP_LANES
    LAG = 1

    def _encode(self, m: Module, p: Pipeline) -> Encoded:
        has_bf16 = self.shape.bf16
        e0, bf16 = self.parameters.e0, Const(0, 1)
        if has_bf16:
            e0, bf16 = e0[:-1], e0[-1]
        m.submodules.quantiser = quantiser = LaneQuantiser()
        quantisers = [quantiser]
        m.d.comb += [
            quantiser.lane.eq(Cat(Mux(bf16, 0, self.word[:16]), self.word[16:])),
            quantiser.present.eq(p.present),
        ]
        if has_bf16:
            m.submodules.narrow = narrow = LaneQuantiser(BF16_LANES)
            quantisers.append(narrow)
            m.d.comb += [narrow.lane.eq(self.word[:16]), narrow.present.eq(p.present & bf16)]
        m.d.comb += [each.e0.eq(e0) for each in quantisers]
        p.until(self.WORD_LATENCY + LaneQuantiser.LATENCY)
        self._sum(m, p, quantisers, bf16)

        # The planes of each bit come together, lane 0 lowest in the end; `used`: those that are not zero.
        first, gathers, gathered = p.slot == 0, p.gathers, p.gathered
        used = Signal(Z_BITS, reset_less=True)
        raw = Signal(reset_less=True)
        bits = quantiser.z | quantisers[-1].z  # of no other quantiser: the same
        any_raw = Cat(each.raw for each in quantisers).any()
        sets = [
            [Signal(GROUP_LANES, name=f"plane_{i}_{bit}", reset_less=True) for bit in range(len(each.z))]
            for i, each in enumerate(quantisers)
        ]
        with m.If(gathers):
            m.d.sync += [used.eq(Mux(first, 0, used) | bits), raw.eq((raw & ~first) | any_raw)]
            for planes, each in zip(sets, quantisers, strict=True):
                m.d.sync += [plane.eq(Cat(plane[1:], each.z[bit])) for bit, plane in enumerate(planes)]

        # Held with their code, for the eight slots in which they leave.
        code = Signal(CODE_BITS, reset_less=True)
        table = Signal(CODE_BITS * CODE_WORD_GROUPS, reset_less=True)
        group = Signal(range(CODE_WORD_GROUPS))  # in the table's word
        held = [[Signal.like(plane, name=f"held_{plane.name}") for plane in planes] for planes in sets]
        now = self._code(m, used, raw)
        with m.If(self.start):
            m.d.sync += group.eq(0)
        with m.If(gathered):
            m.d.sync += [code.eq(now), group.eq(group + 1)]
            for registers, planes in zip(held, sets, strict=True):
                m.d.sync += [register.eq(plane) for register, plane in zip(registers, planes, strict=True)]
            with m.If(group == 0):
                m.d.sync += table.eq(now)
            with m.Else():
                m.d.sync += table.word_select(group, CODE_BITS).eq(now)
        self._count(m, p.sent, code)

        # The lossy words come a cycle later.
        lossy = quantiser.lossy
        if has_bf16:
            lossy = Cat(Mux(bf16, quantisers[1].lossy, lossy[:16]), lossy[16:])
        m.submodules.raw_words = raw_words = LutRam(32, GROUP_LANES)
        late = Pipeline(m, "late_", control={"gathers"})
        late.stage(gathers=p.gathers, slot=p.slot)
        m.d.comb += [
            raw_words.write.eq(late.gathers),
            raw_words.write_address.eq(late.slot),
            raw_words.write_data.eq(lossy),
            raw_words.read_address.eq(p.slot),
        ]

        # What is left of the group, and this slot's part of it.
        rest = Signal(6, reset_less=True)
        begun = Mux(first, code_bytes(code, bf16 if has_bf16 else None), rest)
        whole = begun[2:].any()
        m.d.sync += rest.eq(Mux(whole, begun - 4, 0))
        p.stage(
            bytes=Mux(code == RAW_CODE, raw_words.read_data, self._planes(held, p.slot, bf16)),
            size=Mux(p.sends, Mux(whole, 4, begun[:2]), 0),
            word=table,
            full=group == 0,
        )
        return Encoded(p.bytes, p.size, p.word, p.full)

    @staticmethod
    def _code(m: Module, used: Value, raw: Value) -> Signal:
        """Return the code of a group from its planes that hold a bit, and whether it has a raw lane."""
        code = Signal(CODE_BITS, name="new_code")
        with m.If(raw):
            m.d.comb += code.eq(RAW_CODE)
        for plane in reversed(range(Z_BITS)):
            with m.Elif(used[plane]):
                m.d.comb += code.eq(min(plane + 1, _MOST_PLANES))
        return code

    @staticmethod
    def _planes(held: Sequence[Sequence[Signal]], slot: Value, bf16: Value) -> Value:
        """Return the four bytes of planes of a slot."""
        odd = held[0]
        chosen = Mux(slot[2], 0, Cat(*odd, Const(0, 8)).word_select(slot[:2], 32))
        if len(held) == 1:
            return chosen
        words = [
            Cat(Cat(pair) for pair in zip(even, upper, strict=True))
            for even, upper in zip(held[1], odd, strict=False)
        ]
        return Mux(bf16, Cat(*words, Const(0, 32)).word_select(slot, 32), chosen)

    def _sum(self, m: Module, p: Pipeline, quantisers: Sequence[LaneQuantiser], bf16: Value) -> None:
        """Sum what the lossy payload gained over the original; the complement is what it lost."""
        wide, cleared = quantisers[0], self._cleared
        gathers, gathered = p.gathers, p.gathered
        m.d.comb += [
            cleared.valid.eq(gathers),
            cleared.word.eq(wide.gained),
            cleared.carry.eq(wide.carry),
            self.statistics.cleared_sum.eq(~cleared.sum),
        ]
        if len(quantisers) > 1:
            # The second carry of each word is added in the slot of the table.
            narrow = quantisers[1]
            carries = Signal(range(GROUP_LANES + 1))
            with m.If(self.start | gathered):
                m.d.sync += carries.eq(0)
            with m.Elif(gathers):
                m.d.sync += carries.eq(carries + narrow.carry)
            with m.If(bf16):
                m.d.comb += cleared.word[:16].eq(narrow.gained)
            with m.If(gathered):
                m.d.comb += [cleared.valid.eq(bf16), cleared.word.eq(carries), cleared.carry.eq(0)]

    def _count(self, m: Module, counts: Value, code: Value) -> None:
        """Count the groups by code."""
        started = Signal()  # the first group comes later; this register is nearer to its many loads
        m.d.sync += started.eq(self.start)
        for number in range(CODES):
            with m.If(started):
                m.d.sync += self.statistics.counts[number].eq(0)
            with m.Elif(counts & (code == number)):
                m.d.sync += self.statistics.counts[number].eq(self.statistics.counts[number] + 1)
