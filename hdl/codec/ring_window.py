# SPDX-License-Identifier: BSD-2-Clause
"""The ring of received beats, and the rotation that brings a group's data to byte 0."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..parts.delay import copies, delayed
from ..parts.memory import LutRam
from ..parts.width import Width
from .table_decoder import BEAT_BITS, position_bits


def pick(m: Module, select: Value | Sequence[Value], choices: Sequence[Value], name: str) -> Signal:
    """Register ``choices[select]``, or the last choice beyond: one digit of a staged shifter.

    Of several equal ``select``, each chooses a part of the bits.
    """
    register = Signal(max(len(choice) for choice in choices), name=name, reset_less=True)
    selects = [select] if isinstance(select, Value) else select
    if len(choices) == 1:
        m.d.sync += register.eq(choices[0])
        return register
    size = -(-len(register) // len(selects))
    for number, one in enumerate(selects):
        bits = slice(number * size, min((number + 1) * size, len(register)))
        with m.Switch(one):
            for index, choice in enumerate(choices):
                with m.Default() if index == len(choices) - 1 else m.Case(index):
                    m.d.sync += register[bits].eq(choice[bits])
    return register


def digits_of(bits: int) -> list[tuple[int, int]]:
    """Split a shift amount into base-4 digits, the highest first, given by the bounds of their bits.

    The last may have one bit.
    """
    return [(max(0, low), low + 2) for low in range(bits - 2, -2, -2)]


def digit_amounts(m: Module, amount: Value, digits: list[tuple[int, int]], name: str) -> list[Value]:
    """Delay each digit of ``amount`` by one cycle more than the previous one."""
    parts = []
    for stage, (low, _) in enumerate(digits):
        parts.append(amount[low:])
        if low:
            following = name.format(("middle", "fine", "finest")[stage])
            amount = delayed(m, amount[:low], 1, name=following)
    return parts


def group_request(width: Width, marks: str, mark_bits: int) -> data.StructLayout:
    """Return the layout of a request for one or two groups: the byte before them, and the marks."""
    return data.StructLayout({"position": position_bits(width), marks: mark_bits})


class RingWindow(wiring.Component):
    """Keeps ``DEPTH`` beats. Each cycle it moves a group, or two, from two neighbouring beats to byte 0.

    The base of the buffers of both codecs. The paper's Burst Buffer (Fig. 10) holds two bursts and shifts
    consumed bits away. This one leaves the bytes where they are and moves a position over them, so that
    nothing wide waits for a size.

    A *position* counts bytes from reset on, modulo 2^14 (16 lanes: 2^15): beat number in the upper 9 bits,
    byte in the lower 5 (6). A group is named by the position of the byte *before* its first one; two groups
    of a cycle are taken as one. Beat *i* can be read from the cycle after ``newest`` has reached it until
    beat ``i + DEPTH - 1`` is written. The owner must keep to both limits.

    One request is held until the next one comes. Nothing after it stalls.

    Parameters
    ----------
    width : :class:`Width`
    marks : :class:`str`, :class:`int`
        Name and width of the group's marks in a request.
    members : :class:`dict`
        The codec's own outputs.
    """

    DEPTH = 64

    def __init__(self, width: Width, marks: tuple[str, int], members: dict[str, Any]):
        self.width = width
        self.latency = self.latency_of(self.width)
        self._marks, self._mark_bits = marks
        super().__init__(
            {
                #: A beat is appended: ``newest`` counts up.
                "beats": In(stream.Signature(self.width.bits, always_ready=True)),
                #: Number of the last beat appended, modulo 512; 511 after reset.
                "newest": Out(BEAT_BITS, init=2**BEAT_BITS - 1),
                "following": Out(BEAT_BITS),  #: ``newest + 1``.
                #: The newest is held until the next.
                "requests": In(stream.Signature(group_request(width, *marks), always_ready=True)),
                **members,
            }
        )

    @staticmethod
    def window_latency(width: Width) -> int:
        """Count the cycles from a held request to its data at byte 0: the memory, and two beats' rotation."""
        return 1 + len(digits_of(width.place_bits + 1))

    @classmethod
    def latency_of(cls, width: Width) -> int:
        """Count the cycles from a held request to the codec's outputs."""
        raise NotImplementedError

    def _window(self, m: Module) -> tuple[list[Value], list[Value], Value]:
        """Make all but the last digit of the rotation.

        Returns, in the cycle before ``window_latency``, copies of the last digit, and the choices for the
        data at byte 0, which the caller registers; and, one cycle after the request, its marks.
        """
        # Even and odd beats lie in banks of their own, so that a window of two neighbouring beats
        # comes out in one cycle from any position. It is then rotated and cut by one base-4 digit
        # per stage. Each bank writes its own next free slot in every cycle; only the counters know
        # which of the two writes counted.
        sync = m.d.sync
        offset_bits = self.width.place_bits
        with m.If(self.beats.valid):
            sync += [self.newest.eq(self.following), self.following.eq(self.following + 1)]

        # The request, with both banks' addresses worked out beforehand.
        even_address = Signal(range(self.DEPTH // 2), reset_less=True)
        odd_address = Signal(range(self.DEPTH // 2), reset_less=True)
        request_marks = Signal(self._mark_bits, reset_less=True, name=f"request_{self._marks}")
        amount_0 = Signal(offset_bits + 1, reset_less=True)
        request = self.requests.payload
        beat = request.position[offset_bits:]
        with m.If(self.requests.valid):
            sync += [
                even_address.eq((beat + 1)[1:]),
                odd_address.eq(beat[1:]),
                amount_0.eq(request.position),
                request_marks.eq(request[self._marks]),
            ]

        window = []
        for parity, read_address in enumerate((even_address, odd_address)):
            m.submodules[f"bank_{parity}"] = bank = LutRam(self.width.bits, self.DEPTH // 2)
            free = Signal(range(self.DEPTH // 2), name=f"free_{parity}")
            burst = Signal(self.width.bits, name=f"burst_{parity}", reset_less=True)
            m.d.comb += [
                bank.write_address.eq(free),
                bank.write_data.eq(self.beats.payload),
                bank.write.eq(1),
                bank.read_address.eq(read_address),
            ]
            with m.If(self.beats.valid & (self.following[0] == parity)):
                sync += free.eq(free + 1)
            sync += burst.eq(bank.read_data)
            window.append(burst)

        # Rotate the window of two beats; the group starts one byte after `position`.
        # Each digit has a register for about 80 bits: one for all would be on the longest path.
        names = ("coarse", "middle", "fine", "finest")
        rotation = digits_of(offset_bits + 1)
        amount: Value = amount_0
        aligned: Value = Cat(*window, *window)
        for stage, ((low, high), name) in enumerate(zip(rotation, names, strict=False)):
            digits = copies(m, amount[low:], 4, name=f"amount_{name}")
            if low:
                amount = delayed(m, amount[:low], 1, name=f"after_{name}")
            step, start = 1 << low, 0 if stage else 1
            size = self.width.bytes + step - 1
            starts = range(start, start + (step << high - low), step)
            choices = [aligned[8 * at : 8 * (at + size)] for at in starts]
            if stage < len(rotation) - 1:
                aligned = pick(m, digits, choices, name)
        return digits, choices, delayed(m, request_marks, 1, name=f"{self._marks}_window")
