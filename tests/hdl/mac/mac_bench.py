# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of the MAC behind RGMII, with cocotbext-eth as the PHY, and behind RMII."""

from __future__ import annotations

import itertools
import random
import zlib

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSource
from cocotbext.eth import GmiiFrame, RgmiiPhy
from rmii_phy import RmiiPhy

from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import StreamSink, silence

INTERFACE = bench_parameters()["interface"]
SPEED = bench_parameters()["speed"]  # Mbit/s
CLOCK_PS = {"rgmii": 8000, "rmii": 20000}[INTERFACE]
OCTET_NS = 8000 // SPEED
EVENTS = ("error", "short", "fcs", "control", "good")
LENGTHS = (60, 61, 62, 63, 64, 1514) if SPEED == 1000 else (60, 61, 250)


class TB:
    """Host side of the MAC, and the PHY."""

    def __init__(self, dut):
        self.dut = dut
        if INTERFACE == "rgmii":
            pins = [getattr(dut, f"rgmii_{name}") for name in ("txd", "tx_ctl", "tx_clk", "rxd", "rx_ctl")]
            self.phy = RgmiiPhy(*pins, dut.rx_clk, speed=SPEED * 1e6)
            silence(self.phy.tx, self.phy.rx)
            self.receive_clock = dut.rx_clk
        else:
            self.phy = RmiiPhy(dut, slow=SPEED == 10)
            self.receive_clock = dut.clk
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk, dut.rst)
        self.sink = StreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), self.receive_clock, dut.rst)
        silence(self.source, self.sink)
        self.events = dict.fromkeys(EVENTS, 0)
        self.underruns = 0

    @classmethod
    async def started(cls, dut) -> TB:
        speed = dut.rgmii_speed if INTERFACE == "rgmii" else dut.speed
        speed.value = {10: 0, 100: 1, 1000: 2}[SPEED]
        dut.rst.value = 1
        tb = cls(dut)
        Clock(dut.clk, CLOCK_PS, unit="ps").start()
        if INTERFACE == "rgmii":
            await Timer(CLOCK_PS // 4, "ps")
            Clock(dut.clk_late, CLOCK_PS, unit="ps").start()
        await Timer(20 * OCTET_NS, "ns")
        dut.rst.value = 0
        await Timer(20 * OCTET_NS, "ns")
        cocotb.start_soon(tb._count_events())
        cocotb.start_soon(tb._count_underruns())
        return tb

    async def _count_events(self) -> None:
        while True:
            await RisingEdge(self.receive_clock)
            bits = int(self.dut.events.value)
            for place, name in enumerate(EVENTS):
                self.events[name] += bits >> place & 1

    async def _count_underruns(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            self.underruns += int(self.dut.underrun.value)

    async def idle(self) -> None:
        """Until the PHY has sent all, and the MAC has taken it."""
        await self.phy.rx.wait()
        await Timer(40 * OCTET_NS, "ns")

    async def sent(self) -> GmiiFrame:
        """Return the next frame on the wire; a limit keeps a mute MAC from hanging the bench."""
        await self.phy.tx.wait(timeout=4000 * OCTET_NS, timeout_unit="ns")
        assert not self.phy.tx.empty(), "the MAC sends nothing"
        return self.phy.tx.recv_nowait()

    def expect(self, **counts: int) -> None:
        assert self.events == {**dict.fromkeys(EVENTS, 0), **counts}

    def received(self) -> tuple[bytes, bool]:
        frame = self.sink.recv_nowait()
        user = frame.tuser[-1] if isinstance(frame.tuser, list) else frame.tuser
        return bytes(frame.tdata), bool(user)


def frame_bytes(length: int, ethertype: int = 0x0800) -> bytes:
    body = random.randbytes(length)
    return body[:12] + ethertype.to_bytes(2, "big") + body[14:]


def error_free(frame: GmiiFrame) -> bool:
    return not any(frame.error if isinstance(frame.error, list) else [frame.error])


@cocotb.test(timeout_time=30_000 * OCTET_NS, timeout_unit="ns")
async def sends(dut):
    """Frames of every length near the shortest, back to back: preamble, padding, FCS."""
    tb = await TB.started(dut)
    frames = [frame_bytes(length) for length in (14, 15, 59, *LENGTHS)]
    for data in frames:
        await tb.source.send(AxiStreamFrame(data))
    ends = []
    for data in frames:
        frame = await tb.sent()
        assert bytes(frame.data[:8]) == b"\x55" * 7 + b"\xd5"
        assert frame.check_fcs()
        assert bytes(frame.get_payload()) == data.ljust(60, b"\0")
        assert error_free(frame)
        ends.append((frame.sim_time_start, frame.sim_time_end))
    for (_, end), (start, _) in zip(ends, ends[1:], strict=False):
        assert start - end == 12 * OCTET_NS * 1000
    assert tb.underruns == 0


@cocotb.test(timeout_time=2_000, timeout_unit="us", skip=(INTERFACE, SPEED) != ("rgmii", 1000))
async def changes_the_speed(dut):
    """Check that a frame leaves at one rate, whenever the speed changes."""
    tb = await TB.started(dut)
    cocotb.start_soon(_change(dut.rgmii_speed))
    for _ in range(60):
        await tb.source.send(AxiStreamFrame(frame_bytes(60)))
    rates: list[set[int]] = []
    periods: list[int] = []
    before = 0
    while len(rates) < 60:
        await RisingEdge(dut.rgmii_tx_clk)
        now = get_sim_time("ps")
        if int(dut.rgmii_tx_ctl.value):
            periods.append(now - before)
        elif periods:
            nibbles = 1 if periods[1] == 8000 else 2
            assert len(periods) == nibbles * (8 + 60 + 4), periods
            rates.append(set(periods[1:]))
            periods = []
        before = now
    mixed = [rate for rate in rates if rate not in ({8_000}, {40_000}, {400_000})]
    assert mixed == []
    assert len({min(rate) for rate in rates}) > 1


async def _change(speed) -> None:
    for number in itertools.cycle((1, 2, 1, 2, 0, 2)):
        speed.value = number
        await Timer(random.randrange(100, 20_000), "ns")


@cocotb.test(timeout_time=30_000 * OCTET_NS, timeout_unit="ns")
async def spoils(dut):
    """Check that a frame that is marked bad or comes too slowly is not good on the wire; the next one is."""
    tb = await TB.started(dut)
    data = frame_bytes(100)
    await tb.source.send(AxiStreamFrame(data, tuser=[0] * 99 + [1]))
    await tb.source.send(AxiStreamFrame(data))
    for good in (False, True):
        frame = await tb.sent()
        assert frame.check_fcs() == good
        assert INTERFACE == "rmii" or error_free(frame) == good
    assert tb.underruns == 0

    tb.source.set_pause_generator(
        iter([False] * 40 + [True] * (32_000 * OCTET_NS // CLOCK_PS + 100) + [False])
    )
    await tb.source.send(AxiStreamFrame(data))
    await tb.source.send(AxiStreamFrame(data))
    for good in (False, True):
        frame = await tb.sent()
        assert frame.check_fcs() == good
        assert INTERFACE == "rmii" or error_free(frame) == good
    assert tb.underruns == 1


@cocotb.test(timeout_time=30_000 * OCTET_NS, timeout_unit="ns")
async def receives(dut):
    """Good frames of every length, back to back with the shortest gap."""
    tb = await TB.started(dut)
    frames = [frame_bytes(length) for length in LENGTHS]
    for data in frames:
        await tb.phy.rx.send(GmiiFrame.from_payload(data))
    await tb.idle()
    for data in frames:
        assert tb.received() == (data, False)
    assert tb.sink.empty()
    tb.expect(good=len(frames))


@cocotb.test(timeout_time=30_000 * OCTET_NS, timeout_unit="ns")
async def drops(dut):
    """Each fault is marked and counted, and the frame after it is good."""
    tb = await TB.started(dut)
    data = frame_bytes(80)
    good = GmiiFrame.from_payload(data)
    fcs = zlib.crc32(data[:50]).to_bytes(4, "little")

    def spoilt(place: int) -> GmiiFrame:
        frame = GmiiFrame.from_payload(data)
        frame.normalize()
        frame.error[place] = 1
        return frame

    wrong = bytearray(good.data)
    wrong[30] ^= 4
    false_start = bytearray(good.data)
    false_start[3] = 0xAA
    no_starts = [GmiiFrame(false_start), spoilt(2)]
    faults = [
        (GmiiFrame(wrong), "fcs"),
        (spoilt(40), "error"),
        (GmiiFrame(b"\x55" * 7 + b"\xd5" + data[:50] + fcs), "short"),
        (GmiiFrame(b"\x55" * 7 + b"\xd5" + data[:3]), "short"),
        (GmiiFrame.from_payload(frame_bytes(60, 0x8808)), "control"),
        *((fault, "error") for fault in no_starts),
        (GmiiFrame(b"\x55" * 20), None),
    ]
    counts: dict[str, int] = {}
    for fault, name in faults:
        await tb.phy.rx.send(fault)
        await tb.phy.rx.send(GmiiFrame.from_payload(data))
        await tb.idle()
        if name is not None:
            counts[name] = counts.get(name, 0) + 1
        if name is not None and not any(fault is no_start for no_start in no_starts) and len(fault.data) > 16:
            assert tb.received()[1], name
        assert tb.received() == (data, False), name
        assert tb.sink.empty()
    tb.expect(good=len(faults), **counts)


@cocotb.test(timeout_time=30_000 * OCTET_NS, timeout_unit="ns", skip=INTERFACE != "rmii")
async def dribble_bits(dut):
    """Check that what follows the last whole octet is cut off; the FCS decides (IEEE 802.3, 4.2.4.2.1)."""
    tb = await TB.started(dut)
    data = frame_bytes(70)
    wrong = GmiiFrame.from_payload(data)
    wrong.data[30] ^= 1
    for dibits in (1, 2, 3) * 4:
        await tb.phy.rx.send(GmiiFrame.from_payload(data), dribble=dibits)
    await tb.idle()
    for _ in range(12):
        assert tb.received() == (data, False)
    tb.expect(good=12)
    await tb.phy.rx.send(wrong)
    await tb.idle()
    assert tb.received()[1]
    tb.expect(good=12, fcs=1)


@cocotb.test(timeout_time=30_000 * OCTET_NS, timeout_unit="ns")
async def short_preambles(dut):
    """Octets begin where the start delimiter ends, however much of the preamble was lost."""
    tb = await TB.started(dut)
    data = frame_bytes(64)
    whole = bytes(GmiiFrame.from_payload(data).data)[7:]  # from the delimiter on
    for octets in (0, 1, 3, 12):
        await tb.phy.rx.send(GmiiFrame(b"\x55" * octets + whole))
        await tb.idle()
        assert tb.received() == (data, False), octets
    tb.expect(good=4)


@cocotb.test(timeout_time=30_000 * OCTET_NS, timeout_unit="ns")
async def reset_inside_a_frame(dut):
    """Check that what is left of a frame after a reset is ignored."""
    tb = await TB.started(dut)
    data = frame_bytes(200)
    await tb.phy.rx.send(GmiiFrame.from_payload(data))
    await Timer(60 * OCTET_NS, "ns")
    dut.rst.value = 1
    await ClockCycles(tb.receive_clock, 3)
    dut.rst.value = 0
    await tb.idle()
    assert tb.sink.empty()
    await tb.phy.rx.send(GmiiFrame.from_payload(data))
    await tb.idle()
    assert tb.received() == (data, False)
    tb.expect(good=1)
