# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of the NetFPGA-SUME shell in the reference NIC's dialect, against the golden model."""

import random
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles
from shell_bench import LIMIT, Frame, Referee, Registers, Streams, check, compressed, no_gaps, padded, traffic

from inceptionn.hdl.control.registers import IDENTITY
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import Verdict

CAGES, QUEUES = (0x01, 0x04, 0x10, 0x40), (0x02, 0x08, 0x20, 0x80)


def word(length: int, source: int, destination: int, rest: int) -> int:
    """``tuser`` as output port lookup gives it."""
    return length | source << 16 | destination << 24 | rest << 32


class TB(TestBench):
    """The shell between output port lookup and output queues; 160 MHz, registers at 100 MHz."""

    def __init__(self, dut):
        super().__init__(dut, axis_aclk=6250, s_axi_aclk=10000)
        dut.axis_resetn.value = 0
        dut.s_axi_aresetn.value = 0
        self.streams = Streams(dut, dut.axis_aclk, dut.axis_resetn)
        self.streams.add("s_axis", "m_axis")
        self.registers = Registers(dut, "s_axi", dut.s_axi_aclk, dut.s_axi_aresetn)
        self.referee = Referee()

    async def start(self) -> None:
        await ClockCycles(self.dut.axis_aclk, 10)
        self.dut.axis_resetn.value = 1
        self.dut.s_axi_aresetn.value = 1
        await ClockCycles(self.dut.axis_aclk, 20)
        assert await self.registers.read("ID") == IDENTITY

    async def run(self, frames: list[tuple[str, bytes]], source: random.Random) -> list[tuple[str, bytes]]:
        """Frames to the wire (``tx``) and to the host in one stream; checks each direction in its order."""
        waiting: dict[str, deque] = {"tx": deque(), "rx": deque()}
        for way, data in frames:
            ports = (CAGES, QUEUES)[way == "rx"], (CAGES, QUEUES)[way == "tx"]
            to, by = (source.choice(side) for side in ports)
            rest = source.getrandbits(96)
            await self.streams.send(
                "s_axis", Frame(data, user=word(len(data), by, to, rest)), first_only=True
            )
            result = self.referee.expect(way, data)
            if not result.bad:  # a malformed block: dropped
                waiting[way].append((result, by, to, rest))
        answers = []
        while any(waiting.values()):
            data, user = await self.streams.receive("m_axis")
            first = user[0]
            way = "rx" if first >> 24 & 0xAA else "tx"
            result, by, to, rest = waiting[way].popleft()
            check(result, data)
            assert first == word(len(data), by, to, rest), f"tuser {first:#x}"
            assert set(user) == {first}
            answers.append((way, data))
        return answers


def mixed(source: random.Random, count: int) -> list[tuple[str, bytes]]:
    """Both directions, received frames padded as a MAC pads them."""
    outgoing = [("tx", data) for data in traffic(count, source)]
    wires = [compressed(source.choice((16, 17, 40, 90)), 42000 + n)[1] for n in range(count // 2)]
    incoming = [("rx", padded(data)) for data in (*wires, *traffic(count // 2, source))]
    frames = []
    while outgoing or incoming:
        side = outgoing if (source.random() < 0.5 and outgoing) or not incoming else incoming
        frames.append(side.pop(0))
    return frames


@TB.test(**LIMIT)
async def directions_lengths_and_gaps(tb):
    """Each frame by its ports, with its new length, the rest of tuser untouched, no gap inside."""
    source = random.Random(2)
    watch = cocotb.start_soon(no_gaps(tb.dut, "m_axis", tb.dut.axis_aclk))
    for probability in (0.0, 0.3):
        tb.streams.pause(probability, source)
        answers = await tb.run(mixed(source, 12), source)
        assert {way for way, _ in answers} == {"tx", "rx"}
    await tb.streams.quiet()
    watch.cancel()
    assert tb.referee.counted["TX_COMPRESSED"] > 2
    assert tb.referee.counted["RX_RESTORED"] > 2
    await tb.registers.check(tb.referee.counted)


@TB.test(**LIMIT)
async def resets_of_one_cycle(tb):
    """In traffic: nothing of it is left, and the frames that are offered at once after it are right."""
    source = random.Random(4)
    for _ in range(4):
        for way, data in mixed(source, 8):
            user = word(len(data), CAGES[0], (CAGES, QUEUES)[way == "rx"][0], 0)
            await tb.streams.send("s_axis", Frame(data, user=user), first_only=True)
        await ClockCycles(tb.dut.axis_aclk, source.randint(20, 600))
        tb.dut.axis_resetn.value = 0
        await ClockCycles(tb.dut.axis_aclk, 1)
        for end in tb.streams.ends.values():
            end.clear()
        tb.dut.axis_resetn.value = 1
        tb.referee = Referee()
        await tb.run(mixed(source, 3), source)
        await tb.streams.quiet()
        await tb.registers.check(tb.referee.counted)


@TB.test(**LIMIT)
async def malformed_frames_are_dropped(tb):
    """Check that a block cut short does not reach the host, where nothing can mark it; its neighbours do."""
    _, wire = compressed(80)
    broken = wire[:62] + b"\xff\xff" + wire[64:]  # tag word: raw lanes that are not there
    answers = await tb.run([("rx", wire), ("rx", broken), ("rx", wire)], random.Random(3))
    assert len(answers) == 2
    await tb.streams.quiet()
    assert tb.referee.counted[f"RX_{Verdict.MALFORMED.name}"] == 1
    await tb.registers.check(tb.referee.counted)
