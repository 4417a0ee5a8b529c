# SPDX-License-Identifier: BSD-2-Clause
"""The inline device without pads, clock generators and PHY management."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BURST_BYTES

from ..attach.axi_lite_decoder import AXI4LiteDecoder
from ..codec.codecs import PAPER
from ..codec.shape import EngineShape
from ..mac.port import EthernetPort
from ..nic import Nic
from .console import RegisterConsole
from .media import MEDIA
from .port_page import Link, PortPage
from .registers import ADDRESS_WIDTH, PAGE_WIDTH, PORTS

ENGINE_HZ = 50_000_000
"""Clock of ``sync``. A port at 1000 Mbit/s needs more than 31.25 MHz, the engines alone a tenth of that."""
BAUD = 115_200
_PASS_BYTES = 8
_HOST_BYTES = 65_536
_QUEUE_BYTES = 16_384


class InlineDevice(wiring.Component):
    """Two Ethernet ports with the engines between them, and a serial line for the registers.

    ::

                        <host>_rx  │ sync, 50 MHz                              │ network's clocks
                                   │  ┌─ Nic ─────────────────────┐            │
        host ──► medium ──► MAC ──►│──┼─► compression engine ─────┼──►queue ──►│──► MAC ──► medium ──► network
         1, 4 bytes a beat         │4 │ 32                        │ 32      4  │
        host ◄── medium ◄── MAC ◄──│◄─┼─◄ decompression engine ◄──┼──◄queue ◄──│◄── MAC ◄── medium ◄── network
                        mac        │  └────────── s_axil ─────────┘            │
                                   │                 ▲
        rx, tx ◄───────────────────┼── console ── decoder ── port page ◄── events, links of both ports

    A MAC works octet by octet in its medium's clocks. Beats of 4 bytes cross to ``sync`` and wait there in
    :class:`~inceptionn.hdl.attach.frame_queue.FrameQueue` until the frame is whole. Queues: 64 KiB for frames
    from the host, since its bursts come at the host's rate and leave at the uplink's; 16 KiB each for the
    others. A good frame without room is lost whole and counted. Everything that is neither tagged nor damaged
    passes bit for bit; a frame of fewer than 60 bytes is padded, and PAUSE is dropped.

    Registers (:func:`~inceptionn.hdl.inline.registers.inline_registers`): the NIC's at 0x0000, the ports' at
    0x1000. The serial line speaks :class:`~inceptionn.hdl.inline.console.RegisterConsole`'s lines. Any clock
    domain may be reset alone; see :class:`~inceptionn.hdl.mac.port.EthernetPort`.

    Parameters
    ----------
    host, network : :class:`str`
        Media interfaces: "rgmii" or "rmii".
    codec : :class:`str` or None
        Name of the lane codec; None: no engines, frames pass unchanged from port to port.
    bf16 : :class:`bool`
        With bf16 lanes, too, which the codec planes alone has.
    clock_hz : :class:`int`
        Of ``sync``.
    baud : :class:`int`
        Bits per second of the serial line.
    """

    def __init__(
        self,
        *,
        host: str = "rgmii",
        network: str = "rmii",
        codec: str | None = PAPER,
        bf16: bool = False,
        clock_hz: int = ENGINE_HZ,
        baud: int = BAUD,
    ):
        self.media: dict[str, Any] = {}
        for name, interface in zip(PORTS, (host, network), strict=True):
            if interface not in MEDIA:
                raise ValueError(f"media interface must be one of {', '.join(MEDIA)}, not {interface!r}")
            self.media[name] = MEDIA[interface](name)
        self.codec = codec
        self.bf16 = bf16
        self.clock_hz = clock_hz
        self.baud = baud
        super().__init__(
            {
                #: Pins (:data:`~inceptionn.hdl.inline.media.MEDIA`), in the medium's domains.
                "host": Out(self.media["host"].PINS),
                "network": Out(self.media["network"].PINS),  #: Likewise.
                "host_managed": In(Link),  #: What the PHY's registers say, in ``sync``.
                "network_managed": In(Link),  #: Likewise.
                "rx": In(1),  #: The serial line; asynchronous.
                "tx": Out(1, init=1),  #: The serial line.
            }
        )

    def _port(self, m: Module, name: str, page: PortPage) -> EthernetPort:
        """Add a port with its medium, its events and its link."""
        medium = self.media[name]
        port = EthernetPort(
            receive_domain=medium.receive_domain,
            transmit_domain=medium.transmit_domain,
            wide_bytes=_PASS_BYTES if self.codec is None else BURST_BYTES,
            receive_bytes=_HOST_BYTES if name == "host" else _QUEUE_BYTES,
            transmit_bytes=_QUEUE_BYTES,
        )
        m.submodules[f"{name}_medium"] = medium
        m.submodules[f"{name}_port"] = port
        number = PORTS.index(name)
        wiring.connect(m, medium.received, port.received)
        wiring.connect(m, port.sent, medium.sent)
        wiring.connect(m, medium.pins, wiring.flipped(getattr(self, name)))
        m.d.comb += [
            medium.managed.eq(getattr(self, f"{name}_managed")),
            page.links[number].eq(medium.link),
            page.events[number].eq(port.events),
        ]
        return port

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.port_page = page = PortPage()
        m.submodules.console = console = RegisterConsole(round(self.clock_hz / self.baud), ADDRESS_WIDTH)
        m.submodules.decoder = decoder = AXI4LiteDecoder(2, page_width=PAGE_WIDTH, addr_width=ADDRESS_WIDTH)
        wiring.connect(m, console.m_axil, decoder.s_axil)
        wiring.connect(m, decoder.m_axil[1], page.s_axil)
        m.d.comb += [console.rx.eq(self.rx), self.tx.eq(console.tx), decoder.alive[1].eq(1)]
        host, network = (self._port(m, name, page) for name in PORTS)
        if self.codec is None:
            wiring.connect(m, host.m_axis, network.s_axis)
            wiring.connect(m, network.m_axis, host.s_axis)
            return m
        m.submodules.nic = nic = Nic(EngineShape.of(codec=self.codec, bf16=self.bf16))
        m.d.comb += decoder.alive[0].eq(1)
        wiring.connect(m, decoder.m_axil[0], nic.s_axil)
        for source, sink in (
            (host.m_axis, nic.s_axis_tx),
            (nic.m_axis_tx, network.s_axis),
            (network.m_axis, nic.s_axis_rx),
            (nic.m_axis_rx, host.s_axis),
        ):
            wiring.connect(m, source, sink)
        return m
