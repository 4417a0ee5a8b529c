# SPDX-License-Identifier: BSD-2-Clause
"""The inline device without pads, clock generators and PHY management."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES

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
SERIAL_HZ = 62_500_000
"""The same with engines of one lane: 500 MHz / 8. Frames of 60 to 9014 bytes of gradients need 57 MHz at
1000 Mbit/s; full ones that do not shrink 69 MHz, and the slowest for their time on the line, payloads of 64
bytes that do not shrink, 74 MHz.
"""
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

    With engines of one lane all beats have 4 bytes, and the engines' own stores of 16 KiB take the place of
    both receive queues.

    Registers (:func:`~inceptionn.hdl.inline.registers.inline_registers`): the NIC's at 0x0000, the ports' at
    0x1000. The serial line speaks :class:`~inceptionn.hdl.inline.console.RegisterConsole`'s lines. Any clock
    domain may be reset alone; see :class:`~inceptionn.hdl.mac.port.EthernetPort`.

    Parameters
    ----------
    host, network : :class:`str`
        Media interfaces: "rgmii" or "rmii".
    codec : :class:`str` or None
        Name of the lane codec; None: no engines, frames pass unchanged from port to port.
    lanes : :class:`int`
        Of each engine: 1 or 8.
    bf16 : :class:`bool`
        With bf16 lanes, too, which the codec planes alone has.
    clock_hz : :class:`int`
        Of ``sync``; by default :data:`ENGINE_HZ`, or :data:`SERIAL_HZ` with engines of one lane.
    baud : :class:`int`
        Bits per second of the serial line.
    """

    def __init__(
        self,
        *,
        host: str = "rgmii",
        network: str = "rmii",
        codec: str | None = PAPER,
        lanes: int = GROUP_LANES,
        bf16: bool = False,
        clock_hz: int | None = None,
        baud: int = BAUD,
    ):
        self.media: dict[str, Any] = {}
        for name, interface in zip(PORTS, (host, network), strict=True):
            if interface not in MEDIA:
                raise ValueError(f"media interface must be one of {', '.join(MEDIA)}, not {interface!r}")
            self.media[name] = MEDIA[interface](name)
        self.shape = None if codec is None else EngineShape.of(lanes, codec, bf16)
        self.serial = self.shape is not None and self.shape.serial
        self.clock_hz = clock_hz or (SERIAL_HZ if self.serial else ENGINE_HZ)
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
            wide_bytes=self.shape.bytes if self.shape else _PASS_BYTES,
            receive_bytes=0 if self.serial else _HOST_BYTES if name == "host" else _QUEUE_BYTES,
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
        if self.shape is None:
            wiring.connect(m, host.m_axis, network.s_axis)
            wiring.connect(m, network.m_axis, host.s_axis)
            return m
        m.submodules.nic = nic = Nic(self.shape, lossy=self.serial)
        m.d.comb += decoder.alive[0].eq(1)
        wiring.connect(m, decoder.m_axil[0], nic.s_axil)
        for source, sink in (
            (host.m_axis, nic.s_axis_tx),
            (nic.m_axis_tx, network.s_axis),
            (network.m_axis, nic.s_axis_rx),
            (nic.m_axis_rx, host.s_axis),
        ):
            wiring.connect(m, source, sink)
        if self.serial:
            m.d.comb += [host.dropped.eq(nic.dropped_tx), network.dropped.eq(nic.dropped_rx)]
        return m
