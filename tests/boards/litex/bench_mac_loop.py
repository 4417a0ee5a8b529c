# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of `mac_loop.py`: octets in, octets out, against the golden model; no bad frame leaves."""

import random
import zlib
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from shell_bench import Referee, Registers, check, compressed, padded, plain, traffic

from inceptionn.hdl.control.registers import IDENTITY
from inceptionn.sim.golden.packets import udp
from inceptionn.sim.golden.values import payload
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import Verdict

PREAMBLE = b"\x55" * 7 + b"\xd5"
GAP = 12
"""Fewest octets between two frames (IEEE 802.3, 4.4.2), and most here."""
PATIENCE = 20_000
"""Octets without a frame after which the device counts as hung."""
COUNTS_BAD = bench_parameters()["lanes"] != 1
"""Whether a bad frame from the wire reaches the engine, as it does not where the engine stores what comes."""
LIMIT = {"timeout_time": 3000, "timeout_unit": "us"}


class Port:
    """One side of the device: sends frames, and takes those that come, each of which must be right."""

    def __init__(self, dut, name: str):
        self.dut, self.name = dut, name
        self.clock, self.reset = getattr(dut, f"{name}_clk"), getattr(dut, f"{name}_rst")
        self.valid, self.octet = getattr(dut, f"{name}_rx_dv"), getattr(dut, f"{name}_rxd")
        self.valid.value, self.octet.value = 0, 0
        self.waiting: deque[bytes] = deque()
        self.came: deque[bytes] = deque()
        cocotb.start_soon(self._send())
        cocotb.start_soon(self._take())

    def send(self, frame: bytes, *, damaged: bool = False) -> bytes:
        """Queue a frame as a MAC sends it, padded and with its FCS; return what is received of it."""
        frame = padded(frame)
        fcs = zlib.crc32(frame) ^ damaged
        self.waiting.append(PREAMBLE + frame + fcs.to_bytes(4, "little"))
        return frame

    async def _send(self) -> None:
        while True:
            await RisingEdge(self.clock)
            if self.waiting:
                for octet in self.waiting.popleft():
                    self.valid.value, self.octet.value = 1, octet
                    await RisingEdge(self.clock)
                self.valid.value = 0
                await ClockCycles(self.clock, GAP - 1)

    async def _take(self) -> None:
        valid, octet = getattr(self.dut, f"{self.name}_tx_en"), getattr(self.dut, f"{self.name}_txd")
        gap = GAP
        while True:
            await RisingEdge(self.clock)
            if not (valid.value.is_resolvable and int(valid.value)) or int(self.reset.value):
                gap += 1
                continue
            assert gap >= GAP, f"{self.name}: {gap} octets between two frames"
            octets = bytearray()
            while int(valid.value):
                octets.append(int(octet.value))
                await RisingEdge(self.clock)
            gap = 1
            assert octets[:8] == PREAMBLE, octets[:8].hex()
            frame, fcs = bytes(octets[8:-4]), octets[-4:]
            assert zlib.crc32(frame).to_bytes(4, "little") == fcs, f"{self.name}: FCS of {len(frame)} bytes"
            assert len(frame) >= 60
            self.came.append(frame)

    async def receive(self) -> bytes:
        """Return the next frame."""
        waited = 0
        while not self.came:
            await RisingEdge(self.clock)
            waited += 1
            assert waited < PATIENCE, f"{self.name}: no frame"
        return self.came.popleft()


