# SPDX-License-Identifier: BSD-2-Clause
"""Shell for Corundum's application block, at the ``sync`` tap; ``mqnic_app_block`` wraps it."""

from typing import Any

from amaranth.hdl import Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.attach.user_forwarder import UserForwarder
from inceptionn.hdl.attach.width_adapter import Narrower, Widener
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.axi_lite import AXI4Lite
from inceptionn.hdl.control.registers import ADDRESS_WIDTH
from inceptionn.wire import GROUP_LANES

from ..shell_parts import EnginePair, TargetStream, clock_domain, link, share_registers

MAX_PORTS = 8
_WIDE = EngineShape.of(2 * GROUP_LANES)
TX_TAG_WIDTH = 32
"""Bits above ``tuser[0]`` of a frame to the MAC: a tag, 16 bits by default."""
RX_TIMESTAMP_WIDTH = 96
"""Bits above ``tuser[0]`` of a received frame: its PTP timestamp."""
BUS_ADDRESS_WIDTH = 32
"""The application's BAR has 24 bits on Corundum's boards; all of an address counts."""


class CorundumShell(wiring.Component):
    """One engine pair per port; ``tuser`` bypasses it, frame by frame.

    ``tuser[0]`` at ``tlast`` means *bad* on all streams. The bits above are those of a frame's first beat
    and are repeated with all beats. Streams narrower than the engine's are widened before it and narrowed
    after it. Wider streams are refused: the MAC does not wait, and the engine would be too slow for it.

    Parameters
    ----------
    ports : :class:`int`
        1 to 8.
    data_bytes : :class:`int`
        Width of the streams: 8, 16, 32 or 64.
    shape : :class:`EngineShape`
        Of the engines, with 16 lanes for 64 bytes.
    """

    WIDTHS = (8, 16, 32, 64)

    def __init__(self, ports: int = 1, *, data_bytes: int = 64, shape: EngineShape = _WIDE):
        if not 1 <= ports <= MAX_PORTS:
            raise ValueError(f"ports must be 1..{MAX_PORTS}, not {ports!r}")
        if data_bytes not in self.WIDTHS:
            raise ValueError(f"stream width in bytes must be one of {self.WIDTHS}, not {data_bytes!r}")
        if data_bytes > shape.bytes:
            raise ValueError(f"lanes must be 16 for a stream of {data_bytes} bytes, not {shape.lanes!r}")
        self.ports = ports
        self.data_bytes = data_bytes
        self.shape = shape
        members: dict[str, Any] = {
            "clk": In(1),  #: Clock of all streams and registers.
            "rst": In(1),  #: Reset, active high.
        }
        tx = TargetStream(data_bytes, TX_TAG_WIDTH + 1)
        rx = TargetStream(data_bytes, RX_TIMESTAMP_WIDTH + 1)
        for n in range(ports):
            members |= {
                f"s_axis_tx{n}": In(tx),  #: Frames from the host.
                f"m_axis_tx{n}": Out(tx),  #: Frames to the MAC.
                f"s_axis_rx{n}": In(rx),  #: Frames from the MAC.
                f"m_axis_rx{n}": Out(rx),  #: Frames to the host.
            }
        #: Port n's registers from ``0x1000 * n`` on, ``SLVERR`` after the last port's.
        members["s_axil"] = In(AXI4Lite(BUS_ADDRESS_WIDTH))
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        clock_domain(m, "sync", self.clk, self.rst)
        engines = []
        for n in range(self.ports):
            m.submodules[f"engines{n}"] = engine = EnginePair(shape=self.shape)
            engines.append(engine)
            for way, width in (("tx", TX_TAG_WIDTH), ("rx", RX_TIMESTAMP_WIDTH)):
                source, sink = (getattr(self, f"{side}_axis_{way}{n}") for side in "sm")
                user = UserForwarder(self.data_bytes, width, bad_bit=True)
                m.submodules[f"{way}_user{n}"] = user
                link(m, source, user.s_axis)
                self._adapt(m, f"{way}_in{n}", user.to_engine, getattr(engine, f"s_axis_{way}"))
                self._adapt(m, f"{way}_out{n}", getattr(engine, f"m_axis_{way}"), user.from_engine)
                link(m, user.m_axis, sink)
                with m.If(ResetSignal()):  # AXI4-Stream requires it from the first cycle of a reset
                    m.d.comb += sink.tvalid.eq(0)
        share_registers(m, self.s_axil, engines, page_width=ADDRESS_WIDTH, domain="sync")
        return m

    @staticmethod
    def _adapt(m: Module, name: str, source: Any, sink: Any) -> None:
        """Connect ``source`` to ``sink``, through an adapter if their widths differ."""
        widths = len(source.tkeep), len(sink.tkeep)
        if widths[0] == widths[1]:
            wiring.connect(m, source, sink)
            return
        adapter = (Widener if widths[0] < widths[1] else Narrower)(*widths)
        m.submodules[name] = adapter
        wiring.connect(m, source, adapter.s_axis)
        wiring.connect(m, adapter.m_axis, sink)
