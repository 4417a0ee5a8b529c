# SPDX-License-Identifier: BSD-2-Clause
"""RMII 1.2: two bits per cycle of a reference clock of 50 MHz, in both directions."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .octets import Octet
from .symbols import SymbolAligner, symbol

_SLOW = 10
"""Cycles of a dibit at 10 Mbit/s."""


def _pace(m: Module, slow: Signal) -> Signal:
    """Give a pulse of one cycle per dibit."""
    count = Signal(range(_SLOW))
    tick = Signal()
    m.d.comb += tick.eq(~slow | (count == 0))
    m.d.sync += count.eq(Mux(count == _SLOW - 1, 0, count + 1))
    return tick


class RmiiReceive(wiring.Component):
    """Octets from the PHY. ``crs_dv`` is carrier and data valid in one, and is taken apart here.

    Where the carrier ends before the PHY's buffer is empty, ``crs_dv`` toggles: low with a nibble's first
    dibit, high with its second. A dibit belongs to the frame unless ``crs_dv`` is low with it and the next.
    """

    rxd: In(2)  #: Pins, sampled once already.
    crs_dv: In(1)  #: Pin, sampled likewise.
    rx_er: In(1)  #: Pin, sampled likewise.
    slow: In(1)  #: 10 Mbit/s. Constant within a frame.
    octets: Out(stream.Signature(Octet, always_ready=True))  #: Octets received.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.aligner = aligner = SymbolAligner(2)
        tick = _pace(m, self.slow)
        # `active` is that of the pin alone; after a reset, which may fall into a frame, it is set.
        dibit = Signal(symbol(2), init={"active": 1})
        with m.If(tick):
            m.d.sync += dibit.eq(Cat(self.rxd, self.crs_dv, self.rx_er))
        m.d.comb += [
            aligner.symbols.valid.eq(tick),
            aligner.symbols.payload.eq(dibit),
            aligner.symbols.payload.active.eq(dibit.active | self.crs_dv),
        ]
        wiring.connect(m, aligner.octets, wiring.flipped(self.octets))
        return m


class RmiiTransmit(wiring.Component):
    """Octets to the PHY. RMII has no error pin: a spoilt frame is known by its FCS alone."""

    octets: In(stream.Signature(Octet))  #: ``ready`` comes every 4 or every 40 cycles.
    slow: In(1)  #: 10 Mbit/s. Constant within a frame.
    txd: Out(2)  #: From registers.
    tx_en: Out(1)  #: From a register.

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        tick = _pace(m, self.slow)
        place = Signal(2)
        octet = self.octets.payload
        m.d.comb += self.octets.ready.eq(tick & (place == 3))
        with m.If(tick):
            m.d.sync += [
                place.eq(place + 1),
                self.txd.eq(octet.data.word_select(place, 2) & octet.active.replicate(2)),
                self.tx_en.eq(octet.active),
            ]
        return m
