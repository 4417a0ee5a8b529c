# SPDX-License-Identifier: BSD-2-Clause
"""The ring of received bursts, and the network that takes one group's vectors out of two of them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, LANE_BYTES

from ...parts.beat import Beat
from ...parts.delay import delayed
from ...parts.memory import LutRam
from .tag_decoder import BEAT_BITS, position_bits, vector_bytes


def _pick(m: Module, select: Value, choices: list[Value], name: str) -> Value:
    """Register holding ``choices[select]``, or the last choice beyond: one digit of a staged shifter."""
    register = Signal(max(len(choice) for choice in choices), name=name, reset_less=True)
    if len(choices) == 1:
        m.d.sync += register.eq(choices[0])
        return register
    with m.Switch(select):
        for index, choice in enumerate(choices):
            if index == len(choices) - 1:
                with m.Default():
                    m.d.sync += register.eq(choice)
            else:
                with m.Case(index):
                    m.d.sync += register.eq(choice)
    return register


def _digits(bits: int) -> list[tuple[int, int]]:
    """A shift amount as base-4 digits, the highest first: bounds of their bits. The last may have one bit."""
    return [(max(0, low), low + 2) for low in range(bits - 2, -2, -2)]


class BurstBuffer(wiring.Component):
    """Keeps up to ``DEPTH`` beats, and cuts the vectors of a group, or two, out of two of them per cycle.

    The paper's Burst Buffer (Fig. 10) holds two bursts and shifts consumed bits away; this one leaves the
    bytes where they are and moves a position over them, so that nothing wide waits for a size.

    A *position* counts bytes from reset on, modulo 2^14 (16 lanes: 2^15): beat number in the upper 9 bits,
    byte in the lower 5 (6). A group is named by the position of the byte *before* its first one, and two
    groups of a cycle are taken as one. ``DEPTH`` beats are kept: beat *i* can be read from the cycle after
    ``newest`` has reached it until beat ``i + DEPTH - 1`` is written; the owner sees to both.

    The buffer holds one request at a time (``position``, ``tags``), replaced when ``load``. After it,
    everything is free-running: ``vectors`` belong to the request held :attr:`latency` cycles ago (7, with 16
    lanes 8); the tags go alongside as ``vector_tags``.

    Parameters
    ----------
    lanes : :class:`int`
        8: beats of 32 bytes, one group. 16: 64 bytes, two groups.

    Members
    -------
    w_data : :py:`In(32 * lanes)`
        A beat.
    w_valid : :py:`In(1)`
        Append it: ``newest`` counts up.
    newest : :py:`Out(9)`
        Number of the last beat appended, modulo 512; 511 after reset.
    following : :py:`Out(9)`
        ``newest + 1``.
    load : :py:`In(1)`
        Take ``position`` and ``tags`` as the request.
    position : :py:`In(position_bits(lanes))`
    tags : :py:`In(2 * lanes)`
    vectors : :py:`Out(32 * lanes)`
        Lane *i*'s vector right-aligned in bits 32i+31..32i, with arbitrary bits above its size.
    vector_tags : :py:`Out(2 * lanes)`
    """

    DEPTH = 64

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.lanes = lanes
        self.width = Beat.of_groups(lanes)
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "w_data": In(self.width.bits),
                "w_valid": In(1),
                "newest": Out(BEAT_BITS, init=2**BEAT_BITS - 1),
                "following": Out(BEAT_BITS),
                "load": In(1),
                "position": In(position_bits(lanes)),
                "tags": In(2 * lanes),
                "vectors": Out(self.width.bits),
                "vector_tags": Out(2 * lanes),
            }
        )

    @staticmethod
    def latency_of(width: Beat) -> int:
        """Cycles from a held request to its vectors."""
        # The memory, the rotation of two beats, and the lanes' own shifts.
        return 1 + len(_digits(width.place_bits + 1)) + len(_digits(width.place_bits))

    def elaborate(self, platform: Any) -> Module:
        # Even and odd beats lie in banks of their own, so that a window of two neighbouring beats
        # comes out in one cycle from any position. It is then rotated and cut by one base-4 digit
        # per stage. Each bank writes its own next free slot in every cycle; only the counters know
        # which of the two writes counted.
        m = Module()
        sync = m.d.sync
        offset_bits = self.width.place_bits
        with m.If(self.w_valid):
            sync += [self.newest.eq(self.following), self.following.eq(self.following + 1)]

        # The request, with both banks' addresses worked out beforehand.
        even_address = Signal(range(self.DEPTH // 2), reset_less=True)
        odd_address = Signal(range(self.DEPTH // 2), reset_less=True)
        request_tags = Signal(2 * self.lanes, reset_less=True)
        amount_0 = Signal(offset_bits + 1, reset_less=True)
        beat = self.position[offset_bits:]
        with m.If(self.load):
            sync += [
                even_address.eq((beat + 1)[1:]),
                odd_address.eq(beat[1:]),
                amount_0.eq(self.position),
                request_tags.eq(self.tags),
            ]

        window = []
        for parity, read_address in enumerate((even_address, odd_address)):
            m.submodules[f"bank_{parity}"] = bank = LutRam(self.width.bits, self.DEPTH // 2)
            free = Signal(range(self.DEPTH // 2), name=f"free_{parity}")
            burst = Signal(self.width.bits, name=f"burst_{parity}", reset_less=True)
            m.d.comb += [
                bank.write_address.eq(free),
                bank.write_data.eq(self.w_data),
                bank.write.eq(1),
                bank.read_address.eq(read_address),
            ]
            with m.If(self.w_valid & (self.following[0] == parity)):
                sync += free.eq(free + 1)
            sync += burst.eq(bank.read_data)
            window.append(burst)

        # Rotate the window of two beats; the group starts one byte after `position`.
        names = ("coarse", "middle", "fine", "finest")
        rotation = _digits(offset_bits + 1)
        amounts = self._amounts(m, delayed(m, amount_0, 1, name="amount_coarse"), rotation, "amount_{}")
        aligned: Value = Cat(*window, *window)
        for stage, (low, high) in enumerate(rotation):
            step, start = 1 << low, 0 if stage else 1
            size = self.width.bytes + step - 1
            starts = range(start, start + (step << high - low), step)
            choices = [aligned[8 * at : 8 * (at + size)] for at in starts]
            name = names[stage] if stage < len(rotation) - 1 else "aligned"
            aligned = _pick(m, amounts[stage], choices, name)

        # Meanwhile the offsets; then each lane moves its vector down, a digit per stage as well.
        tags_1 = delayed(m, request_tags, 1, name="tags_window")
        shift = _digits(offset_bits)
        for lane, offset in enumerate(self._lane_offsets(m, tags_1)):
            farthest = LANE_BYTES * lane
            amounts = self._amounts(m, offset, shift, f"offset_{{}}_{lane}")
            vector: Value = aligned
            for (low, high), amount, name in zip(shift, amounts, ("near", "nearer", "vector"), strict=True):
                step, size = 1 << low, LANE_BYTES + (1 << low) - 1
                reach = min(farthest, (1 << high) - 1) // step
                choices = [vector[8 * step * i : 8 * (step * i + size)] for i in range(reach + 1)]
                vector = _pick(m, amount, choices, f"{name}_{lane}")
            m.d.comb += self.vectors.word_select(lane, 32).eq(vector)
        behind = self.latency - 1
        m.d.comb += self.vector_tags.eq(delayed(m, tags_1, behind, name="tags_vector"))
        return m

    @staticmethod
    def _amounts(m: Module, amount: Value, digits: list[tuple[int, int]], name: str) -> list[Value]:
        """Each digit of ``amount``, a cycle after the one before it."""
        parts = []
        for stage, (low, _) in enumerate(digits):
            parts.append(amount[low:])
            if low:
                following = name.format(("middle", "fine", "finest")[stage])
                amount = delayed(m, amount[:low], 1, name=following)
        return parts

    def _lane_offsets(self, m: Module, tags: Value) -> list[Value]:
        """First byte of each lane within its group or two, 3 or 4 cycles after ``tags``."""
        if self.width.groups == 1:
            return self._group_offsets(m, tags)
        lower, upper = tags[: 2 * GROUP_LANES], tags[2 * GROUP_LANES :]
        sizes = [vector_bytes(lower.word_select(lane, 2)) for lane in range(GROUP_LANES)]
        for level in range(3):
            sums = [sizes[2 * i] + sizes[2 * i + 1] for i in range(len(sizes) // 2)]
            sizes = [delayed(m, total, 1, name=f"size_{level}_{i}") for i, total in enumerate(sums)]
        offsets = [
            *self._group_offsets(m, lower, "lower_"),
            *(offset + sizes[0] for offset in self._group_offsets(m, upper, "upper_")),
        ]
        return [
            delayed(m, Cat(offset, Const(0, 1))[:6], 1, name=f"place_{i}") for i, offset in enumerate(offsets)
        ]

    @staticmethod
    def _group_offsets(m: Module, tags: Value, prefix: str = "") -> list[Value]:
        """First byte of each lane within its group, three cycles after ``tags``: a prefix sum."""

        def size(tags: Value, lane: int) -> Value:
            return vector_bytes(tags.word_select(lane, 2))

        def register(name: str, value: Value) -> Value:
            return delayed(m, value, 1, name=prefix + name)

        pair = [register(f"pair_{i}", (size(tags, 2 * i) + size(tags, 2 * i + 1))[:4]) for i in range(3)]
        tags_1 = register("tags_pair", tags)
        half = register("half", (pair[0] + pair[1])[:5])
        three = register("three", (pair[0] + size(tags_1, 2))[:4])
        upper_three = register("upper_three", (pair[2] + size(tags_1, 6))[:4])
        two, upper_two = register("two", pair[0]), register("upper_two", pair[2])
        tags_2 = register("tags_half", tags_1)
        return [
            Const(0, 5),
            register("offset_1", Cat(size(tags_2, 0), Const(0, 2))),
            register("offset_2", Cat(two, Const(0, 1))),
            register("offset_3", Cat(three, Const(0, 1))),
            register("offset_4", half),
            register("offset_5", (half + size(tags_2, 4))[:5]),
            register("offset_6", (half + upper_two)[:5]),
            register("offset_7", (half + upper_three)[:5]),
        ]
