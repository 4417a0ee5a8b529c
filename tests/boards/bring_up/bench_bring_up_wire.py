# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of the bring-up design's wire: blocks pass, are measured and broken as a stream allows it."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamFrame
from shell_bench import holds, pauses

from inceptionn.boards.bring_up.traffic.patterns import SourceConfig
from inceptionn.sim.testbench import TestBench

LANES = 365
LENGTHS = 128
"""Blocks whose lengths have a place."""


class TB(TestBench):
    """A compressor and a decompressor that stall at random, and someone who takes lengths."""

    def __init__(self, dut):
        super().__init__(dut)
        self.source, self.sink = self.stream_source(), self.stream_sink()
        self.lengths: list[int] = []
        self.corrupted = 0

    async def start(self, stall: float) -> None:
        dut = self.dut
        dut.corrupt.value = dut.stall.value = dut.block_bytes_ready.value = 0
        dut.config.value = SourceConfig.const({"least": LANES}).as_bits()
        for end in (self.source, self.sink):
            end.set_pause_generator(pauses(stall, random))
        await self.reset()
        cocotb.start_soon(holds(dut, "m_axis", dut.aclk))
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        dut = self.dut
        while True:
            await RisingEdge(dut.aclk)
            self.corrupted += int(dut.corrupted.value)
            if int(dut.block_bytes_valid.value) and int(dut.block_bytes_ready.value):
                self.lengths.append(int(dut.block_bytes_payload.value))

    async def send(self, count: int) -> list[bytes]:
        blocks = [random.randbytes(random.choice((1, 31, 32, 33, 64, 200))) for _ in range(count)]
        for block in blocks:
            await self.source.send(AxiStreamFrame(block))
        return blocks

    async def receive(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        for _ in range(200 * count + 400):
            if len(found) == count:
                return found
            await RisingEdge(self.dut.aclk)
            while not self.sink.empty():
                frame = self.sink.recv_nowait()
                user = frame.tuser if isinstance(frame.tuser, list) else [frame.tuser]
                assert set(user) == {LANES}
                found.append(bytes(frame.tdata))
        raise AssertionError(f"{len(found)} blocks of {count}")


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def stalls(dut, stall):
    """However often it is told to stall, and whenever: no offer is taken back, no block is lost."""
    tb = TB(dut)
    await tb.start(stall)
    dut.block_bytes_ready.value = 1
    blocks = await tb.send(60)

    async def trouble() -> None:
        while True:
            dut.stall.value = random.getrandbits(1)
            await ClockCycles(dut.aclk, random.randint(1, 5))

    running = cocotb.start_soon(trouble())
    assert await tb.receive(60) == blocks
    running.cancel()
    dut.stall.value = 1
    await tb.send(3)
    await ClockCycles(dut.aclk, 200)
    assert tb.sink.count() == 0, "a stalled wire passes blocks"
    assert tb.lengths == [len(block) for block in blocks]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def lengths_wait(dut, stall):
    """Blocks wait, and none is lost, while nobody takes their lengths."""
    tb = TB(dut)
    await tb.start(stall)
    blocks = await tb.send(LENGTHS + 40)
    await ClockCycles(dut.aclk, 6000)
    assert LENGTHS - 10 <= tb.sink.count() <= LENGTHS + 1
    dut.block_bytes_ready.value = 1
    assert await tb.receive(len(blocks)) == blocks
    await ClockCycles(dut.aclk, 200)
    assert tb.lengths == [len(block) for block in blocks]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def one_bit_is_broken(dut):
    """Bit 0 of a block's first beat, once, in a beat that was not on offer when it was asked for."""
    tb = TB(dut)
    await tb.start(0.5)
    dut.block_bytes_ready.value = 1
    for _ in range(60):
        blocks = await tb.send(6)
        await ClockCycles(dut.aclk, random.randint(1, 8))
        dut.corrupt.value = 1
        while not int(dut.corrupted.value):
            await RisingEdge(dut.aclk)
        dut.corrupt.value = 0
        found = await tb.receive(6)
        changed = [(old, new) for old, new in zip(blocks, found, strict=True) if old != new]
        assert len(changed) == tb.corrupted == 1
        ((old, new),) = changed
        assert new == bytes([old[0] ^ 1]) + old[1:]
        tb.corrupted = 0
