# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of EthernetPort behind RGMII: frames both ways, overflow, resets of one clock alone."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSource
from cocotbext.eth import GmiiFrame, RgmiiPhy

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import StreamSink, silence

SPEED = bench_parameters()["speed"]  # Mbit/s
CLOCK_PS = bench_parameters()["clock_ps"]  # of the engines
OCTET_NS = 8000 // SPEED
EVENTS = ("good", "error", "short", "fcs", "control", "overflow", "unsent", "underrun", "sent")
QUEUE_BYTES = 16384


class TB:
    """The engines' side of the port, and the PHY."""

    def __init__(self, dut):
        self.dut = dut
        pins = [getattr(dut, f"rgmii_{name}") for name in ("txd", "tx_ctl", "tx_clk", "rxd", "rx_ctl")]
        self.phy = RgmiiPhy(*pins, dut.rx_clk, speed=SPEED * 1e6)
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk, dut.rst)
        self.sink = StreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.clk, dut.rst)
        silence(self.phy.tx, self.phy.rx, self.source, self.sink)
        self.events = dict.fromkeys(EVENTS, 0)

    @classmethod
    async def started(cls, dut) -> TB:
        resets = dut.rst, dut.tx_rst, dut.rx_rst
        dut.rgmii_speed.value = {100: 1, 1000: 2}[SPEED]
        for reset in resets:
            reset.value = 1
        tb = cls(dut)
        Clock(dut.clk, CLOCK_PS, unit="ps").start()
        Clock(dut.tx_clk125, 8000, unit="ps").start()
        await Timer(2, "ns")
        Clock(dut.clk_late, 8000, unit="ps").start()
        await Timer(20 * OCTET_NS, "ns")
        for reset in resets:
            reset.value = 0
        await Timer(60 * OCTET_NS, "ns")
        cocotb.start_soon(tb._count())
        return tb

    async def _count(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            bits = int(self.dut.events.value)
            for place, name in enumerate(EVENTS):
                self.events[name] += bits >> place & 1

    async def quiet(self) -> None:
        """Until both directions have been idle for some time."""
        await self.phy.rx.wait()
        await self.source.wait()
        idle = 0
        for _ in range(100_000):
            await Timer(16 * OCTET_NS, "ns")
            idle = idle + 1 if self.phy.tx.idle() and self.sink.idle() else 0
            if idle == 20:
                return
        raise AssertionError("the port does not become idle")

    def received(self) -> list[bytes]:
        """All frames on the engines' side; none is marked bad."""
        frames = []
        while not self.sink.empty():
            frame = self.sink.recv_nowait()
            assert not any(frame.tuser if isinstance(frame.tuser, list) else [frame.tuser])
            frames.append(bytes(frame.tdata))
        return frames

    def sent(self) -> list[bytes]:
        """All frames on the wire that a receiver would take."""
        frames = []
        while not self.phy.tx.empty():
            frame = self.phy.tx.recv_nowait()
            if frame.check_fcs() and not any(frame.error or []):
                frames.append(bytes(frame.get_payload()))
        return frames


def frames_of(lengths: list[int]) -> list[bytes]:
    return [random.randbytes(12) + b"\x08\x00" + random.randbytes(length - 14) for length in lengths]


@cocotb.test(timeout_time=200_000 * OCTET_NS, timeout_unit="ns")
async def both_ways_at_line_rate(dut):
    """Short, full and jumbo frames back to back in both directions: all arrive, and nothing else."""
    tb = await TB.started(dut)
    lengths = [60, 60, 60, 61, 62, 63, 64, 65, 1514, 1514, 60, 1000] + ([9014, 60] if SPEED == 1000 else [])
    out, back = frames_of(lengths), frames_of(lengths[::-1])
    for data in out:
        await tb.source.send(AxiStreamFrame(data))
    for data in back:
        await tb.phy.rx.send(GmiiFrame.from_payload(data))
    await tb.quiet()
    assert tb.sent() == out
    assert tb.received() == back
    assert tb.events == {**dict.fromkeys(EVENTS, 0), "good": len(back), "sent": len(out)}


@cocotb.test(timeout_time=200_000 * OCTET_NS, timeout_unit="ns")
async def bad_frames_end_here(dut):
    """Neither a damaged frame nor one that is marked bad goes any farther."""
    tb = await TB.started(dut)
    good = frames_of([100, 200, 300])
    damaged = bytearray(GmiiFrame.from_payload(good[0]).data)
    damaged[40] ^= 1
    for frame in (GmiiFrame(damaged), *map(GmiiFrame.from_payload, good), GmiiFrame(damaged)):
        await tb.phy.rx.send(frame)
    for data in good:
        await tb.source.send(AxiStreamFrame(data, tuser=[0] * (len(data) - 1) + [1]))
        await tb.source.send(AxiStreamFrame(data))
    await tb.quiet()
    assert tb.received() == good
    assert tb.sent() == good
    assert tb.events == {**dict.fromkeys(EVENTS, 0), "good": 3, "fcs": 2, "unsent": 3, "sent": 3}


@cocotb.test(timeout_time=200_000 * OCTET_NS, timeout_unit="ns")
async def overflow_loses_whole_frames(dut):
    """Check that, if the engines stop, frames without room are lost whole and counted; the rest arrives."""
    tb = await TB.started(dut)
    tb.sink.pause = True
    data = frames_of([1514] * (QUEUE_BYTES // 1514 + 4))
    for frame in data:
        await tb.phy.rx.send(GmiiFrame.from_payload(frame))
    await tb.phy.rx.wait()
    await Timer(100 * OCTET_NS, "ns")
    tb.sink.pause = False
    await tb.quiet()
    received = tb.received()
    assert len(received) + tb.events["overflow"] == len(data) == tb.events["good"]
    assert tb.events["overflow"] >= 3
    assert received == data[: len(received)]


@cocotb.test(timeout_time=200_000 * OCTET_NS, timeout_unit="ns")
async def resets(dut):
    """One clock's reset inside frames: every frame that arrives is one that was sent, and traffic goes on."""
    tb = await TB.started(dut)
    for name in ("rst", "tx_rst", "rx_rst") * 4:
        out, back = frames_of([400] * 6), frames_of([400] * 6)
        for data in out:
            await tb.source.send(AxiStreamFrame(data))
        for data in back:
            await tb.phy.rx.send(GmiiFrame.from_payload(data))
        await Timer(random.randrange(600, 1400) * OCTET_NS, "ns")
        reset = getattr(dut, name)
        reset.value = 1
        await Timer(random.randrange(1, 40) * OCTET_NS + 50, "ns")
        reset.value = 0
        if name == "rst":
            tb.source.clear()
        await tb.quiet()
        sent, received = tb.sent(), tb.received()
        assert [data for data in out if data in sent] == sent, name
        assert [data for data in back if data in received] == received, name
        assert len(received) >= (6 if name == "tx_rst" else 3), (name, len(received))
        assert len(sent) >= {"rst": 0, "tx_rst": 4, "rx_rst": 6}[name], (name, len(sent))
        # Nothing of it is left: the next frames but one pass.
        more = frames_of([100] * 3)
        for data in more:
            await tb.source.send(AxiStreamFrame(data))
            await tb.phy.rx.send(GmiiFrame.from_payload(data))
        await tb.quiet()
        sent = tb.sent()
        assert tb.received() == more, name
        assert sent == more or (name == "rst" and sent == more[1:]), name


@cocotb.test(timeout_time=200_000 * OCTET_NS, timeout_unit="ns")
async def resets_are_no_events(dut):
    """While no frame passes, a reset of one clock alone counts nothing."""
    tb = await TB.started(dut)
    for name, count in (("rst", 1), ("tx_rst", 2), ("rx_rst", 2)):  # always after an odd number of events
        for data in frames_of([100] * count):
            await tb.source.send(AxiStreamFrame(data))
            await tb.phy.rx.send(GmiiFrame.from_payload(data))
        await tb.quiet()
        before = dict(tb.events)
        assert before["good"] % 2
        assert before["sent"] % 2
        getattr(dut, name).value = 1
        await Timer(20 * OCTET_NS + 50, "ns")
        getattr(dut, name).value = 0
        await Timer(60 * OCTET_NS + 200, "ns")
        assert tb.events == before, name
