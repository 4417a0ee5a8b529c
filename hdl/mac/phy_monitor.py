# SPDX-License-Identifier: BSD-2-Clause
"""Brings a PHY out of reset, says what the MAC can do, and reads what the link has become."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .mdio import MdioRequest
from .octets import Speed

# Registers of clause 22.
_CONTROL, _STATUS, _ADVERTISED, _PARTNER, _GIGABIT_CONTROL, _GIGABIT_STATUS = 0, 1, 4, 5, 9, 10
_RESTART = 1 << 12 | 1 << 9
_LINK_UP, _NEGOTIATED = 2, 5
_SELECTOR = 1
_FULL_10, _FULL_100, _FULL_1000 = 1 << 6, 1 << 8, 1 << 9
_PARTNER_FULL_10, _PARTNER_FULL_100, _PARTNER_FULL_1000 = 6, 8, 11
_REMOTE_RECEIVER, _LOCAL_RECEIVER = 12, 13


class _State(enum.Enum):
    RESET = 0
    WAIT = 1
    ASK = 2
    ANSWER = 3
    PAUSE = 4


class PhyMonitor(wiring.Component):
    """Full duplex only: the MAC knows no collisions, and neither half duplex nor PAUSE is advertised.

    After power-up the PHY is held in reset for 10 ms and left alone for 100 ms. Ten times a second its
    registers are read. When it first answers, its advertisement is written and negotiation restarted. Where
    nobody answers, the next address is tried a tenth of a second later, also after a PHY has fallen silent.
    Unless it ``searches``: then the same is.

    The speed is the fastest that both ends can do. Of 1000 Mbit/s both receivers must be in order, too: a PHY
    that finds only two pairs in the cable links slower than both ends can.

    Parameters
    ----------
    clock_hz : :class:`int`
        Of ``sync``.
    phy : :class:`int`
        The address that is tried first, 0..31.
    fastest : :class:`Speed`
        The fastest that the interface and the board can do.
    searches : :class:`bool`
        There is one PHY, at any address. Where PHYs share the wires, each has an address that is known.
    """

    requests: Out(stream.Signature(MdioRequest))  #: To :class:`~inceptionn.hdl.mac.mdio.Mdio`.
    values: In(stream.Signature(16, always_ready=True))  #: From :class:`~inceptionn.hdl.mac.mdio.Mdio`.
    phy_reset: Out(1, init=1)  #: Active high.
    managed: Out(1)  #: A PHY answers.
    up: Out(1)  #: The link is up, negotiated, at full duplex.
    speed: Out(2)  #: Its :class:`Speed`.

    def __init__(self, clock_hz: int, *, phy: int, fastest: Speed, searches: bool = True):
        if not 0 <= phy <= 31:
            raise ValueError(f"a PHY's address must be 0..31, not {phy!r}")
        self.clock_hz = clock_hz
        self.phy = phy
        self.fastest = Speed(fastest)
        self.searches = searches
        super().__init__()

    def _script(self) -> list[tuple[bool, int, int]]:
        """Write or read, register, value: the status, what is written at first, the polls."""
        advertised = _SELECTOR | _FULL_10 | (_FULL_100 if self.fastest >= Speed.MBIT_100 else 0)
        setup = [(False, _STATUS, 0), (True, _ADVERTISED, advertised)]
        polls = [(False, _PARTNER, 0)]
        if self.fastest == Speed.MBIT_1000:
            setup.append((True, _GIGABIT_CONTROL, _FULL_1000))
            polls.append((False, _GIGABIT_STATUS, 0))
        return [*setup, (True, _CONTROL, _RESTART), *polls]

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        script = self._script()
        setup, first_poll = 1, next(i for i, entry in enumerate(script) if entry[1] == _PARTNER)
        reset_cycles, quiet_cycles = self.clock_hz // 100, self.clock_hz // 10
        state = Signal(_State)
        timer = Signal(range(quiet_cycles + 1))
        place = Signal(range(len(script)))
        phy = Signal(5, init=self.phy)
        write = Array(entry[0] for entry in script)[place]
        register = Array(entry[1] for entry in script)[place]
        linked = Signal()
        rate = Signal(2)
        able = Signal()
        last = place == len(script) - 1
        m.d.comb += [
            self.requests.valid.eq(state == _State.ASK),
            self.requests.payload.write.eq(write),
            self.requests.payload.phy.eq(phy),
            self.requests.payload.register.eq(register),
            self.requests.payload.value.eq(Array(entry[2] for entry in script)[place]),
        ]
        with m.Switch(state):
            with m.Case(_State.RESET):
                m.d.sync += timer.eq(timer + 1)
                with m.If(timer == reset_cycles):
                    m.d.sync += [self.phy_reset.eq(0), timer.eq(0), state.eq(_State.WAIT)]
            with m.Case(_State.WAIT):
                m.d.sync += timer.eq(timer + 1)
                with m.If(timer == quiet_cycles):
                    m.d.sync += [timer.eq(0), state.eq(_State.ASK)]
            with m.Case(_State.ASK), m.If(self.requests.ready):
                m.d.sync += state.eq(_State.ANSWER)
                with m.If(write):
                    m.d.sync += [place.eq(place + 1), state.eq(_State.ASK)]
            with m.Case(_State.ANSWER), m.If(self.values.valid):
                m.d.sync += [place.eq(Mux(last, 0, place + 1)), state.eq(_State.ASK)]
                with m.If(register == _STATUS):
                    m.d.sync += place.eq(Mux(self.managed, first_poll, setup))
                with m.If(last):
                    m.d.sync += state.eq(_State.PAUSE)
            with m.Case(_State.PAUSE):
                m.d.sync += [
                    self.up.eq(linked & able),
                    self.speed.eq(rate),
                    timer.eq(0),
                    state.eq(_State.WAIT),
                ]

        value = self.values.payload
        with m.If((state == _State.ANSWER) & self.values.valid):
            with m.If((register == _STATUS) & (value.all() | ~value.any())):
                # No PHY answers.
                m.d.sync += [self.managed.eq(0), linked.eq(0), phy.eq(phy + self.searches), place.eq(0)]
                m.d.sync += state.eq(_State.PAUSE)
            with m.Elif(register == _STATUS):
                # The link that was before the setup is gone.
                m.d.sync += linked.eq(value[_LINK_UP] & value[_NEGOTIATED] & self.managed)
                m.d.sync += self.managed.eq(1)
            with m.Elif(register == _PARTNER):
                fast = value[_PARTNER_FULL_100] & (self.fastest >= Speed.MBIT_100)
                m.d.sync += [rate.eq(fast), able.eq(fast | value[_PARTNER_FULL_10])]
            with m.Elif(value[_PARTNER_FULL_1000] & value[_LOCAL_RECEIVER] & value[_REMOTE_RECEIVER]):
                m.d.sync += [rate.eq(Speed.MBIT_1000), able.eq(1)]
        return m
