# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of BlockRam and LutRam: what was written last is read, after the memory's latency."""

import random

from cocotb.triggers import FallingEdge, RisingEdge
from lockstep import Lockstep

from inceptionn.sim.runner import bench_parameters

PARAMETERS = bench_parameters()
WIDTH, DEPTH, LATENCY = PARAMETERS["width"], PARAMETERS["depth"], PARAMETERS["latency"]


class TB(Lockstep):
    """Reads and writes in each cycle; ``words`` is what the memory holds."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("write",))
        self.words = [0] * DEPTH
        self.reads = 0

    async def access(self, read: int, write: int | None = None) -> None:
        """Read and, given an address, write. What a block RAM reads where it writes is undefined."""
        dut, word = self.dut, random.getrandbits(WIDTH)
        dut.read_address.value = read
        dut.write_address.value = random.randrange(DEPTH) if write is None else write
        dut.write_data.value = word
        expected = self.words[read]
        if LATENCY == 0:
            # The answer is there before the rising edge, at which the new word is stored.
            dut.write.value = write is not None
            await RisingEdge(dut.aclk)
            found = self.read("read_data")
            assert found == expected, f"address {read}: {found:#x}, not {expected:#x}"
            self.reads += 1
            await FallingEdge(dut.aclk)
        else:
            if read != write:
                self.due(LATENCY, read_data=expected)
                self.reads += 1
            await self.cycle(write=write is not None)
        if write is not None:
            self.words[write] = word

    async def fill(self) -> None:
        """Write every address, in a random order."""
        for address in random.sample(range(DEPTH), DEPTH):
            self.words[address] = random.getrandbits(WIDTH)
            await self.cycle(write=1, write_address=address, write_data=self.words[address])


@TB.test()
async def begins_with_zeros(tb):
    """As an FPGA's memory does without other contents. The first test, since a reset leaves them alone."""
    for address in range(DEPTH):
        await tb.access(address)
    await tb.drain()
    assert tb.reads == DEPTH


@TB.test()
async def every_address(tb):
    """Each address written, then read in another order, while others are overwritten."""
    await tb.fill()
    addresses = list(range(DEPTH))
    for address in random.sample(addresses, DEPTH):
        await tb.access(address)
    for _ in range(2000):
        write = random.choice(addresses) if random.getrandbits(1) else None
        await tb.access(random.choice(addresses), write)
    await tb.drain()


@TB.test()
async def read_in_the_cycle_behind_the_write(tb):
    await tb.fill()
    address = 0
    for _ in range(500):
        before, address = address, random.randrange(DEPTH)
        await tb.access(before, address)
    await tb.drain()
