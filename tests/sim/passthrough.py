# SPDX-License-Identifier: BSD-2-Clause
"""A component with the ports of ``inceptionn_nic`` that passes every frame, or breaks one rule on request."""

from typing import Any

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.parts.axi import AXIStream

FAULTS = {
    "none": 0,
    "drops valid": 1,  # tvalid falls while tready is low
    "changes payload": 2,  # tdata changes while tready is low
    "gap in keep": 3,  # the last beat's tkeep lacks bit 0
    "short beat": 4,  # tkeep is not all ones before tlast
    "hangs": 5,  # takes beats, gives none
    "swallows frames": 6,  # tlast never comes out
    "invents frames": 7,  # a frame of one beat comes out by itself
}
SCRATCH = 0x10
"""Address of the one register: its value is the fault. Anything else answers SLVERR."""


class LiteBus(wiring.Signature):
    """AXI4-Lite as seen from the manager."""

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(12), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
                "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
                "bresp": In(2), "bvalid": In(1), "bready": Out(1),
                "araddr": Out(12), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
                "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
            }
        )  # fmt: skip


class PassThrough(wiring.Component):
    """One register per stream; a frame leaves one cycle after it came, beat by beat."""

    s_axis_tx: In(AXIStream())
    m_axis_tx: Out(AXIStream())
    s_axis_rx: In(AXIStream())
    m_axis_rx: Out(AXIStream())
    s_axil: In(LiteBus())

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fault = Signal(8)
        self._registers(m, fault)
        for name, source, sink in (
            ("tx", self.s_axis_tx, self.m_axis_tx),
            ("rx", self.s_axis_rx, self.m_axis_rx),
        ):
            self._stream(m, name, source, sink, fault)
        return m

    def _registers(self, m: Module, fault: Signal) -> None:
        bus = self.s_axil
        with m.If(bus.awvalid & bus.wvalid & ~bus.bvalid):
            m.d.comb += [bus.awready.eq(1), bus.wready.eq(1)]
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(Mux(bus.awaddr == SCRATCH, 0, 2))]
            with m.If((bus.awaddr == SCRATCH) & bus.wstrb[0]):
                m.d.sync += fault.eq(bus.wdata)
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.arvalid & ~bus.rvalid):
            m.d.comb += bus.arready.eq(1)
            m.d.sync += [
                bus.rvalid.eq(1),
                bus.rdata.eq(fault),
                bus.rresp.eq(Mux(bus.araddr == SCRATCH, 0, 2)),
            ]
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += bus.rvalid.eq(0)

    def _stream(self, m: Module, name: str, source: Any, sink: Any, fault: Signal) -> None:
        data, keep = Signal(256, name=f"{name}_data"), Signal(32, name=f"{name}_keep")
        last, valid = Signal(name=f"{name}_last"), Signal(name=f"{name}_valid")
        user, waited = Signal(name=f"{name}_user"), Signal(name=f"{name}_waited")
        idle = Signal(8, name=f"{name}_idle")
        m.d.sync += [waited.eq(valid & ~sink.tready), idle.eq(Mux(source.tvalid | valid, 0, idle + 1))]
        m.d.comb += [
            source.tready.eq(~valid | sink.tready),
            sink.tvalid.eq(valid),
            sink.tdata.eq(data),
            sink.tkeep.eq(keep),
            sink.tlast.eq(last),
            sink.tuser.eq(user & last),
        ]
        with m.If(source.tready):
            m.d.sync += valid.eq(source.tvalid)
            m.d.sync += [
                x.eq(y)
                for x, y in (
                    (data, source.tdata), (keep, source.tkeep), (last, source.tlast), (user, source.tuser),
                )
            ]  # fmt: skip
        with m.Switch(fault):
            with m.Case(FAULTS["drops valid"]):
                m.d.comb += sink.tvalid.eq(valid & ~waited)
            with m.Case(FAULTS["changes payload"]):
                m.d.comb += sink.tdata.eq(data ^ waited)
            with m.Case(FAULTS["gap in keep"]):
                m.d.comb += sink.tkeep.eq(Mux(last, keep & ~1, keep))
            with m.Case(FAULTS["short beat"]):
                m.d.comb += sink.tkeep.eq(Mux(last, keep, keep >> 1))
            with m.Case(FAULTS["hangs"]):
                m.d.comb += [source.tready.eq(1), sink.tvalid.eq(0)]
            with m.Case(FAULTS["swallows frames"]):
                m.d.comb += [sink.tvalid.eq(valid & ~last), source.tready.eq(~valid | sink.tready | last)]
            with m.Case(FAULTS["invents frames"]), m.If(idle == 20):
                m.d.sync += [valid.eq(1), last.eq(1), keep.eq(~0)]
