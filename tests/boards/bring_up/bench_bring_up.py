# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of BringUpCore: serial dialogue, its streams against the golden model, injected faults.

``inceptionn regs --uart`` talks to it over a pseudo-terminal.
"""

import json
import os
import re
import select
import subprocess
import sys
import time
import tty
from dataclasses import dataclass, field
from functools import partial

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, Timer

from inceptionn.sim.golden import codec
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import DEFAULT_K, DEFAULT_MODE, Tag, parameters

PERIOD_NS = 4
BIT_NS = PERIOD_NS * int(bench_parameters()["divisor"])
CHARACTER_NS = 10 * BIT_NS
LED_RUNNING, LED_PASS, LED_FAIL = 1, 2, 3
RATE_LEDS = 4
DRAIN = 3000
"""Cycles within which everything sent has come back."""
PATTERNS = ("mixed", "gradient", "zero", "bits8", "bits16", "raw", "short")
ERRORS = ("mismatched", "beyond_bound", "wrong_size", "wrong_format", "hangs")
PATIENCE = 120
"""Seconds for one command; starting Python takes most of it."""
REPORT = re.compile(r"seconds=[^\r]* (?:PASS|FAIL|IDLE)\r\n")


@dataclass
class Packets:
    """Packets seen on one probe; ``open`` is the one in flight, ``cycles`` are those of its beats."""

    whole: list[bytes] = field(default_factory=list)
    open: bytearray = field(default_factory=bytearray)
    cycles: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Beats per cycle from the first to the last beat."""
        return len(self.cycles) / (self.cycles[-1] - self.cycles[0] + 1)

    def take(self, cycle: int, data: int, keep: int, last: int) -> None:
        self.cycles.append(cycle)
        self.open += data.to_bytes(32, "little")[: keep.bit_count()]
        if last:
            self.whole.append(bytes(self.open))
            self.open.clear()


