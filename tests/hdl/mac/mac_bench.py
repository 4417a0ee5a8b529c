# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of the MAC behind RGMII, with cocotbext-eth as the PHY, and behind RMII."""

import itertools
import random
import zlib

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiStreamFrame
from cocotbext.eth import GmiiFrame
from mac_side import OCTET_NS, SPEED, MacSide
from rmii_phy import RmiiPhy

from inceptionn.sim.runner import bench_parameters

INTERFACE = bench_parameters()["interface"]
CLOCK_PS = {"rgmii": 8000, "rmii": 20000}[INTERFACE]
EVENTS = ("error", "short", "fcs", "control", "good")
LIMIT = {"timeout_time": 30_000 * OCTET_NS, "timeout_unit": "ns"}
LENGTHS = (60, 61, 62, 63, 64, 1514) if SPEED == 1000 else (60, 61, 250)


class TB(MacSide):
    """Host side of the MAC, and the PHY."""

    def __init__(self, dut):
        phy, clock = (None, dut.rx_clk) if INTERFACE == "rgmii" else (RmiiPhy(dut, slow=SPEED == 10), dut.clk)
        super().__init__(dut, EVENTS, clock, [dut.rst], phy, clk=CLOCK_PS)
        self.underruns = 0

    async def start(self) -> None:
        await super().start()
        cocotb.start_soon(self._count_underruns())

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

    def received(self) -> tuple[bytes, bool]:
        frame = self.sink.recv_nowait()
        user = frame.tuser[-1] if isinstance(frame.tuser, list) else frame.tuser
        return bytes(frame.tdata), bool(user)


def frame_bytes(length: int, ethertype: int = 0x0800) -> bytes:
    body = random.randbytes(length)
    return body[:12] + ethertype.to_bytes(2, "big") + body[14:]


def error_free(frame: GmiiFrame) -> bool:
    return not any(frame.error if isinstance(frame.error, list) else [frame.error])


@TB.test(**LIMIT)
async def sends(tb):
    """Frames of every length near the shortest, back to back: preamble, padding, FCS."""
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


@TB.test(timeout_time=2_000, timeout_unit="us", skip=(INTERFACE, SPEED) != ("rgmii", 1000))
async def changes_the_speed(tb):
    """Check that a frame leaves at one rate, whenever the speed changes."""
    cocotb.start_soon(_change(tb.dut.rgmii_speed))
    for _ in range(60):
        await tb.source.send(AxiStreamFrame(frame_bytes(60)))
    rates: list[set[int]] = []
    periods: list[int] = []
    before = 0
    while len(rates) < 60:
        await RisingEdge(tb.dut.rgmii_tx_clk)
        now = get_sim_time("ps")
        if int(tb.dut.rgmii_tx_ctl.value):
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


@TB.test(**LIMIT)
async def spoils(tb):
    """Check that a frame that is marked bad or comes too slowly is not good on the wire; the next one is."""
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


@TB.test(**LIMIT)
async def receives(tb):
    """Good frames of every length, back to back with the shortest gap."""
    frames = [frame_bytes(length) for length in LENGTHS]
    for data in frames:
        await tb.phy.rx.send(GmiiFrame.from_payload(data))
    await tb.idle()
    for data in frames:
        assert tb.received() == (data, False)
    assert tb.sink.empty()
    tb.expect(good=len(frames))


@TB.test(**LIMIT)
async def drops(tb):
    """Each fault is marked and counted, and the frame after it is good."""
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


@TB.test(**LIMIT, skip=INTERFACE != "rmii")
async def dribble_bits(tb):
    """Check that what follows the last whole octet is cut off; the FCS decides (IEEE 802.3, 4.2.4.2.1)."""
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


@TB.test(**LIMIT)
async def short_preambles(tb):
    """Octets begin where the start delimiter ends, however much of the preamble was lost."""
    data = frame_bytes(64)
    whole = bytes(GmiiFrame.from_payload(data).data)[7:]  # from the delimiter on
    for octets in (0, 1, 3, 12):
        await tb.phy.rx.send(GmiiFrame(b"\x55" * octets + whole))
        await tb.idle()
        assert tb.received() == (data, False), octets
    tb.expect(good=4)


@TB.test(**LIMIT)
async def reset_inside_a_frame(tb):
    """Check that what is left of a frame after a reset is ignored."""
    data = frame_bytes(200)
    await tb.phy.rx.send(GmiiFrame.from_payload(data))
    await Timer(60 * OCTET_NS, "ns")
    tb.dut.rst.value = 1
    await ClockCycles(tb.clock, 3)
    tb.dut.rst.value = 0
    await tb.idle()
    assert tb.sink.empty()
    await tb.phy.rx.send(GmiiFrame.from_payload(data))
    await tb.idle()
    assert tb.received() == (data, False)
    tb.expect(good=1)