class TB(TestBench):
    """The device with ``sys`` at 75 MHz and two ports of 1 Gbit/s, not quite of one frequency."""

    def __init__(self, dut):
        super().__init__(dut, sys_clk=13334, host_clk=8000, network_clk=7998)
        for name in ("sys", "host", "network"):
            getattr(dut, f"{name}_rst").value = 1
        self.host, self.network = Port(dut, "host"), Port(dut, "network")
        self.registers = Registers(dut, "s_axil", dut.sys_clk, dut.sys_rst, active_level=True)
        self.referee = Referee()

    async def start(self) -> None:
        await ClockCycles(self.dut.sys_clk, 20)
        for name in ("sys", "host", "network"):
            getattr(self.dut, f"{name}_rst").value = 0
        await ClockCycles(self.dut.sys_clk, 600)  # until the flow table is empty
        assert await self.registers.read("ID") == IDENTITY

    async def run(self, way: str, frames: list[tuple[bytes, bool]]) -> None:
        """Send frames, damaged or not; those that come are the model's good ones, in order."""
        source, sink = (self.host, self.network) if way == "tx" else (self.network, self.host)
        results = []
        for frame, damaged in frames:
            seen = source.send(frame, damaged=damaged)
            if not damaged or (way == "rx" and COUNTS_BAD):  # others are dropped before the engine
                results.append(self.referee.expect(way, seen, damaged))
        for result in results:
            if not result.bad:
                came = await sink.receive()
                short = len(result.frame) < len(came) == 60
                assert not (short and any(came[len(result.frame) :])), "padding is not zero"
                check(result, came[: len(result.frame)] if short else came)

    async def quiet(self) -> None:
        await ClockCycles(self.host.clock, 4000)
        for port in (self.host, self.network):
            assert not port.waiting
            assert not port.came, f"{port.name}: a frame too many"


def with_damage(frames: list[bytes], source: random.Random) -> list[tuple[bytes, bool]]:
    """Damage the FCS of a fifth of the frames, not of those that open a connection."""
    return [(frame, source.random() < 0.2 and len(frame) > 100) for frame in frames]


@TB.test(**LIMIT)
async def both_ways_at_once(tb):
    """Compressed and raw frames of all kinds, TCP and UDP, and such that a link has damaged."""
    source = random.Random(5)
    outgoing = traffic(80, source)
    incoming = [compressed(source.choice((16, 17, 40, 90, 340)), 42000 + n)[1] for n in range(16)]
    incoming += [plain(source.choice((0, 1, 2, 3, 700))) for _ in range(8)]
    source.shuffle(incoming)
    tx = cocotb.start_soon(tb.run("tx", with_damage(outgoing, source)))
    await tb.run("rx", with_damage(incoming, source))
    await tx
    await tb.quiet()
    assert tb.referee.counted["TX_COMPRESSED"] > 5
    assert tb.referee.counted["RX_RESTORED"] > 5
    assert bool(tb.referee.counted["RX_BAD"]) == COUNTS_BAD
    await tb.registers.check(tb.referee.counted)


@TB.test(**LIMIT)
async def malformed_frames_never_leave(tb):
    """Blocks cut short, between good ones; the counter knows them."""
    wires = [compressed(80, 43000 + n)[1] for n in range(4)]
    broken = [wire[:-cut] for wire, cut in zip(wires, (4, 9, 20, 41), strict=True)]
    frames = [(frame, False) for pair in zip(wires, broken, strict=True) for frame in pair]
    await tb.run("rx", frames)
    await tb.quiet()
    assert tb.referee.counted[f"RX_{Verdict.MALFORMED.name}"] == 4
    await tb.registers.check(tb.referee.counted)


@TB.test(**LIMIT)
async def frames_that_grow_beyond_the_line(tb):
    """Back to back from several senders: some are lost, whole; those that come are right and in order."""
    count = 120
    frames = [udp(payload("zeros", 340), source_port=44000 + n) for n in range(count)]
    for frame in frames:
        sent = tb.referee.expect("tx", frame)
        assert sent.verdict is Verdict.COMPRESSED
        tb.network.send(sent.frame)
    came, idle = [], 0
    while tb.network.waiting or idle < PATIENCE:
        await ClockCycles(tb.host.clock, 100)
        idle = 0 if tb.host.came else idle + 100
        came += tb.host.came
        tb.host.came.clear()
    assert 30 < len(came) < count
    places = [frames.index(frame) for frame in came]
    assert places == sorted(set(places))
    tb.referee = Referee()
    await tb.run("rx", [(compressed(60, 49000)[1], False)])
    await tb.quiet()
    assert await tb.registers.read("RX_RESTORED") == len(came) + 1
