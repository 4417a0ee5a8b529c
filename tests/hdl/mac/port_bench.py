# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of EthernetPort behind RGMII: frames both ways, overflow, resets of one clock alone."""

import random

from cocotb.triggers import Timer
from cocotbext.axi import AxiStreamFrame
from cocotbext.eth import GmiiFrame
from mac_side import OCTET_NS, SPEED, MacSide

from inceptionn.sim.runner import bench_parameters

CLOCK_PS = bench_parameters()["clock_ps"]  # of the engines
EVENTS = ("good", "error", "short", "fcs", "control", "overflow", "unsent", "underrun", "sent")
QUEUE_BYTES = 16384
LIMIT = {"timeout_time": 200_000 * OCTET_NS, "timeout_unit": "ns"}


class TB(MacSide):
    """The engines' side of the port, and the PHY."""

    def __init__(self, dut):
        resets = [dut.rst, dut.tx_rst, dut.rx_rst]
        super().__init__(dut, EVENTS, dut.clk, resets, clk=CLOCK_PS, tx_clk125=8000)

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


@TB.test(**LIMIT)
async def both_ways_at_line_rate(tb):
    """Short, full and jumbo frames back to back in both directions: all arrive, and nothing else."""
    lengths = [60, 60, 60, 61, 62, 63, 64, 65, 1514, 1514, 60, 1000] + ([9014, 60] if SPEED == 1000 else [])
    out, back = frames_of(lengths), frames_of(lengths[::-1])
    for data in out:
        await tb.source.send(AxiStreamFrame(data))
    for data in back:
        await tb.phy.rx.send(GmiiFrame.from_payload(data))
    await tb.quiet()
    assert tb.sent() == out
    assert tb.received() == back
    tb.expect(good=len(back), sent=len(out))


@TB.test(**LIMIT)
async def bad_frames_end_here(tb):
    """Neither a damaged frame nor one that is marked bad goes any farther."""
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
    tb.expect(good=3, fcs=2, unsent=3, sent=3)


@TB.test(**LIMIT)
async def overflow_loses_whole_frames(tb):
    """Check that, if the engines stop, frames without room are lost whole and counted; the rest arrives."""
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


@TB.test(**LIMIT)
async def resets(tb):
    """One clock's reset inside frames: every frame that arrives is one that was sent, and traffic goes on."""
    for name in ("rst", "tx_rst", "rx_rst") * 4:
        out, back = frames_of([400] * 6), frames_of([400] * 6)
        for data in out:
            await tb.source.send(AxiStreamFrame(data))
        for data in back:
            await tb.phy.rx.send(GmiiFrame.from_payload(data))
        await Timer(random.randrange(600, 1400) * OCTET_NS, "ns")
        reset = getattr(tb.dut, name)
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


@TB.test(**LIMIT)
async def resets_are_no_events(tb):
    """While no frame passes, a reset of one clock alone counts nothing."""
    for name, count in (("rst", 1), ("tx_rst", 2), ("rx_rst", 2)):  # always after an odd number of events
        for data in frames_of([100] * count):
            await tb.source.send(AxiStreamFrame(data))
            await tb.phy.rx.send(GmiiFrame.from_payload(data))
        await tb.quiet()
        before = dict(tb.events)
        assert before["good"] % 2
        assert before["sent"] % 2
        getattr(tb.dut, name).value = 1
        await Timer(20 * OCTET_NS + 50, "ns")
        getattr(tb.dut, name).value = 0
        await Timer(60 * OCTET_NS + 200, "ns")
        assert tb.events == before, name
