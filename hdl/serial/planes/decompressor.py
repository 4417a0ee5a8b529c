# SPDX-License-Identifier: BSD-2-Clause
"""The serial decompressor of the planes codec."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from inceptionn.wire import BF16_LANES, CODE_WORD_GROUPS, GROUP_LANES, RAW_CODE

from ...codec.planes.lane_dequantiser import LaneDequantiser
from ...codec.planes.lane_quantiser import Z_BITS
from ...codec.planes.plane_unit import CODE_BITS, code_bytes
from ...parts.pipeline import Pipeline
from ...parts.rotation import rotate_left_bytes
from .. import decompressor

_FETCHED = GROUP_LANES + 1
"""Words that hold a group at any place."""


class Decompressor(decompressor.Decompressor):
    """Restores words of an fp32 lane, with ``shape.bf16`` also of two bf16 lanes (sections 9 and 10).

    ::

        slot       0 1 2 3 4 5 6 7 8 9 .
        address    c 0 1 2 3 4 5 6 7 8     the code, and nine words with the group's data
        arrives        c 0 1 2 3 4 5 6 7 8
        held               0 1 2 3 4 5 6 7 at the group's place, 4 bytes a cycle, in as many registers as
        words                      0 1 2 3 4 5 6 7    the planes need: 4, with bf16 lanes 7

    A lane is bit *i* of each plane, so lanes leave when all planes are held. A raw group's words go through
    the same registers as a ring; each leaves in the cycle in which its successor takes its place, as do the
    planes with the next group's first word.
    """

    TABLE_WORDS = CODE_WORD_GROUPS * GROUP_LANES

    @property
    def held(self) -> int:
        """Registers for a group's planes."""
        return -(-BF16_LANES.planes // 2) if self.shape.bf16 else -(-Z_BITS // 4)

    @property
    def period(self) -> int:
        return max(_FETCHED + 1, self.held + GROUP_LANES - 1)

    def _decode(self, m: Module, runs: Value, table: Value) -> Value:
        bf16 = self.base[-1] if self.shape.bf16 else Const(0, 1)
        slot, place, last = self._slot, self._place, self._last

        # Once per group: its code, then the next group's place. Nibbles behind the last group must be zero.
        code = Signal(CODE_BITS, reset_less=True)
        number = self._group[: (CODE_WORD_GROUPS - 1).bit_length()]
        behind = table >> ((number + 1) * CODE_BITS)
        size = code_bytes(code, bf16 if self.shape.bf16 else None)
        with m.If(slot == self.WORD_LATENCY):
            m.d.sync += code.eq(table.word_select(number, CODE_BITS))
            with m.If(last & behind.any()):
                m.d.sync += self.malformed.eq(1)
        with m.If(slot == self.WORD_LATENCY + 1):
            m.d.sync += place.eq(place + size)

        # Nine words from the place on. `shift` changes between the last of them and the next group's first.
        address = Signal.like(self.address, reset_less=True)
        shift = Signal(2, reset_less=True)
        m.d.sync += address.eq(Mux(slot == 0, place[2:], address + 1))
        with m.If(slot == 1):
            m.d.sync += shift.eq(place[:2])
        p = Pipeline(m, "fetch_", control={"valid"})
        p.let(valid=runs & (slot != 0) & (slot <= GROUP_LANES), number=(slot - 1)[:3])
        p.until(self.WORD_LATENCY)
        p.stage(rotated=rotate_left_bytes(self.word, (-shift)[:2], 1))
        upper = p.rotated
        p.stage()
        lower, valid, at = p.rotated, p.valid, p.number

        # Bytes behind the group's data are cleared.
        rest = Signal(6, reset_less=True)
        left = Mux(at == 0, size, rest)
        with m.If(valid):
            m.d.sync += rest.eq(Mux(left[2:].any(), left - 4, 0))
        aligned = Cat(
            Mux(
                left[2:].any() | (left[:2] > byte),
                Mux(byte + shift < 4, lower.word_select(byte, 8), upper.word_select(byte, 8)),
                0,
            )
            for byte in range(4)
        )
        held = [Signal(32, name=f"held_{i}", reset_less=True) for i in range(self.held)]
        whole = left[2:].any()
        writes: list[Value] = []
        for i, register in enumerate(held):
            again = Cat(at == j for j in range(i + self.held, GROUP_LANES, self.held)).any()  # a raw group's
            writes.append(valid & ((at == i) | (again & whole)))
            with m.If(writes[i]):
                m.d.sync += register.eq(aligned)

        self.probes |= {
            "code": code, "size": size, "fetch": p, "rest": rest, "writes": writes, "valid": valid, "at": at,
        }  # fmt: skip
        begins = valid & (at == self.held - 1)  # all planes are held
        self._leave(m, begins, Cat(held), code, bf16)
        return address

    def _leave(self, m: Module, begins: Value, held: Value, code: Value, bf16: Value) -> None:
        """Restore the lanes of a group, one a cycle, and say what follows the last."""
        last, place = self._last, self._place
        lane = Signal(range(GROUP_LANES))
        leaves = Signal()
        ends = Signal()
        is_raw = Signal(reset_less=True)
        lanes = Signal(range(GROUP_LANES + 1), reset_less=True)
        with m.If(begins):
            m.d.sync += [
                leaves.eq(1),
                lane.eq(0),
                is_raw.eq(code == RAW_CODE),
                ends.eq(last),
                lanes.eq(Mux(last, self._left, GROUP_LANES)),
            ]
        with m.Else():
            m.d.sync += [lane.eq(lane + 1), leaves.eq(leaves & (lane != GROUP_LANES - 1))]
        m.submodules.lane = restored = LaneDequantiser(bf16=self.shape.bf16)
        z, even = self._integers(held, lane, bf16)
        ring = Cat(held.word_select(i % self.held, 32) for i in range(GROUP_LANES)).word_select(lane, 32)
        q = Pipeline(m, "lane_", control={"leaves", "present", "ends"})
        present = lane < lanes
        q.let(
            leaves=leaves,
            present=leaves & present,
            ends=leaves & ends & (lane == GROUP_LANES - 1),
        )
        if self.shape.bf16:
            m.d.comb += restored.even.eq(even)
        m.d.comb += [
            restored.z.eq(z),
            restored.word.eq(ring),
            restored.is_raw.eq(is_raw),
            restored.absent.eq(~present),
            restored.e0.eq(self.base),
        ]
        q.until(LaneDequantiser.LATENCY)
        self.probes |= {
            "lane": lane, "leaves": leaves, "ends": ends, "is_raw": is_raw, "lanes": lanes, "sent": q,
        }  # fmt: skip
        with m.If(q.leaves & restored.impossible):
            m.d.sync += self.malformed.eq(1)
        m.d.comb += [self.words.valid.eq(q.present), self.words.payload.eq(restored.value)]
        with m.If(q.ends & (place != self.length + 2)):
            m.d.sync += self.malformed.eq(1)
        m.d.sync += self.done.eq(q.ends)

    @staticmethod
    def _integers(planes: Value, lane: Value, bf16: Value) -> tuple[Value, Value]:
        """Return the integer of the lane, and that of the even one of two bf16 lanes."""
        bits = Cat(planes[GROUP_LANES * i :].bit_select(lane, 1) for i in range(Z_BITS))
        pairs = [planes[2 * GROUP_LANES * i :].word_select(lane, 2) for i in range(BF16_LANES.planes)]
        if len(bf16) and isinstance(bf16, Const):
            return bits, Const(0, 1)
        return Mux(bf16, Cat(pair[1] for pair in pairs), bits), Cat(pair[0] for pair in pairs)
