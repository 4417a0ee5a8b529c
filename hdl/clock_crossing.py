# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Stream and AXI4-Lite from one clock to another."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.async_queue import AsyncQueue
from inceptionn.hdl.axi import AXIStream
from inceptionn.hdl.axi_lite import AXI4Lite
from inceptionn.wire import BURST_BYTES


class StreamCrossing(wiring.Component):
    """A stream from one clock to another, beat by beat, through an :class:`AsyncQueue`.

    One beat per cycle of the slower clock. Frames may show gaps behind it where the writing clock is the
    slower one; a MAC that takes none needs a :class:`~inceptionn.hdl.frame_queue.FrameQueue` behind.

    Parameters
    ----------
    write_domain, read_domain : :class:`str`
        Clock domains of ``s_axis`` and ``m_axis``.
    data_bytes, user_width : :class:`int`
        As of :class:`AXIStream`.
    depth : :class:`int`
        Beats; a power of two.

    Members
    -------
    s_axis : :py:`In(AXIStream(data_bytes, user_width))`
    m_axis : :py:`Out(AXIStream(data_bytes, user_width))`
    """

    def __init__(
        self,
        *,
        write_domain: str,
        read_domain: str,
        data_bytes: int = BURST_BYTES,
        user_width: int = 1,
        depth: int = 32,
    ):
        self.write_domain = write_domain
        self.read_domain = read_domain
        self.depth = depth
        stream = AXIStream(data_bytes, user_width)
        self.shape = data.StructLayout(
            {"tdata": 8 * data_bytes, "tkeep": data_bytes, "tuser": user_width, "tlast": 1}
        )
        super().__init__({"s_axis": In(stream), "m_axis": Out(stream)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.queue = queue = AsyncQueue(
            self.shape, self.depth, write_domain=self.write_domain, read_domain=self.read_domain
        )
        m.d.comb += [
            queue.write_valid.eq(self.s_axis.tvalid),
            self.s_axis.tready.eq(queue.write_ready),
            self.m_axis.tvalid.eq(queue.valid),
            queue.pop.eq(self.m_axis.tready),
        ]
        for name in self.shape.members:
            m.d.comb += [
                queue.write_data[name].eq(getattr(self.s_axis, name)),
                getattr(self.m_axis, name).eq(queue.data[name]),
            ]
        return m


CHANNELS = {
    "aw": ("awaddr", "awprot"),
    "w": ("wdata", "wstrb"),
    "ar": ("araddr", "arprot"),
    "b": ("bresp",),
    "r": ("rdata", "rresp"),
}
"""AXI4-Lite's channels: prefix of valid and ready to what they carry (Arm IHI 0022, A2)."""


class AXI4LiteCrossing(wiring.Component):
    """AXI4-Lite from the master's clock to the slave's; each channel through an :class:`AsyncQueue`.

    A reset of the slave's side forgets what is under way. The master's side must not be reset alone while
    an access is under way: the slave's answer to it would be taken for that to the next access. Reset both
    sides then, or wait for the answer first.

    Parameters
    ----------
    master_domain, slave_domain : :class:`str`
        Clock domains of the side that asks and of the side that answers.
    addr_width : :class:`int`

    Members
    -------
    s_axil : :py:`In(AXI4Lite(addr_width))`
        To the master.
    m_axil : :py:`Out(AXI4Lite(addr_width))`
        To the slave.
    """

    DEPTH = 8

    def __init__(self, *, master_domain: str, slave_domain: str, addr_width: int):
        self.master_domain = master_domain
        self.slave_domain = slave_domain
        self.addr_width = addr_width
        super().__init__({"s_axil": In(AXI4Lite(addr_width)), "m_axil": Out(AXI4Lite(addr_width))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for prefix, names in CHANNELS.items():
            source, sink = self.s_axil, self.m_axil
            domains = self.master_domain, self.slave_domain
            if prefix in "br":
                source, sink = sink, source
                domains = domains[1], domains[0]
            shape = data.StructLayout({name: getattr(source, name).shape() for name in names})
            queue = AsyncQueue(shape, self.DEPTH, write_domain=domains[0], read_domain=domains[1])
            m.submodules[prefix] = queue
            m.d.comb += [
                queue.write_valid.eq(getattr(source, f"{prefix}valid")),
                getattr(source, f"{prefix}ready").eq(queue.write_ready),
                getattr(sink, f"{prefix}valid").eq(queue.valid),
                queue.pop.eq(getattr(sink, f"{prefix}ready")),
            ]
            for name in names:
                m.d.comb += [
                    queue.write_data[name].eq(getattr(source, name)),
                    getattr(sink, name).eq(queue.data[name]),
                ]
        return m
