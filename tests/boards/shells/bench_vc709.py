# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of the VC709 shell in the reference NIC's dialect, against the golden model."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from shell_bench import (
    CONFIG,
    LIMIT,
    Frame,
    Referee,
    Registers,
    Streams,
    check,
    compressed,
    padded,
    plain,
    traffic,
    whole_or_cut,
)

from inceptionn.hdl.control.registers import IDENTITY, REGISTERS
from inceptionn.sim.golden import checksum, receive
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import SHIM_BYTES

PORTS = bench_parameters()["ports"]
RATIO = bench_parameters()["ratio"]
PAGE = 0x400
SLVERR = 2


class TB(TestBench):
    """All ports of the shell; ``user_clk`` at 250 MHz, AXI4-Lite at a clock unrelated to it."""

    def __init__(self, dut):
        engine = {"engine_clk": int(4000 * RATIO) // 2 * 2} if RATIO else {}
        super().__init__(dut, user_clk=4000, s_axil_aclk=7000, **engine)
        if RATIO:
            dut.engine_aresetn.value = 0
        self.streams = Streams(dut, dut.user_clk, None)
        for n in range(PORTS):
            for way in ("s2c", "c2s"):
                reset = {"reset": self.reset_of(n, way), "reset_active_level": False}
                self.streams.add(f"s_axis_{way}{n}", f"m_axis_{way}{n}", **reset)
                self.reset_of(n, way).value = 0
        dut.s_axil_aresetn.value = 0
        self.registers = Registers(dut, "s_axil", dut.s_axil_aclk, dut.s_axil_aresetn)
        self.referees = [Referee() for _ in range(PORTS)]

    def reset_of(self, port: int, way: str):
        return getattr(self.dut, f"{way}{port}_aresetn")

    async def start(self) -> None:
        await ClockCycles(self.dut.user_clk, 10)
        if RATIO:
            self.dut.engine_aresetn.value = 1
        self.dut.s_axil_aresetn.value = 1
        for n in range(PORTS):
            for way in ("s2c", "c2s"):
                self.reset_of(n, way).value = 1
        await ClockCycles(self.dut.user_clk, 40)

    async def transmit(self, port: int, frames: list[bytes]) -> list[bytes]:
        """Host to wire; the driver's word is beside each frame and changes nothing."""
        return await self._through(
            port, "s2c", "tx", [Frame(data, user=random.getrandbits(64)) for data in frames]
        )

    async def deliver(self, port: int, frames: list[bytes]) -> list[bytes]:
        """Wire to host."""
        return await self._through(port, "c2s", "rx", [Frame(data) for data in frames])

    async def _through(self, port: int, way: str, side: str, frames: list[Frame]) -> list[bytes]:
        for frame in frames:
            await self.streams.send(f"s_axis_{way}{port}", frame)
        answers = []
        for frame in frames:
            answer, _ = await self.streams.receive(f"m_axis_{way}{port}")
            check(self.referees[port].expect(side, frame.data), answer)
            answers.append(answer)
        return answers


@TB.test(**LIMIT)
async def every_port_with_padding_that_returns(tb):
    """All ports at once, idle cycles, back-pressure; padding of a MAC returns as data, without harm."""
    source = random.Random(1)
    tb.streams.pause(0.3, source)

    async def port(n: int) -> None:
        frames = [*traffic(10, random.Random(n)), compressed(16, 41000 + n)[0], traffic(1, source)[0]]
        sent = await tb.transmit(n, frames)
        assert any(len(data) < 60 for data in sent), "no frame that a MAC would pad"
        restored = await tb.deliver(n, [padded(data) for data in sent])
        for data, answer, wire in zip(frames, restored, sent, strict=True):
            assert len(answer) >= len(data)
            assert wire == data or len(answer) <= len(padded(wire)) + len(data) - len(wire)

    for running in [cocotb.start_soon(port(n)) for n in range(PORTS)]:
        await running
    await tb.streams.quiet()
    for n in range(PORTS):
        assert tb.referees[n].counted["TX_COMPRESSED"] > 1
        await tb.registers.check(tb.referees[n].counted, n * PAGE)


@cocotb.test(**LIMIT)
async def registers_before_the_driver_loads(dut):
    """Every DMA engine is in reset, the engines' clock too: an access is answered, with SLVERR, and soon."""
    tb = TB(dut)
    await ClockCycles(dut.user_clk, 10)
    dut.s_axil_aresetn.value = 1
    await ClockCycles(dut.s_axil_aclk, 4)
    for n in range(4):
        for access in (tb.registers.response(n * PAGE), tb.registers.master.write(n * PAGE, bytes(4))):
            answer = await with_timeout(access, 32 * 7, "ns")
            assert int(getattr(answer, "resp", answer)) == SLVERR
    await tb.start()
    assert await tb.registers.read("ID") == IDENTITY


@TB.test(**LIMIT)
async def ports_and_resets_are_apart(tb):
    """Check that each port has its own registers and reset.

    A port that is reset in the middle of a frame answers SLVERR; the others go on.
    """
    for n in range(PORTS):
        assert await tb.registers.read("ID", n * PAGE) == IDENTITY
    last = PORTS - 1
    await tb.registers.write("TOS", 0xFC68, last * PAGE)
    for n in range(PORTS):
        expected = 0xFC68 if n == last else REGISTERS["TOS"].reset
        assert await tb.registers.read("TOS", n * PAGE) == expected
    for n in range(PORTS, 4):
        assert await tb.registers.response(n * PAGE) == SLVERR
    # The last port goes into reset while a frame and a register access are in flight.
    frame, wire = compressed(300)
    sending = tb.streams.ends[f"s_axis_c2s{last}"]
    await tb.streams.send(f"s_axis_c2s{last}", Frame(wire))
    await ClockCycles(tb.dut.user_clk, 3)
    reading = cocotb.start_soon(tb.registers.response(last * PAGE))
    await RisingEdge(tb.dut.user_clk)
    tb.reset_of(last, "c2s").value = 0
    tb.reset_of(last, "s2c").value = 0
    await reading
    assert await tb.registers.response(last * PAGE) == SLVERR
    if PORTS > 1:
        assert await tb.registers.read("ID", 0) == IDENTITY
        await tb.deliver(0, [wire])
    sending.clear()
    tb.streams.ends[f"m_axis_c2s{last}"].clear()
    tb.reset_of(last, "c2s").value = 1
    tb.reset_of(last, "s2c").value = 1
    await ClockCycles(tb.dut.user_clk, 60)
    assert await tb.registers.read("ID", last * PAGE) == IDENTITY
    assert await tb.registers.read("TOS", last * PAGE) == REGISTERS["TOS"].reset
    tb.referees[last] = Referee()
    (restored,) = await tb.deliver(last, [wire])
    assert len(restored) == len(frame)
    await tb.transmit(last, [frame])


async def collect(tb: TB, prefix: str, last: bytes) -> list[bytes]:
    """Frames up to this one."""
    came = []
    while not came or came[-1] != last:
        data, _ = await tb.streams.receive(prefix)
        came.append(data)
    return came


@TB.test(**LIMIT)
@cocotb.parametrize(way=["s2c", "c2s"])
async def a_reset_of_one_way(tb, way):
    """In the middle of frames: none leaves a rest; the other direction and the registers are not affected."""
    await ClockCycles(tb.dut.user_clk, int(1100 * (RATIO or 1)))  # the transmit engine empties its flow table
    await tb.registers.write("TOS", 0xFC28)
    other = "c2s" if way == "s2c" else "s2c"
    source, sink = tb.streams.ends[f"s_axis_{way}0"], tb.streams.ends[f"m_axis_{way}0"]
    tb.streams.pause(0.2, random.Random(6))
    steady = [compressed(300, 42000 + n)[other == "c2s"] for n in range(12)]
    going = cocotb.start_soon((tb.deliver if other == "c2s" else tb.transmit)(0, steady))
    sent, came = [], []
    for _ in range(8):
        frames = [plain() for _ in range(3)]
        sent += frames
        for frame in frames:
            await tb.streams.send(f"s_axis_{way}0", Frame(frame))
        await ClockCycles(tb.dut.user_clk, random.randint(20, 200))
        tb.reset_of(0, way).value = 0
        source.clear()
        await ClockCycles(tb.dut.user_clk, random.choice((8, 9, 30)))
        tb.reset_of(0, way).value = 1
        await RisingEdge(tb.dut.user_clk)
    sent.append(plain())
    await tb.streams.send(f"s_axis_{way}0", Frame(sent[-1]))
    came = await collect(tb, f"m_axis_{way}0", sent[-1])
    assert whole_or_cut(came, sent) > 1
    await going
    await tb.streams.quiet()
    assert await tb.registers.read("TOS") == 0xFC28
    assert sink.empty()


@TB.test(**LIMIT)
async def engines_lose_their_clock(tb):
    """Frames in flight end, marked by their length; the rest of an arriving frame is not read as a frame."""
    if not RATIO:
        return
    await ClockCycles(tb.dut.user_clk, int(1100 * RATIO))
    ways = {way: [plain() for _ in range(12)] for way in ("s2c", "c2s")}
    for way, frames in ways.items():
        for frame in frames:
            await tb.streams.send(f"s_axis_{way}0", Frame(frame))
    for _ in range(3):
        await ClockCycles(tb.dut.user_clk, random.randint(300, 400))
        tb.dut.engine_aresetn.value = 0
        await ClockCycles(tb.dut.user_clk, random.choice((1, 8, 30)))
        tb.dut.engine_aresetn.value = 1
    cut = 0
    for way, frames in ways.items():
        frames.append(plain())
        await tb.streams.send(f"s_axis_{way}0", Frame(frames[-1]))
        cut += whole_or_cut(await collect(tb, f"m_axis_{way}0", frames[-1]), frames)
    assert cut
    await tb.streams.quiet()


def accepted(frame: bytes) -> bool:
    """Return whether the host's checksum test passes."""
    pseudo_header = checksum.word_sum(frame[26:34]) + frame[23] + len(frame) - 34
    return checksum.fold(pseudo_header + checksum.word_sum(frame[34:])) == 0xFFFF


@TB.test(**LIMIT)
async def damaged_blocks_fail_the_hosts_test(tb):
    """Invert each bit of the tags: a frame whose block is malformed leaves with a wrong checksum."""
    frame, wire = compressed(48)
    assert accepted((await tb.deliver(0, [wire]))[0])
    at = len(frame) - 4 * 48 + SHIM_BYTES
    damaged = []
    for bit in range(2 * 48):
        flipped = bytearray(wire)
        flipped[at + bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    malformed = [wire for wire in damaged if receive(wire, CONFIG).bad]
    assert len(malformed) > 48
    answers = await tb.deliver(0, malformed)
    assert not any(accepted(answer) for answer in answers)
    await ClockCycles(tb.dut.user_clk, 300)
    assert await tb.registers.read("RX_MALFORMED") == len(malformed)


@TB.test(**LIMIT)
async def partial_beat(tb):
    """Check that a beat with holes before tlast makes its frame bad.

    The frame is counted as bad, and the next one is not affected.
    """
    frame, wire = compressed(60)
    bus = tb.streams.ends["s_axis_c2s0"].bus
    for number, at in enumerate(range(0, len(wire), 32)):
        part = wire[at : at + 32]
        keep = (1 << 32) - 1 if number != 1 else (1 << 20) - 1
        bus.tdata.value = int.from_bytes(part.ljust(32, b"\0"), "little")
        bus.tkeep.value = keep if len(part) == 32 else (1 << len(part)) - 1
        bus.tlast.value = int(at + 32 >= len(wire))
        bus.tvalid.value = 1
        await RisingEdge(tb.dut.user_clk)
        while not int(bus.tready.value):
            await RisingEdge(tb.dut.user_clk)
    bus.tvalid.value = 0
    await tb.streams.receive("m_axis_c2s0")
    (restored,) = await tb.deliver(0, [wire])
    assert len(restored) == len(frame)
    await ClockCycles(tb.dut.user_clk, 300)
    assert await tb.registers.read("RX_BAD") == 1
    assert await tb.registers.read("RX_RESTORED") == 1
