# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of Corundum's application block, at its sync tap, against the golden model."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from shell_bench import (
    LIMIT,
    REGISTERS,
    Frame,
    Referee,
    Registers,
    Streams,
    check,
    compressed,
    no_gaps,
    padded,
    traffic,
)

from inceptionn.hdl.control.registers import IDENTITY
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench

WIDTH = bench_parameters()["width"]
TAG_BITS, TIMESTAMP_BITS = 16, 96
SLVERR = 2


class TB(TestBench):
    """The block with one port: 250 MHz, reset active high; every input that is not used is 0."""

    def __init__(self, dut):
        super().__init__(dut, clk=4000)
        for handle in dut:
            if handle._name.startswith(("s_axi", "m_axi", "direct_", "ptp_", "ddr_", "hbm_", "jtag", "gpio")):
                try:
                    handle.value = 0
                except (TypeError, AttributeError):
                    continue
        dut.rst.value = 1
        self.streams = Streams(dut, dut.clk, dut.rst, active_level=True)
        self.streams.add("s_axis_sync_tx", "m_axis_sync_tx", "s_axis_sync_rx", "m_axis_sync_rx")
        self.registers = Registers(dut, "s_axil_app_ctrl", dut.clk, dut.rst, active_level=True)
        self.referee = Referee()

    async def start(self) -> None:
        await ClockCycles(self.dut.clk, 8)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 16)
        assert await self.registers.read("ID") == IDENTITY

    async def run(self, way: str, frames: list[Frame]) -> None:
        """Send frames; check data, the bad mark, and that each frame keeps its own user word."""
        for frame in frames:
            await self.streams.send(f"s_axis_sync_{way}", frame, bad_bit=True, first_only=True)
        for frame in frames:
            await self.receive(way, frame)

    async def receive(self, way: str, frame: Frame) -> None:
        data, user = await self.streams.receive(f"m_axis_sync_{way}")
        check(self.referee.expect(way, frame.data, frame.bad), data, bool(user[-1] & 1))
        words = {word >> 1 for word in user}
        assert words == {frame.user}, f"{way}: user words {words}, not {frame.user:#x}"

    async def both(self, outgoing: list[Frame], incoming: list[Frame]) -> None:
        for side in [cocotb.start_soon(self.run(*way)) for way in (("tx", outgoing), ("rx", incoming))]:
            await side


def frames(count: int, bits: int, source: random.Random) -> list[Frame]:
    """Traffic with a user word each, one in ten marked bad."""
    return [
        Frame(data, source.random() < 0.1, source.getrandbits(bits)) for data in traffic(count, source, 80)
    ]


@TB.test(**LIMIT)
async def user_words_and_gaps(tb):
    """Both directions at once: tags and timestamps stay with their frames, frames for the MAC have no gap."""
    source = random.Random(4)
    watch = cocotb.start_soon(no_gaps(tb.dut, "m_axis_sync_tx", tb.dut.clk))
    for probability in (0.0, 0.3):
        tb.streams.pause(probability, source)
        incoming = [
            Frame(padded(compressed(source.choice((16, 40, 90)), port)[1]), False, source.getrandbits(96))
            for port in range(43000, 43004)
        ]
        incoming += frames(4, TIMESTAMP_BITS, source)
        await tb.both(frames(10, TAG_BITS, source), incoming)
    await tb.streams.quiet()
    watch.cancel()
    assert tb.referee.counted["TX_COMPRESSED"] > 2
    assert tb.referee.counted["RX_RESTORED"] > 4
    await tb.registers.check(tb.referee.counted)


@TB.test(**LIMIT)
async def resets_of_one_cycle(tb):
    """In traffic: nothing of it is left, and the frames that are offered at once after it are right."""
    source = random.Random(6)
    for _ in range(4):
        for way, bits in (("tx", TAG_BITS), ("rx", TIMESTAMP_BITS)):
            for frame in frames(6, bits, source):
                await tb.streams.send(f"s_axis_sync_{way}", frame, bad_bit=True, first_only=True)
        await ClockCycles(tb.dut.clk, source.randint(20, 400))
        tb.dut.rst.value = 1
        await ClockCycles(tb.dut.clk, 1)
        for end in tb.streams.ends.values():
            end.clear()
        tb.dut.rst.value = 0
        tb.referee = Referee()
        await tb.both(frames(3, TAG_BITS, source), frames(3, TIMESTAMP_BITS, source))
        await tb.streams.quiet()
        await tb.registers.check(tb.referee.counted)


@TB.test(**LIMIT)
async def receive_without_ready(tb):
    """Check that a full queue before a stalled block loses whole frames: a MAC does not wait."""
    source = random.Random(5)
    sink, feed = tb.streams.ends["m_axis_sync_rx"], tb.streams.ends["s_axis_sync_rx"]
    sink.pause = True
    kept, lost = [], 0
    for n in range(120):
        if lost == 3:
            break
        frame = Frame(padded(compressed(90, 44000 + n)[1]), False, source.getrandbits(TIMESTAMP_BITS))
        if feed.count() < 3:
            await tb.streams.send("s_axis_sync_rx", frame, bad_bit=True)
            kept.append(frame)
        else:
            lost += 1
        await ClockCycles(tb.dut.clk, max(1, len(frame.data) * 8 // WIDTH))
    assert lost, "the block was never full"
    sink.pause = False
    for frame in kept:
        await tb.receive("rx", frame)
    await tb.streams.quiet()


@TB.test(**LIMIT)
async def registers_end_where_they_end(tb):
    """After the last port's page nothing answers but SLVERR, and nothing is written."""
    tos = REGISTERS["TOS"]
    size = 1 << len(tb.dut.s_axil_app_ctrl_araddr)
    for page in (0x1000, 0x3000, size // 2, size - 0x1000):
        assert await tb.registers.response(page) == SLVERR
        answer = await tb.registers.master.write(page + tos.offset, bytes(4))
        assert int(answer.resp) == SLVERR
    assert await tb.registers.read("TOS") == tos.reset


@TB.test(**LIMIT)
async def other_taps_pass_through(tb):
    """Check that the direct tap is wires.

    Nothing is sent to the DMA, the statistics, or the NIC's own registers.
    """
    pattern = random.getrandbits(WIDTH)
    tb.dut.s_axis_direct_rx_tdata.value = pattern
    tb.dut.s_axis_direct_rx_tvalid.value = 1
    tb.dut.m_axis_direct_rx_tready.value = 1
    await RisingEdge(tb.dut.clk)
    await RisingEdge(tb.dut.clk)
    assert int(tb.dut.m_axis_direct_rx_tdata.value) == pattern
    assert int(tb.dut.m_axis_direct_rx_tvalid.value) == 1
    assert int(tb.dut.s_axis_direct_rx_tready.value) == 1
    for name in ("m_axil_ctrl_awvalid", "m_axis_stat_tvalid", "m_axis_data_dma_read_desc_valid"):
        assert int(getattr(tb.dut, name).value) == 0
