# SPDX-License-Identifier: BSD-2-Clause
"""The ring of received bursts, and the network that takes one group's vectors out of two of them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.delay import delayed
from inceptionn.hdl.memory import LutRam
from inceptionn.hdl.tag_decoder import BEAT_BITS, OFFSET_BITS, POSITION_BITS, vector_bytes
from inceptionn.wire import BURST_BYTES, LANES


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


class BurstBuffer(wiring.Component):
    """Keeps up to ``DEPTH`` bursts, and cuts a group's eight vectors out of two of them per cycle.

    The paper's Burst Buffer (Fig. 10) holds two bursts and shifts consumed bits away; this one leaves the
    bytes where they are and moves a position over them, so that nothing wide waits for a size.

    A *position* counts bytes from reset on, modulo 2^14: beat number in bits 13..5, byte in bits 4..0. A
    group is named by the position of the byte *before* its first one. ``DEPTH`` beats are kept: beat
    *i* can be read from the cycle after ``newest`` has reached it until beat ``i + DEPTH - 1`` is
    written; the owner sees to both.

    The buffer holds one request at a time (``position``, ``tags``), replaced when ``load``. Behind it
    everything is free-running: ``vectors`` belong to the request held ``LATENCY`` cycles ago; the tags go
    alongside as ``vector_tags``.

    Members
    -------
    w_data : :py:`In(256)`
        A burst.
    w_valid : :py:`In(1)`
        Append it: ``newest`` counts up.
    newest : :py:`Out(9)`
        Number of the last beat appended, modulo 512; 511 after reset.
    following : :py:`Out(9)`
        ``newest + 1``.
    load : :py:`In(1)`
        Take ``position`` and ``tags`` as the request.
    position : :py:`In(14)`
    tags : :py:`In(16)`
    vectors : :py:`Out(256)`
        Lane *i*'s vector right-aligned in bits 32i+31..32i, with arbitrary bits above its size.
    vector_tags : :py:`Out(16)`
    """

    DEPTH = 64
    LATENCY = 7

    w_data: In(8 * BURST_BYTES)
    w_valid: In(1)
    newest: Out(BEAT_BITS, init=2**BEAT_BITS - 1)
    following: Out(BEAT_BITS)
    load: In(1)
    position: In(POSITION_BITS)
    tags: In(2 * LANES)
    vectors: Out(32 * LANES)
    vector_tags: Out(2 * LANES)

    def elaborate(self, platform: Any) -> Module:
        # Even and odd beats lie in banks of their own, so that a window of two neighbouring beats
        # comes out in one cycle from any position. It is then rotated and cut by one base-4 digit
        # per stage. Each bank writes its own next free slot in every cycle; only the counters know
        # which of the two writes counted.
        m = Module()
        sync = m.d.sync
        with m.If(self.w_valid):
            sync += [self.newest.eq(self.following), self.following.eq(self.following + 1)]

        # The request, with both banks' addresses worked out beforehand.
        even_address = Signal(range(self.DEPTH // 2), reset_less=True)
        odd_address = Signal(range(self.DEPTH // 2), reset_less=True)
        request_tags = Signal(2 * LANES, reset_less=True)
        amount_0 = Signal(OFFSET_BITS + 1, reset_less=True)
        beat = self.position[OFFSET_BITS:]
        with m.If(self.load):
            sync += [
                even_address.eq((beat + 1)[1:]),
                odd_address.eq(beat[1:]),
                amount_0.eq(self.position),
                request_tags.eq(self.tags),
            ]

        window = []
        for parity, read_address in enumerate((even_address, odd_address)):
            m.submodules[f"bank_{parity}"] = bank = LutRam(8 * BURST_BYTES, self.DEPTH // 2)
            free = Signal(range(self.DEPTH // 2), name=f"free_{parity}")
            burst = Signal(8 * BURST_BYTES, name=f"burst_{parity}", reset_less=True)
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

        # Rotate the 64-byte window by 16, 4 and 1 byte; the group starts one byte behind `position`.
        amount_1 = delayed(m, amount_0, 1, name="amount_coarse")
        amount_2 = delayed(m, amount_1[:4], 1, name="amount_middle")
        amount_3 = delayed(m, amount_2[:2], 1, name="amount_fine")
        ring = Cat(*window, *window)
        coarse = _pick(m, amount_1[4:], [ring[128 * i + 8 : 128 * i + 384] for i in range(4)], "coarse")
        middle = _pick(m, amount_2[2:], [coarse[32 * i : 32 * i + 280] for i in range(4)], "middle")
        aligned = _pick(m, amount_3, [middle[8 * i : 8 * i + 256] for i in range(4)], "aligned")

        # Meanwhile the offsets; then each lane moves its vector down by 8, 2 and 1 byte.
        tags_1 = delayed(m, request_tags, 1, name="tags_window")
        offsets = self._lane_offsets(m, tags_1)
        for lane, offset in enumerate(offsets):
            farthest = 4 * lane
            offset_1 = delayed(m, offset[:3], 1, name=f"offset_middle_{lane}")
            offset_2 = delayed(m, offset_1[:1], 1, name=f"offset_fine_{lane}")
            choices = [aligned[64 * i : 64 * i + 88] for i in range(farthest // 8 + 1)]
            near = _pick(m, offset[3:], choices, f"near_{lane}")
            choices = [near[16 * i : 16 * i + 40] for i in range(min(farthest, 7) // 2 + 1)]
            nearer = _pick(m, offset_1[1:], choices, f"nearer_{lane}")
            choices = [nearer[8 * i : 8 * i + 32] for i in range(min(farthest, 1) + 1)]
            vector = _pick(m, offset_2, choices, f"vector_{lane}")
            m.d.comb += self.vectors.word_select(lane, 32).eq(vector)
        m.d.comb += self.vector_tags.eq(delayed(m, tags_1, 6, name="tags_vector"))
        return m

    @staticmethod
    def _lane_offsets(m: Module, tags: Value) -> list[Value]:
        """First byte of each lane within its group, three cycles behind ``tags``: a prefix sum."""

        def size(tags: Value, lane: int) -> Value:
            return vector_bytes(tags.word_select(lane, 2))

        def register(name: str, value: Value) -> Value:
            return delayed(m, value, 1, name=name)

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
