# SPDX-License-Identifier: BSD-2-Clause
"""An ECP5's pads for RGMII and RMII (Lattice FPGA-TN-02032, FPGA-TN-02035)."""

from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In

from inceptionn.hdl.inline.media import RgmiiMedium, RmiiMedium

STEP_PS = 25
"""Of a DELAYG."""
_MOST_STEPS = 127


def steps(picoseconds: int) -> int:
    """Count the steps of a pad's delay. Raise ``ValueError`` for one that a DELAYG does not have."""
    if picoseconds % STEP_PS or not 0 <= picoseconds // STEP_PS <= _MOST_STEPS:
        raise ValueError(
            f"a pad's delay must be 0..{STEP_PS * _MOST_STEPS} ps in steps of {STEP_PS}, not {picoseconds!r}"
        )
    return picoseconds // STEP_PS


def _member(group: Any, *names: str) -> Any:
    """Return the subsignal of a resource; boards name the control pins differently."""
    return next(getattr(group, name) for name in names if hasattr(group, name))


def _delayed(m: Module, name: str, value: Any, picoseconds: int) -> Signal:
    output = Signal(name=f"{name}_delayed")
    m.submodules[f"{name}_delay"] = Instance(
        "DELAYG", p_DEL_MODE="USER_DEFINED", p_DEL_VALUE=steps(picoseconds), i_A=value, o_Z=output
    )
    return output


class RgmiiPads(wiring.Component):
    """RGMII's pins with double-data-rate cells. Timing at the pins is the delays' alone: no tool checks it.

    RGMII 2.0 wants the clock 1 to 2.6 ns after the data at the receiver. Who delays it, FPGA or PHY, is the
    board's choice: ``transmit_ps`` delays the sent clock, ``receive_ps`` the received data.

    Parameters
    ----------
    resource
        The board's resource, requested without buffers: tx_clk, tx_ctl, tx_data, rx_clk, rx_ctl, rx_data.
    medium : :class:`RgmiiMedium`
        Whose domains the cells are in; the receive domain's clock is made here.
    transmit_ps, receive_ps : :class:`int`
        Delays in picoseconds, multiples of 25.
    """

    pins: In(RgmiiMedium.PINS)  #: To the medium.

    def __init__(self, resource: Any, medium: RgmiiMedium, *, transmit_ps: int, receive_ps: int):
        self.resource = resource
        self.medium = medium
        steps(transmit_ps), steps(receive_ps)
        self.transmit_ps = transmit_ps
        self.receive_ps = receive_ps
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        pins, resource = self.pins, self.resource
        m.submodules.rx_clk = rx_clk = io.Buffer("i", resource.rx_clk)
        m.d.comb += ClockSignal(self.medium.receive_domain).eq(rx_clk.i)

        def receive(name: str, port: Any, rise: Any, fall: Any) -> None:
            m.submodules[name] = buffer = io.Buffer("i", port)
            for bit in range(len(port)):
                m.submodules[f"{name}_ddr{bit}"] = Instance(
                    "IDDRX1F",
                    i_D=_delayed(m, f"{name}{bit}", buffer.i[bit], self.receive_ps),
                    i_SCLK=ClockSignal(self.medium.receive_domain),
                    i_RST=Const(0),
                    o_Q0=rise[bit],
                    o_Q1=fall[bit],
                )

        def transmit(name: str, port: Any, first: Any, second: Any, picoseconds: int) -> None:
            m.submodules[name] = buffer = io.Buffer("o", port)
            for bit in range(len(port)):
                output = Signal(name=f"{name}{bit}")
                m.submodules[f"{name}_ddr{bit}"] = Instance(
                    "ODDRX1F",
                    i_D0=first[bit],
                    i_D1=second[bit],
                    i_SCLK=ClockSignal(self.medium.transmit_domain),
                    i_RST=Const(0),
                    o_Q=output,
                )
                m.d.comb += buffer.o[bit].eq(_delayed(m, f"{name}{bit}", output, picoseconds))

        receive("rx_data", resource.rx_data, pins.rx.rise.data, pins.rx.fall.data)
        receive("rx_ctl", _member(resource, "rx_ctl", "rx_ctrl"), pins.rx.rise.control, pins.rx.fall.control)
        # All outputs go through a delay, so that they differ by no more than the delay asked for.
        transmit("tx_data", resource.tx_data, pins.tx.rise.data, pins.tx.fall.data, 0)
        transmit(
            "tx_ctl", _member(resource, "tx_ctl", "tx_ctrl"), pins.tx.rise.control, pins.tx.fall.control, 0
        )
        transmit("tx_clk", resource.tx_clk, pins.tx_clock[0], pins.tx_clock[1], self.transmit_ps)
        return m


class RmiiPads(wiring.Component):
    """RMII's pins with flip-flops at the pads; the PHY gives the reference clock of 50 MHz.

    The PHY changes its outputs some nanoseconds after the clock's rising edge, and the clock needs some more
    to the flip-flops, since PMOD pins reach no clock network directly. So the falling edge samples: in the
    middle of the data, whichever side makes the clock.

    Parameters
    ----------
    resource
        The board's resource, requested without buffers: ref_clk, txd, tx_en, rxd, crs_dv.
    medium : :class:`RmiiMedium`
    """

    pins: In(RmiiMedium.PINS)  #: To the medium. ``rx_er`` is low: modules seldom have it, and the FCS tells.

    def __init__(self, resource: Any, medium: RmiiMedium):
        self.resource = resource
        self.medium = medium
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        domain = self.medium.receive_domain
        m.submodules.ref_clk = ref_clk = io.Buffer("i", self.resource.ref_clk)
        m.d.comb += ClockSignal(domain).eq(ref_clk.i)
        for name in ("rxd", "crs_dv"):
            port = getattr(self.resource, name)
            m.submodules[name] = buffer = io.Buffer("i", port)
            for bit in range(len(port)):
                m.submodules[f"{name}_ddr{bit}"] = Instance(
                    "IDDRX1F",
                    i_D=buffer.i[bit],
                    i_SCLK=ClockSignal(domain),
                    i_RST=Const(0),
                    o_Q1=getattr(self.pins, name)[bit],
                )
        for name in ("txd", "tx_en"):
            m.submodules[name] = pad = io.FFBuffer("o", getattr(self.resource, name), o_domain=domain)
            m.d.comb += pad.o.eq(getattr(self.pins, name))
        return m
