# SPDX-License-Identifier: BSD-2-Clause
"""A ring of words in LUT RAM, with its two addresses."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .memory import LutRam

_SLICE_BITS = 80
"""Bits of a word that share an address counter."""


class LutRing(wiring.Component):
    """Holds up to ``depth`` words in their order. Whether it is empty or full is for its user to know.

    Parameters
    ----------
    width, depth : :class:`int`
        Of the memory, as of :class:`LutRam`.
    spare : :class:`bool`
        The place after the last word is always free. Then it is written in every cycle, and no path ends in
        the many write enables of a wide memory.
    """

    def __init__(self, width: int, depth: int, *, spare: bool = False):
        self.width = width
        self.depth = depth
        self.spare = spare
        super().__init__(
            {
                "write": In(1),  #: Store ``write_data``.
                #: Stored as the last word. It can be the first word from the next cycle on.
                "write_data": In(width),
                "step": In(1),  #: Drops the first word.
                "read_data": Out(width),  #: The first word, at once.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # A wide word lies in slices with counters of their own. They begin at different places, which keeps
        # synthesis from merging them: a counter that drove the whole word would be on the longest path.
        m = Module()
        words = []
        slices: list[dict[str, Any]] = []
        for number, start in enumerate(range(0, self.width, _SLICE_BITS)):
            end = min(start + _SLICE_BITS, self.width)
            m.submodules[f"ram_{number}"] = ram = LutRam(end - start, self.depth)
            write = Signal(range(self.depth), init=number % self.depth, name=f"write_{number}")
            read = Signal(range(self.depth), init=number % self.depth, name=f"read_{number}")
            m.d.comb += [
                ram.write.eq(1 if self.spare else self.write),
                ram.write_address.eq(write),
                ram.write_data.eq(self.write_data[start:end]),
                ram.read_address.eq(read),
            ]
            with m.If(self.step):
                m.d.sync += read.eq(read + 1)
            m.d.sync += write.eq(write + self.write)
            words.append(ram.read_data)
            slices.append({"read": read, "write": write, "ram": ram})
        m.d.comb += self.read_data.eq(Cat(words))
        self.probes = {"slices": slices}
        return m
