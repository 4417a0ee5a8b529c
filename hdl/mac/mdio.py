# SPDX-License-Identifier: BSD-2-Clause
"""MDIO, the PHY's management interface (IEEE 802.3, clause 22)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

_PREAMBLE = 32
_FRAME = 64
_TURNAROUND_AT = 46  # from the first preamble bit; the PHY drives from here on when it is read


class MdioRequest(data.Struct):
    """One access to a register of a PHY."""

    write: 1
    phy: 5
    register: 5
    value: 16  # to be written


class Mdio(wiring.Component):
    """Reads and writes the registers of PHYs on one pair of wires.

    An access takes 64 periods of ``mdc``. The master changes ``mdio`` with the falling edge of ``mdc``, and
    samples it just before a rising one.

    Parameters
    ----------
    half_period : :class:`int`
        Cycles of half a period of ``mdc``; at most 2.5 MHz, so at least 10 at 50 MHz.
    """

    requests: In(stream.Signature(MdioRequest))  #: Accesses to do, one at a time.
    #: What was read, once per access that reads. All ones if no PHY answers.
    values: Out(stream.Signature(16, always_ready=True))
    mdc: Out(1)  #: The management clock.
    mdio_out: Out(1, init=1)  #: The pin's level while ``mdio_enable``.
    mdio_enable: Out(1)  #: The pin is driven.
    mdio_in: In(1)  #: The pin, synchronised.

    def __init__(self, half_period: int):
        if half_period < 2:
            raise ValueError(f"half a period of MDC must be at least 2 cycles, not {half_period!r}")
        self.half_period = half_period
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        request = self.requests.payload
        phase = Signal(range(self.half_period))
        place = Signal(range(_FRAME))
        busy = Signal()
        reading = Signal()
        shift = Signal(_FRAME - _PREAMBLE)  # the highest bit is next
        taken = Signal(16)
        edge = phase == self.half_period - 1
        m.d.sync += [phase.eq(Mux(edge | ~busy, 0, phase + 1)), self.values.valid.eq(0)]
        m.d.comb += [self.requests.ready.eq(~busy), self.values.payload.eq(taken)]
        with m.If(~busy):
            m.d.sync += [self.mdc.eq(0), self.mdio_enable.eq(self.requests.valid), self.mdio_out.eq(1)]
            with m.If(self.requests.valid):
                # Start 01, operation 01 (write) or 10 (read), turnaround 10; the highest bits go first.
                m.d.sync += [
                    busy.eq(1),
                    place.eq(0),
                    reading.eq(~request.write),
                    shift.eq(
                        Cat(
                            request.value,
                            Const(0b10, 2),
                            request.register,
                            request.phy,
                            request.write,
                            ~request.write,
                            Const(0b01, 2),
                        )
                    ),
                ]
        with m.Elif(edge):
            m.d.sync += self.mdc.eq(~self.mdc)
            with m.If(~self.mdc):
                m.d.sync += taken.eq(Cat(self.mdio_in, taken))
            with m.Else():
                m.d.sync += place.eq(place + 1)
                with m.If(place >= _PREAMBLE - 1):
                    m.d.sync += [self.mdio_out.eq(shift[-1]), shift.eq(shift << 1)]
                with m.If(reading & (place >= _TURNAROUND_AT - 1)):
                    m.d.sync += self.mdio_enable.eq(0)
                with m.If(place == _FRAME - 1):
                    m.d.sync += [busy.eq(0), self.mdio_enable.eq(0), self.values.valid.eq(reading)]
        return m


class MdioSharing(wiring.Component):
    """Lets two take turns with one :class:`Mdio`. What is read goes to whoever asked for it.

    Latency: an access is passed on at once while it is the asker's turn. The turn changes in each cycle in
    which who has it asks for nothing.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "requests": In(stream.Signature(MdioRequest)).array(2),  #: Of both.
                "values": Out(stream.Signature(16, always_ready=True)).array(2),  #: What each asked for.
                "m_requests": Out(stream.Signature(MdioRequest)),  #: To :class:`Mdio`.
                "m_values": In(stream.Signature(16, always_ready=True)),  #: From :class:`Mdio`.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        turn = Signal()
        asked = Signal()  # who asked for the access in progress
        for number, request in enumerate(self.requests):
            with m.If(turn == number):
                m.d.comb += [
                    self.m_requests.valid.eq(request.valid),
                    self.m_requests.payload.eq(request.payload),
                    request.ready.eq(self.m_requests.ready),
                ]
            m.d.comb += [
                self.values[number].valid.eq(self.m_values.valid & (asked == number)),
                self.values[number].payload.eq(self.m_values.payload),
            ]
        # A value comes at the earliest with the next access, when `asked` still tells of the one before.
        with m.If(~self.m_requests.valid):
            m.d.sync += turn.eq(~turn)
        with m.Elif(self.m_requests.ready):
            m.d.sync += asked.eq(turn)
        return m