class TB(TestBench):
    """A terminal on the serial line, eyes on the LEDs, and a logic analyser on the probes."""

    def __init__(self, dut):
        super().__init__(dut)
        self.heard = ""
        self.streams: dict[str, Packets] = {}
        dut.rx.value = 1
        cocotb.start_soon(self._listen())

    async def reset(self) -> None:
        await super().reset(after=0)
        self.heard = ""

    async def _listen(self) -> None:
        while True:
            await FallingEdge(self.dut.tx)
            await Timer(BIT_NS // 2, "ns")
            if self.dut.tx.value != 0:
                continue
            byte = 0
            for bit in range(8):
                await Timer(BIT_NS, "ns")
                byte |= int(self.dut.tx.value) << bit
            await Timer(BIT_NS, "ns")
            assert self.dut.tx.value == 1, f"no stop bit after {byte:#04x}; so far {self.heard!r}"
            self.heard += chr(byte)

    async def type(self, line: str) -> None:
        await self.send((line + "\r").encode())

    async def send(self, characters: bytes) -> None:
        for character in characters:
            for bit in (0, *(character >> i & 1 for i in range(8)), 1):
                self.dut.rx.value = bit
                await Timer(BIT_NS, "ns")

    async def regs(self, master: int, line: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command at the pseudo-terminal ``line``; little simulated time passes meanwhile."""
        command = [sys.executable, "-m", "inceptionn.cli", "regs", *arguments, "--uart", line]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COCOTB")}
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment)  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        try:
            while running.poll() is None:
                assert time.monotonic() < deadline, f"{arguments} has not ended within {PATIENCE} s"
                if select.select([master], [], [], 0.02)[0]:
                    await self.send(os.read(master, 256))
                else:
                    await Timer(40 * CHARACTER_NS, "ns")
                said, self.heard = self.heard, ""
                os.write(master, said.encode("latin-1"))
        finally:
            running.kill()
            out, errors = running.communicate()
        return subprocess.CompletedProcess(command, running.returncode, out, errors)

    async def hear(self, wanted: str | re.Pattern[str], characters: int = 1200) -> str:
        """Wait for ``wanted``, return it, and forget everything heard up to its end."""
        pattern = re.compile(re.escape(wanted)) if isinstance(wanted, str) else wanted
        for _ in range(characters):
            if found := pattern.search(self.heard):
                self.heard = self.heard[found.end() :]
                return found[0]
            await Timer(CHARACTER_NS, "ns")
        raise AssertionError(f"not heard in {characters} characters: {wanted!r}, but {self.heard!r}")

    async def ask(self, line: str, answer: str = "ok\r\n") -> None:
        await self.type(line)
        await self.hear(answer)

    async def report(self) -> tuple[dict[str, int], str]:
        """Ask for a report; return its numbers and its verdict."""
        self.heard = ""
        await self.type("report")
        return self.numbers(await self.hear(REPORT))

    @staticmethod
    def numbers(text: str) -> tuple[dict[str, int], str]:
        *words, verdict = text.split()
        return {name: int(number) for name, _, number in (word.partition("=") for word in words)}, verdict

    def led(self, number: int) -> int:
        return int(self.dut.leds.value) >> number & 1

    async def watch(self, cycles: int) -> None:
        """Collect what goes over the three streams."""
        names = ("sent", "wire", "restored")
        probes = [
            tuple(getattr(self.dut, f"probe_{name}_{part}") for part in ("fire", "tdata", "tkeep", "tlast"))
            for name in names
        ]
        for name in names:
            self.streams.setdefault(name, Packets())
        for cycle in range(cycles):
            await FallingEdge(self.dut.aclk)
            for name, (fire, data, keep, last) in zip(names, probes, strict=True):
                if fire.value == 1:
                    self.streams[name].take(cycle, int(data.value), int(keep.value), int(last.value))

    def judge(self, k: int) -> tuple[np.ndarray, int]:
        """Hold the packets watched since a start to the golden model; return classes and packets restored."""
        numbers = parameters(k, DEFAULT_MODE)
        sent, wire, restored = (self.streams[name].whole for name in ("sent", "wire", "restored"))
        classes = np.zeros(4, np.int64)
        for at, packet in enumerate(sent):
            values = np.frombuffer(packet, "<f4")
            tags, vectors = codec.compress_lanes(codec.bits_of(values), numbers)
            if at < len(wire):
                assert wire[at] == codec.pack_block(tags, vectors), f"block {at}"
            if at < len(restored):
                lossy = codec.decompress_block(codec.pack_block(tags, vectors), len(values), numbers.b)
                assert restored[at] == lossy.tobytes(), f"packet {at}"
                classes += np.bincount(tags, minlength=4)
        return classes, min(len(sent), len(restored))


@TB.test()
async def dialogue(tb) -> None:
    """Check that the design starts by itself and passes, and reports what went over its streams."""
    await tb.watch(2500)
    classes, packets = tb.judge(DEFAULT_K)
    assert packets >= 5
    assert classes.min() > 1000, classes
    assert (tb.led(LED_RUNNING), tb.led(LED_PASS), tb.led(LED_FAIL)) == (1, 1, 0)
    await tb.hear("inceptionn bring-up")
    await tb.hear("pattern N: 0 mixed 1 gradient 2 zero 3 bits8 4 bits16 5 raw 6 short\r\n")

    # Once a second by itself.
    first, verdict = tb.numbers(await tb.hear(REPORT, 4000))
    assert verdict == "PASS"
    assert (first["pattern"], first["bound"]) == (0, DEFAULT_K)
    assert [first[name] for name in ERRORS] == [0] * len(ERRORS)
    assert 0 < first["wire_rate"] < 4 * first["values_rate"]
    following, _ = tb.numbers(await tb.hear(REPORT, 4000))
    assert following["seconds"] > first["seconds"]
    assert following["packets"] > first["packets"]

    # From a clear start to a stop, to the last byte.
    tb.streams.clear()
    await tb.ask("stop")
    await ClockCycles(tb.dut.aclk, DRAIN)
    assert tb.led(LED_RUNNING) == 0
    await tb.ask("clear")
    tb.heard = ""
    numbers, verdict = await tb.report()
    assert verdict == "IDLE"
    assert {numbers[name] for name in ("packets", "values", "wire", *ERRORS)} == {0}
    await tb.type("go")
    watcher = cocotb.start_soon(tb.watch(20 * 40 + 2 * DRAIN))
    await tb.ask("stop", "ok\r\n")
    await watcher
    numbers, verdict = await tb.report()
    classes, packets = tb.judge(DEFAULT_K)
    assert verdict == "PASS"
    assert numbers["packets"] == packets == len(tb.streams["sent"].whole) > 0
    assert numbers["values"] == classes.sum()
    assert numbers["wire"] == sum(map(len, tb.streams["wire"].whole))


@TB.test()
async def every_pattern_and_bound(tb) -> None:
    """Each pattern sends its classes and lengths at one beat per cycle, whatever the bound."""
    await tb.hear("inceptionn bring-up")
    bounds = (10, 10, 1, 14, 5, 7, 2)
    for number, (name, k) in enumerate(zip(PATTERNS, bounds, strict=True)):
        await tb.ask(f"bound {k}")
        await tb.ask("stop")
        await ClockCycles(tb.dut.aclk, DRAIN)
        tb.streams.clear()
        watcher = cocotb.start_soon(tb.watch(1800))
        await tb.type(f"pattern {number}")
        await watcher
        classes, packets = tb.judge(k)
        lengths = [len(packet) // 4 for packet in tb.streams["sent"].whole]
        rate = tb.streams["restored"].rate
        tb.log.info(f"{name}, bound 2^-{k}: {packets} packets, classes {classes}, {rate:.3f} beats a cycle")
        assert packets >= 2
        seen = {Tag(tag) for tag in np.flatnonzero(classes)}
        if name in ("mixed", "short"):
            assert seen == set(Tag)
        elif name == "gradient":
            assert seen == {Tag.ZERO, Tag.BITS8, Tag.BITS16}
            assert set(lengths) == {365}
            assert rate > 46 / 47.01  # one idle cycle after a packet
        else:
            # At 2^-1 there is no 16-bit class; the patterns of one class here have another bound.
            assert {tag.name.lower() for tag in seen} == {name}
            assert set(lengths) == {2304}
            assert rate > (0.93 if name == "raw" else 288 / 289.01)  # raw blocks are 1/16 longer than packets
        if name == "short":
            assert set(lengths) == set(range(1, 33))
        assert (tb.led(LED_PASS), tb.led(LED_FAIL)) == (1, 0)


@TB.test()
async def injected_faults_light_fail(tb) -> None:
    """Each fault is seen by the check that it is for; a fresh start is clean again."""
    dut = tb.dut
    await tb.hear("inceptionn bring-up")
    cases = {0: "wrong_format", 1: "mismatched", 2: "mismatched", 3: "hangs"}
    for fault, check in cases.items():
        await tb.ask("pattern 1")
        await tb.ask("clear")
        await ClockCycles(dut.aclk, 1500)
        assert (tb.led(LED_PASS), tb.led(LED_FAIL)) == (1, 0), f"before fault {fault}"
        await tb.ask(f"inject {fault}")
        await ClockCycles(dut.aclk, 6000 if check == "hangs" else 1500)
        assert (tb.led(LED_PASS), tb.led(LED_FAIL)) == (0, 1), f"fault {fault}"
        numbers, verdict = await tb.report()
        dut._log.info(f"fault {fault}: {numbers}")
        assert verdict == "FAIL"
        assert numbers[check] > 0, f"fault {fault}: {numbers}"
        if fault == 1:  # one bit of one value
            assert numbers["mismatched"] == 1
        if fault == 2:  # every 8-bit value doubles: beyond the bound by its own rule too
            assert numbers["beyond_bound"] > 0
        # The verdict stays until it is cleared.
        await tb.ask("go")
        await ClockCycles(dut.aclk, 1500)
        assert tb.led(LED_FAIL) == 1
    await tb.ask("clear")
    await ClockCycles(dut.aclk, 1500)
    assert (tb.led(LED_PASS), tb.led(LED_FAIL)) == (1, 0)


@TB.test()
async def bad_lines_change_nothing(tb) -> None:
    """Unknown commands and numbers out of range get one line; blanks and case do not matter."""
    await tb.hear("inceptionn bring-up")
    await tb.ask("S")
    for line, answer in {
        "x": "no such command: try help\r\n",
        "go!": "no such command: try help\r\n",
        "7": "no such command: try help\r\n",
        "pattern": "no such number: help shows the choices\r\n",
        "pattern 7": "no such number: help shows the choices\r\n",
        "bound 0": "no such number: help shows the choices\r\n",
        "bound 15": "no such number: help shows the choices\r\n",
        "bound 266": "no such number: help shows the choices\r\n",
        "inject": "no such number: help shows the choices\r\n",
        "inject 4": "no such number: help shows the choices\r\n",
    }.items():
        await tb.ask(line, line)  # echoed
        await tb.hear(answer)
    assert tb.led(LED_RUNNING) == 0
    numbers, _ = await tb.report()
    assert (numbers["pattern"], numbers["bound"]) == (0, DEFAULT_K)
    await tb.ask("  BOUND 03 ")
    numbers, _ = await tb.report()
    assert numbers["bound"] == 3
    assert tb.led(LED_RUNNING) == 1


@TB.test()
async def rate_leds(tb) -> None:
    """All four light while packets of MTU size go round at one beat per cycle, none when stopped."""
    await tb.ask("pattern 1")
    await ClockCycles(tb.dut.aclk, 3000)
    assert int(tb.dut.leds.value) >> RATE_LEDS == 0b1111
    await tb.ask("stop")
    await ClockCycles(tb.dut.aclk, DRAIN)
    assert int(tb.dut.leds.value) >> RATE_LEDS == 0


@TB.test()
async def registers_over_the_serial_line(tb) -> None:
    """Check settings, a refused one, and a fault with its verdict."""
    master, slave = os.openpty()
    tty.setraw(slave)
    regs = partial(tb.regs, master, os.ttyname(slave))
    await tb.hear(REPORT)  # the greeting is over
    done = await regs("bound", "8")
    assert done.returncode == 0, done.stderr
    done = await regs("dump", "--json", "-")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert (values["PATTERN"], values["BOUND"]) == (0, 8)
    assert values["PACKETS"] > 0
    assert values["VERDICT"] == 0b010
    assert values["MISMATCHED"] == 0
    done = await regs("set", "PATTERN", "9")
    assert done.returncode == 1
    assert "no such number: help shows the choices" in done.stderr
    assert (await regs("set", "INJECT.VALUE", "1")).returncode == 0
    done = await regs("get", "MISMATCHED")
    assert done.stdout.strip() == "1", done.stderr
    assert (await regs("get", "VERDICT.FAIL")).stdout.strip() == "0x1"
