# SPDX-License-Identifier: BSD-2-Clause
"""Nibbles or dibits to octets: their boundary is where the start delimiter ends (IEEE 802.3, clause 22)."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .octets import PREAMBLE, START, Octet


def symbol(bits: int) -> data.StructLayout:
    """Return the layout of a part of an octet, the low bits first."""
    return data.StructLayout({"data": bits, "active": 1, "error": 1})


class _State(enum.Enum):
    IGNORE = 0  # after a reset, which may fall into a frame
    SEARCH = 1
    OCTETS = 2
    DAMAGED = 3  # ignored, too


class SymbolAligner(wiring.Component):
    """Gathers the symbols of a frame to octets, from its start delimiter on; the preamble is dropped.

    Preambles lose symbols on their way, so only the delimiter tells where octets begin. Before the preamble
    symbols of zeros are passed over (RMII sends them until it has data). What begins otherwise is ignored.
    One symbol per cycle. An octet leaves one cycle after its last symbol.

    Parameters
    ----------
    bits : :class:`int`
        Of a symbol: 4 (MII, RGMII at 10 and 100 Mbit/s) or 2 (RMII).
    """

    def __init__(self, bits: int):
        if bits not in (2, 4):
            raise ValueError(f"symbols have 2 or 4 bits, not {bits!r}")
        self.bits = bits
        super().__init__(
            {
                #: As they come from the pins.
                "symbols": In(stream.Signature(symbol(bits), always_ready=True)),
                #: Each idle symbol gives an idle octet; the first after a frame has ``error`` set if the
                #: frame ended inside an octet, or was ignored.
                "octets": Out(stream.Signature(Octet, always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        last = 8 // self.bits - 1
        taken, valid = self.symbols.payload, self.symbols.valid
        octet = self.octets.payload
        state = Signal(_State)
        preamble = Signal()  # a symbol of it has come
        parts = Signal(8 - self.bits)
        place = Signal(range(last + 1))
        error = Signal()
        m.d.sync += self.octets.valid.eq(0)
        with m.If(valid & ~taken.active):
            m.d.sync += [
                state.eq(_State.SEARCH),
                preamble.eq(0),
                self.octets.valid.eq(1),
                octet.active.eq(0),
                octet.error.eq(
                    (state == _State.DAMAGED) | ((state == _State.OCTETS) & (error | (place != 0)))
                ),
            ]
        with m.Elif(valid & (state == _State.SEARCH)):
            m.d.sync += [place.eq(0), error.eq(0)]
            with m.If(taken.error):
                m.d.sync += state.eq(_State.DAMAGED)
            with m.Elif(taken.data == PREAMBLE & ((1 << self.bits) - 1)):
                m.d.sync += preamble.eq(1)
            with m.Elif(preamble & (taken.data == START >> 8 - self.bits)):
                m.d.sync += [
                    state.eq(_State.OCTETS),
                    self.octets.valid.eq(1),
                    octet.data.eq(START),
                    octet.active.eq(1),
                    octet.error.eq(0),
                ]
            with m.Elif(preamble | (taken.data != 0)):
                m.d.sync += state.eq(_State.DAMAGED)
        with m.Elif(valid & (state == _State.OCTETS)):
            m.d.sync += [
                parts.eq(Cat(parts, taken.data)[self.bits :]),
                place.eq(place + 1),
                error.eq(error | taken.error),
            ]
            with m.If(place == last):
                m.d.sync += [
                    self.octets.valid.eq(1),
                    octet.data.eq(Cat(parts, taken.data)),
                    octet.active.eq(1),
                    octet.error.eq(error | taken.error),
                    error.eq(0),
                ]
        return m
