# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of Management: every word of the aperture against the register table, through AXI4-Lite.

Proofs hold the bank to the rules of AXI4-Lite, in any order of its channels, and to the edges of the
parameters. Parameters, neither needed: ``codec``, ``bf16``.
"""

import random
from collections.abc import Iterator
from functools import cache

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiProt, AxiResp

from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.config import DEFAULT_CONFIG, EngineConfig
from inceptionn.hdl.control.counters import frame_report
from inceptionn.hdl.control.register_map import Register
from inceptionn.hdl.control.registers import (
    ADDRESS_WIDTH,
    DIRECTIONS,
    SLOT_BF16,
    SLOT_BYTES_IN,
    SLOT_BYTES_OUT,
    SLOT_FRAMES_IN,
    SLOT_FRAMES_OUT,
    SLOT_LANES,
    VERDICTS,
    registers_of,
)
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import DEFAULT_MAX_PAYLOAD, Verdict, codec_spec

CODEC, BF16 = bench_parameters().get("codec", "paper"), bench_parameters().get("bf16", False)
SHAPE = EngineShape.of(codec=CODEC, bf16=BF16)
SPEC = codec_spec(CODEC)
REGISTERS = registers_of(CODEC, BF16)
SLOTS = {direction: REGISTERS.counters(direction) for direction in DIRECTIONS}
DRAIN = 64 if SPEC.counts_lanes else 112
"""Cycles after which an event is in its counter, as the register map promises."""
NUMBERS = [field.name for field in REGISTERS["PARAMETERS"].fields]
CONTROL = [register for register in REGISTERS if register.fields]
SETTINGS = {
    name: (field.offset, (1 << field.width) - 1)
    for name, field in EngineConfig.as_shape()
    if name not in ("e0", "t", "b") or name.upper() in NUMBERS
}
"""Places of the settings that the codec has."""


def pack_report(
    verdict: int, bytes_in: int, bytes_out: int, counts: tuple[int, ...] = (), lanes: int = 0, bf16: int = 0
) -> int:
    layout = frame_report(SHAPE)
    report = {"verdict": verdict, "bytes_in": bytes_in, "bytes_out": bytes_out, "lanes": lanes, "bf16": bf16}
    known = {name: report[name] for name in report if name in layout.members}
    counts = counts or (0,) * len(SPEC.classes)
    return layout.const(known | {"counts": list(counts)}).as_bits()


def unpack_config(word: int) -> dict[str, int]:
    """Return the settings that the codec has."""
    return {name: word >> offset & mask for name, (offset, mask) in SETTINGS.items()}


@cache
def check_config(word: int) -> None:
    config = unpack_config(word)
    numbers = SPEC.type(*(config[name.lower()] for name in NUMBERS))
    assert config["parameters_valid"] == numbers.valid, config
    assert config["max_payload"] <= DEFAULT_MAX_PAYLOAD, config


def settings(dut, direction: str) -> dict[str, int]:
    """Return the settings that an engine sees."""
    seen = unpack_config(int(getattr(dut, f"{direction}_config").value))
    return seen | ({"bf16_tos": int(getattr(dut, f"{direction}_bf16_tos").value)} if BF16 else {})


class RegisterModel:
    """What a word holds and answers, straight from the table."""

    def __init__(self) -> None:
        self.values = {register.name: register.reset for register in CONTROL}

    def read(self, address: int) -> tuple[int, AxiResp]:
        register = REGISTERS.words.get(address & ~3)
        if register is None:
            return 0, AxiResp.SLVERR
        return self.values.get(register.name, 0), AxiResp.OKAY

    def write(self, address: int, data: int, strobe: int) -> AxiResp:
        register = REGISTERS.words.get(address & ~3)
        if register is None or register.access == "ro":
            return AxiResp.SLVERR
        if register.access == "rw":
            mask = register.mask & sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
            self.values[register.name] = self.values[register.name] & ~mask | data & mask
            self._derive()
        return AxiResp.OKAY

    def _derive(self) -> None:
        limits = REGISTERS["PAYLOAD"]
        maximum = min(limits["MAX"].get(self.values["PAYLOAD"]), DEFAULT_MAX_PAYLOAD)
        self.values["PAYLOAD"] = self.values["PAYLOAD"] & ~limits["MAX"].mask | limits["MAX"].put(maximum)
        numbers = SPEC.type(*(self.field("PARAMETERS", name) for name in NUMBERS))
        self.values["STATUS"] = REGISTERS["STATUS"]["PARAMETERS_VALID"].put(numbers.valid)

    def field(self, register: str, name: str) -> int:
        return REGISTERS[register][name].get(self.values[register])

    def config(self, direction: str) -> dict[str, int]:
        return {
            "enable": self.field("CONTROL", f"{direction.upper()}_ENABLE"),
            "tos": self.field("TOS", "VALUE"),
            "tos_mask": self.field("TOS", "MASK"),
            **{name.lower(): self.field("PARAMETERS", name) for name in NUMBERS},
            "parameters_valid": self.field("STATUS", "PARAMETERS_VALID"),
            "min_payload": self.field("PAYLOAD", "MIN"),
            "max_payload": self.field("PAYLOAD", "MAX"),
            "learn_phases": self.field("CONTROL", "LEARN_PHASES"),
            **({"bf16_tos": self.bf16_tos} if BF16 else {}),
        }

    @property
    def bf16_tos(self) -> int:
        """That of fp32 stands for no bf16 lanes."""
        mask, bf16 = self.field("TOS", "MASK"), self.field("TOS", "BF16")
        return bf16 if bf16 & mask else self.field("TOS", "VALUE")


class TB(TestBench):
    """Idle event inputs, and a watch over what must hold in every cycle."""

    def __init__(self, dut):
        super().__init__(dut)
        self.model = RegisterModel()
        dut.aresetn.value = 0
        for direction in DIRECTIONS:
            for name in ("reports_payload", "reports_valid", "frame_in", "frame_out"):
                getattr(dut, f"{direction}_{name}").value = 0
        self.axil = self.axi_lite()
        cocotb.start_soon(self._watch_settings())

    async def _watch_settings(self) -> None:
        """No cycle shows an engine half of an update or a limit beyond what it holds."""
        while True:
            await RisingEdge(self.dut.aclk)
            for direction in DIRECTIONS:
                check_config(int(getattr(self.dut, f"{direction}_config").value))

    def stall(self, seed: int, probability: float) -> None:
        """Random gaps on all five channels."""

        def pauses(channel: int) -> Iterator[bool]:
            source = random.Random(seed * 5 + channel)
            while True:
                yield source.random() < probability

        write, read = self.axil.write_if, self.axil.read_if
        channels = (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)
        for number, channel in enumerate(channels):
            channel.set_pause_generator(pauses(number))

    async def read(self, address: int, prot: AxiProt = AxiProt.NONSECURE) -> tuple[int, AxiResp]:
        response = await self.axil.read(address, 4, prot)
        return int.from_bytes(response.data, "little"), response.resp

    async def counter(self, register: Register) -> int:
        low, low_response = await self.read(register.offset)
        high, high_response = await self.read(register.offset + 4)
        assert low_response == high_response == AxiResp.OKAY
        return high << 32 | low

    async def counters(self) -> dict[str, int]:
        return {
            register.name: await self.counter(register)
            for direction in DIRECTIONS
            for register in SLOTS[direction].values()
        }


@TB.test(timeout_time=200, timeout_unit="us")
async def reset_values(tb):
    """Every word of the aperture, as the table says, and what the engines see."""
    for direction in DIRECTIONS:
        reset = {name: value for name, value in DEFAULT_CONFIG.items() if name in settings(tb.dut, direction)}
        assert settings(tb.dut, direction) == reset | ({"bf16_tos": 0x2C} if BF16 else {})
    for address in range(0, 1 << ADDRESS_WIDTH, 4):
        assert await tb.read(address) == tb.model.read(address), hex(address)


@TB.test(timeout_time=400, timeout_unit="us")
async def access_rights(tb):
    """All ones, then all zeros, to every word: only read/write registers change, and only bits that exist."""
    for data in (0xFFFF_FFFF, 0):
        for address in range(0, 1 << ADDRESS_WIDTH, 4):
            response = await tb.axil.write(address, data.to_bytes(4, "little"))
            assert response.resp == tb.model.write(address, data, 0xF), hex(address)
        for register in CONTROL:
            assert await tb.read(register.offset) == tb.model.read(register.offset), register.name
        for direction in DIRECTIONS:
            assert settings(tb.dut, direction) == tb.model.config(direction)


@TB.test(timeout_time=800, timeout_unit="us")
@cocotb.parametrize(probability=[0.0, 0.3, 0.8])
async def random_traffic(tb, probability):
    """Check reads and writes of 1 to 4 bytes anywhere, under back-pressure on every channel."""
    tb.stall(seed=1, probability=probability)
    source = random.Random(2)
    edges = (0, 1, 0x75, 0x7A, 0x7F, 0x80, 0xFF)
    for _ in range(600):
        known = source.random() < 0.8
        word = source.choice(CONTROL).offset if known else source.randrange(0, 1 << ADDRESS_WIDTH, 4)
        prot = AxiProt(source.randrange(8))
        if source.random() < 0.5:
            assert await tb.read(word, prot) == tb.model.read(word), hex(word)
            continue
        first = source.randrange(4)
        data = bytes(source.choice(edges) for _ in range(source.randint(1, 4 - first)))
        strobe = sum(1 << first + n for n in range(len(data)))
        response = await tb.axil.write(word + first, data, prot)
        expected = tb.model.write(word, int.from_bytes(data, "little") << 8 * first, strobe)
        assert response.resp == expected, hex(word)
        for direction in DIRECTIONS:
            assert settings(tb.dut, direction) == tb.model.config(direction), f"after a write to {word:#x}"


@TB.test(skip=not BF16)
async def an_older_driver(tb):
    """Check that a driver that knows no bf16 lanes turns them off, by writing 0 to their byte of TOS."""
    assert REGISTERS["VERSION"]["BF16"].get((await tb.read(REGISTERS["VERSION"].offset))[0]) == 1
    for word, bf16 in ((0xFC28, 0x28), (0x2CFC28, 0x2C), (0x03FC28, 0x28), (0xB400FC24, 0x24)):
        await tb.axil.write_dword(REGISTERS["TOS"].offset, word)
        for direction in DIRECTIONS:
            assert settings(tb.dut, direction)["bf16_tos"] == bf16, hex(word)


@TB.test(timeout_time=400, timeout_unit="us")
async def counters_and_clear(tb):
    """Each verdict, lane class, byte and frame has its own counter; the clear command resets them all."""
    dut = tb.dut
    source = random.Random(4)
    for _ in range(2):
        expected = dict.fromkeys((register.name for register in REGISTERS if register.width == 64), 0)
        for _ in range(300):
            await RisingEdge(dut.aclk)
            for direction in DIRECTIONS:
                slots = SLOTS[direction]
                verdict = source.choice(VERDICTS[direction])
                sizes = source.getrandbits(17), source.getrandbits(17)
                compressed = verdict == Verdict.COMPRESSED
                bits = frame_report(SHAPE)["counts"].shape.elem_shape
                counts = tuple(source.getrandbits(bits) if compressed else 0 for _ in SPEC.classes)
                lanes, bf16 = source.getrandbits(12) if compressed else 0, BF16 and source.randrange(2)
                valid, frame_in, frame_out = (source.randrange(2) for _ in range(3))
                report = pack_report(verdict, *sizes, counts, lanes, bf16)
                getattr(dut, f"{direction}_reports_payload").value = report
                getattr(dut, f"{direction}_reports_valid").value = valid
                getattr(dut, f"{direction}_frame_in").value = frame_in
                getattr(dut, f"{direction}_frame_out").value = frame_out
                amounts = {SLOT_FRAMES_IN: frame_in, SLOT_FRAMES_OUT: frame_out}
                if valid:
                    amounts |= {verdict: 1, SLOT_BYTES_IN: sizes[0], SLOT_BYTES_OUT: sizes[1]}
                    amounts |= {SLOT_BF16: bf16} if BF16 else {}
                    if compressed:
                        amounts |= {REGISTERS.class_slot(i): count for i, count in enumerate(counts)}
                    if compressed and not SPEC.counts_lanes:
                        amounts |= {SLOT_BF16 + 1: 2 * lanes} if bf16 else {SLOT_LANES: lanes}
                for slot, amount in amounts.items():
                    expected[slots[slot].name] += amount
        await RisingEdge(dut.aclk)
        for direction in DIRECTIONS:
            for name in ("reports_valid", "frame_in", "frame_out"):
                getattr(dut, f"{direction}_{name}").value = 0
        await ClockCycles(dut.aclk, DRAIN)
        assert await tb.counters() == expected

        clear = REGISTERS["COMMAND"]
        for unset in (0, 0xFFFF_FFFE):
            await tb.axil.write_dword(clear.offset, unset)
        await tb.axil.write(clear.offset + 1, b"\xff\xff\xff")  # not the command's byte
        assert await tb.counters() == expected
        await tb.axil.write(clear.offset, b"\x01")
        assert await tb.counters() == dict.fromkeys(expected, 0)


@TB.test(timeout_time=300, timeout_unit="us")
async def whole_counter_across_a_carry(tb):
    """Check that a low word read before the carry into the high word brings the high word from before it."""
    dut = tb.dut
    amount = (1 << 17) - 1
    register = REGISTERS["RX_BYTES_OUT"]
    other = REGISTERS["TX_BYTES_IN"]
    dut.rx_reports_payload.value = pack_report(Verdict.MALFORMED, 1, amount)
    dut.rx_reports_valid.value = 1
    await ClockCycles(dut.aclk, (1 << 32) // amount - 2 * DRAIN)
    last = (await tb.read(register.offset))[0]
    assert last > (1 << 32) - 3 * DRAIN * amount
    await ClockCycles(dut.aclk, 4 * DRAIN)
    assert await tb.read(register.offset + 4) == (0, AxiResp.OKAY)
    whole = await tb.counter(register)
    assert whole >> 32 == 1
    assert whole & 0xFFFF_FFFF < 4 * DRAIN * amount
    assert await tb.counter(other) == 0
    dut.rx_reports_valid.value = 0
    await ClockCycles(dut.aclk, DRAIN)
    frames = await tb.counter(REGISTERS["RX_BYTES_IN"])
    assert await tb.counter(register) == frames * amount
    assert await tb.counter(REGISTERS["RX_MALFORMED"]) == frames


@TB.test(timeout_time=200, timeout_unit="us")
async def reset_clears(tb):
    """Check that a reset brings back every reset value and zeroes the counters.

    The counters' memory itself has no reset.
    """
    tb.dut.tx_reports_payload.value = pack_report(Verdict.SYN, 64, 64)
    tb.dut.tx_reports_valid.value = 1
    await tb.axil.write_dword(REGISTERS["TOS"].offset, 0x1234)
    await ClockCycles(tb.dut.aclk, 3 * DRAIN)
    assert await tb.counter(REGISTERS["TX_SYN"]) > DRAIN
    tb.dut.tx_reports_valid.value = 0
    await tb.reset()
    assert not any((await tb.counters()).values())
    for register in CONTROL:
        assert await tb.read(register.offset) == tb.model.read(register.offset), register.name
