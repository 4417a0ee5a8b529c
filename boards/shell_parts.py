# SPDX-License-Identifier: BSD-2-Clause
"""Parts of all shells: the engine pair as an instance, streams in a target's form, Verilog output."""

from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.attach.async_queue import CrossingPlatform
from inceptionn.hdl.attach.axi_lite_decoder import AXI4LiteDecoder
from inceptionn.hdl.attach.clock_crossing import AXI4LiteCrossing
from inceptionn.hdl.codec.shape import USUAL, EngineShape
from inceptionn.hdl.control.axi_lite import AXI4Lite
from inceptionn.hdl.control.registers import ADDRESS_WIDTH, REGISTERS
from inceptionn.hdl.parts.axi import AXIStream
from inceptionn.hdl.verilog import PortDirection, convert, flat_ports

from .board import ENGINE

PAGE_WIDTH = max(register.offset + register.width // 8 - 1 for register in REGISTERS).bit_length()
"""Address bits of an engine pair's registers: a page of 1 KiB, four of them in 4 KiB."""


class TargetStream(wiring.Signature):
    """AXI4-Stream in a target's form: as :class:`~inceptionn.hdl.parts.axi.AXIStream`, ``tuser`` optional.

    Parameters
    ----------
    data_bytes : :class:`int`
    user_width : :class:`int`
        0: there is no ``tuser``.
    """

    def __init__(self, data_bytes: int, user_width: int = 0):
        self.data_bytes = data_bytes
        self.user_width = user_width
        members = {"tdata": Out(8 * data_bytes), "tkeep": Out(data_bytes)}
        members |= {"tuser": Out(user_width)} if user_width else {}
        super().__init__(members | {"tlast": Out(1), "tvalid": Out(1), "tready": In(1)})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TargetStream) and self.members == other.members

    def __repr__(self) -> str:
        return f"TargetStream(data_bytes={self.data_bytes}, user_width={self.user_width})"


def link(m: Module, source: Any, sink: Any, *, user: Any = None) -> None:
    """Connect two streams of equal width and any kind; ``user`` is the sink's ``tuser``.

    Without ``user``, ``tuser`` is passed on if both have one, and 0 otherwise.
    """
    m.d.comb += [
        sink.tdata.eq(source.tdata),
        sink.tkeep.eq(source.tkeep),
        sink.tlast.eq(source.tlast),
        sink.tvalid.eq(source.tvalid),
        source.tready.eq(sink.tready),
    ]
    if user is not None:
        m.d.comb += sink.tuser.eq(user)
    elif hasattr(source, "tuser") and hasattr(sink, "tuser"):
        m.d.comb += sink.tuser.eq(source.tuser)


class EnginePair(wiring.Component):
    """The module ``inceptionn_nic`` as an instance, so that it is written and synthesised once.

    Parameters
    ----------
    domain : :class:`str`
        Its clock domain.
    shape, engines
        As of :class:`~inceptionn.hdl.nic.Nic`.
    """

    def __init__(self, domain: str = "sync", shape: EngineShape = USUAL, *, engines: int = 1):
        self.domain = domain
        self.engines = engines
        self.shape = shape
        stream = AXIStream(engines * shape.bytes)
        super().__init__(
            {
                "s_axis_tx": In(stream),  #: As of :class:`~inceptionn.hdl.nic.Nic`.
                "s_axis_rx": In(stream),  #: Likewise.
                "m_axis_tx": Out(stream),  #: Likewise.
                "m_axis_rx": Out(stream),  #: Likewise.
                "s_axil": In(AXI4Lite()),  #: Likewise.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        resetn = Signal()
        m.d.comb += resetn.eq(~ResetSignal(self.domain))
        ports: dict[str, Any] = {"i_aclk": ClockSignal(self.domain), "i_aresetn": resetn}
        for name, (value, direction) in flat_ports(self).items():
            ports[f"{'i' if direction is PortDirection.Input else 'o'}_{name}"] = value
        m.submodules.engine = Instance(ENGINE, **ports)
        return m


def clock_domain(m: Module, name: str, clock: Signal, reset: Any) -> None:
    """Make a domain on the port ``clock``.

    ``reset`` (active high) sets it at once and releases with the clock.
    """
    domain = ClockDomain(name)
    domain.clk = clock
    m.domains += domain
    m.submodules[f"{name}_reset"] = ResetSynchronizer(reset, domain=name)


def share_registers(
    m: Module, bus: Any, engines: list[EnginePair], *, page_width: int, domain: str = "axil"
) -> None:
    """Connect the register banks of all engines to ``bus``, in the clock domain ``domain``.

    Engine n answers from ``n << page_width`` on; every engine may have a clock and a reset of its own.
    """
    decoder = AXI4LiteDecoder(len(engines), page_width=page_width, addr_width=bus.awaddr.shape().width)
    m.submodules.decoder = DomainRenamer(domain)(decoder)
    wiring.connect(m, wiring.flipped(bus), decoder.s_axil)
    for n, engine in enumerate(engines):
        if engine.domain == domain:
            m.d.comb += decoder.alive[n].eq(1)
            link_registers(m, decoder.m_axil[n], engine.s_axil)
            continue
        crossing = AXI4LiteCrossing(
            master_domain=domain, slave_domain=engine.domain, addr_width=ADDRESS_WIDTH
        )
        m.submodules[f"registers{n}"] = crossing
        m.d.comb += decoder.alive[n].eq(crossing.alive)
        link_registers(m, decoder.m_axil[n], crossing.s_axil)
        wiring.connect(m, crossing.m_axil, engine.s_axil)


def link_registers(m: Module, master: Any, slave: Any) -> None:
    """Connect two AXI4-Lite ports; the slave's address may be wider."""
    for name, member in AXI4Lite().members.items():
        source, sink = getattr(master, name), getattr(slave, name)
        m.d.comb += sink.eq(source) if member.flow is wiring.Out else source.eq(sink)


def emit(shell: wiring.Component, module: str, sources: dict[str, str] | None = None) -> str:
    """Emit a shell as Verilog-2001, without the engine it instantiates; synchronisers keep their attributes.

    ``sources`` as for :func:`~inceptionn.hdl.verilog.to_rtlil`.
    """
    return convert(shell, module, platform=CrossingPlatform(), has_clocks=True, sources=sources)
