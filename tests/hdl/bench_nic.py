# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of Nic, the top: both engines and the registers, against the golden model.

Parameters, none needed: ``brief``, a choice of the sequences, for a slow simulator; ``engines``, how many of
a direction the NIC has; ``lanes`` of each.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import cocotb
import numpy as np
from chosen_width import WIDTH
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiResp, AxiStreamFrame

from inceptionn.hdl.control.registers import DIRECTIONS, REGISTERS, Direction
from inceptionn.hdl.serial.frame_store import FrameStore
from inceptionn.sim.golden import EngineConfig, FlowTable, Result, checksum, lossy, receive, transmit
from inceptionn.sim.golden.cases import OPENING, alone, receive_sequences, transmit_sequences
from inceptionn.sim.golden.packets import SYN, tcp, udp
from inceptionn.sim.golden.values import KINDS, payload
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import DEFAULT_MAX_PAYLOAD, Parameters, Tag, Verdict, parameters

BRIEF = bench_parameters().get("brief", False)
SERIAL = WIDTH.serial
BEAT_BYTES = bench_parameters().get("engines", 1) * WIDTH.bytes
"""Bytes of a beat."""
PATIENCE = 8 if SERIAL else 1
"""Times that it takes longer."""
DRAIN = 96
"""Cycles after a frame's last beat in which its report reaches the counters, reads going on."""
LIMIT = 2000
"""Cycles without a frame after which an engine counts as hung."""


@dataclass(frozen=True)
class Stimulus:
    """A frame, and whether it arrives marked bad."""

    frame: bytes
    bad: bool = False


def gaps(probability: float, longest: int) -> Iterator[bool]:
    """Pauses of 1 to ``longest`` cycles between runs of the same length."""
    while True:
        yield from itertools.repeat(False, random.randint(1, longest))
        yield from itertools.repeat(random.random() < probability, random.randint(1, longest))


class TB(TestBench):
    """Both ends of both directions, the register port, the model's state, and the sums it expects."""

    def __init__(self, dut):
        super().__init__(dut)
        self.sources = {direction: self.stream_source(f"s_axis_{direction}") for direction in DIRECTIONS}
        self.sinks = {direction: self.stream_sink(f"m_axis_{direction}") for direction in DIRECTIONS}
        self.axil = self.axi_lite()
        self._forget()

    def _forget(self) -> None:
        self.config = EngineConfig()
        self.enabled = {"tx": True, "rx": True}
        self.flows = FlowTable()
        self.expected: Counter[str] = Counter()

    async def reset(self, low: int = 8) -> None:
        await super().reset(low, 1)
        self._forget()

    async def watch_resets(self) -> None:
        """For ever: from the first cycle of a reset on, no input is ready and no output valid."""
        names = [name for way in DIRECTIONS for name in (f"s_axis_{way}_tready", f"m_axis_{way}_tvalid")]
        names += [f"s_axil_{name}" for name in ("awready", "wready", "bvalid", "arready", "rvalid")]
        while True:
            await RisingEdge(self.dut.aclk)
            if not int(self.dut.aresetn.value):
                assert not [name for name in names if int(getattr(self.dut, name).value)]

    async def write(self, name: str, **fields: int) -> None:
        register = REGISTERS[name]
        word = sum(register[field].put(int(value)) for field, value in fields.items())
        response = await self.axil.write(register.offset, word.to_bytes(4, "little"))
        assert response.resp == AxiResp.OKAY, name

    async def configure(self, config: EngineConfig, tx: bool = True, rx: bool = True) -> None:
        """Write every setting, with empty engines, so that the model knows which frames it concerns."""
        numbers = config.parameters
        switches = {"TX_ENABLE": tx and config.enable, "RX_ENABLE": rx and config.enable}
        await self.write("CONTROL", **switches, LEARN_PHASES=config.learn_phases)
        await self.write("TOS", VALUE=config.tos, MASK=config.tos_mask)
        await self.write("PARAMETERS", E0=numbers.e0, T=numbers.t, B=numbers.b)
        await self.write("PAYLOAD", MIN=config.min_payload, MAX=config.max_payload)
        self.config, self.enabled = config, {"tx": tx, "rx": rx}

    def expect(self, direction: Direction, stimulus: Stimulus) -> Result:
        """Return the model's answer, and add it to the expected counters."""
        config = replace(self.config, enable=self.config.enable and self.enabled[direction])
        if direction == "tx":
            result = transmit(stimulus.frame, config, self.flows, stimulus.bad)
        else:
            result = receive(stimulus.frame, config, stimulus.bad)
        amounts = {
            "FRAMES_IN": 1, "FRAMES_OUT": 1, "BYTES_IN": len(stimulus.frame), "BYTES_OUT": len(result.frame),
            result.verdict.name: 1,
        }  # fmt: skip
        if result.verdict is Verdict.COMPRESSED:
            amounts |= {f"LANES_{tag.name}": result.counts[tag] for tag in Tag}
        self.expected.update({f"{direction.upper()}_{name}": amount for name, amount in amounts.items()})
        return result

    def pause(self, source: tuple[float, int] | None, sink: tuple[float, int] | None) -> None:
        """Random idle on the inputs and back-pressure on the outputs: probability and longest pause."""
        for ends, setting in ((self.sources, source), (self.sinks, sink)):
            for end in ends.values():
                end.clear_pause_generator()
                end.pause = False
                if setting is not None:
                    end.set_pause_generator(gaps(*setting))

    async def _receive(self, direction: Direction) -> tuple[bytes, bool]:
        waited = 0
        while self.sinks[direction].empty():
            await RisingEdge(self.dut.aclk)
            waited += 1
            assert waited < LIMIT * 20, f"{direction}: no frame for {waited} cycles"
        frame = self.sinks[direction].recv_nowait()
        user = frame.tuser if isinstance(frame.tuser, int) else frame.tuser[-1]
        return bytes(frame.tdata), bool(user)

    async def run(self, direction: Direction, stimuli: Iterable[Stimulus]) -> list[bytes]:
        """Send frames back to back, check what leaves against the model, and return it."""
        stimuli = list(stimuli)
        for stimulus in stimuli:
            size = len(stimulus.frame)
            rest = (size - 1) % BEAT_BYTES + 1
            # tuser means something with tlast only; noise before it.
            user = [random.getrandbits(1)] * (size - rest) + [int(stimulus.bad)] * rest
            await self.sources[direction].send(AxiStreamFrame(stimulus.frame, tuser=user))
        answers = []
        for number, stimulus in enumerate(stimuli):
            if SERIAL and len(stimulus.frame) > FrameStore.LONGEST:
                self.expected[f"{direction.upper()}_FRAMES_IN"] += 1
                continue
            expected = self.expect(direction, stimulus)
            frame, bad = await self._receive(direction)
            what = f"{direction} frame {number}, {expected.verdict.name}, {len(stimulus.frame)} bytes"
            assert len(frame) == len(expected.frame), what
            sure = expected.unspecified_from
            assert frame[:sure] == expected.frame[:sure], what
            assert bad == expected.bad, what
            answers.append(frame)
        await self.sources[direction].wait()  # a frame that is dropped may be the last
        return answers

    async def both(self, tx: Iterable[Stimulus], rx: Iterable[Stimulus]) -> None:
        """Both directions at a time."""
        sides = [cocotb.start_soon(self.run("tx", tx)), cocotb.start_soon(self.run("rx", rx))]
        for side in sides:
            await side

    async def check_counters(self) -> None:
        """Every counter is what the model's verdicts add up to, and no frame is left over."""
        await ClockCycles(self.dut.aclk, DRAIN)
        for direction in DIRECTIONS:
            assert self.sinks[direction].empty()
            assert self.sinks[direction].idle()
            for register in REGISTERS.counters(direction).values():
                data = await self.axil.read(register.offset, 8)
                assert data.resp == AxiResp.OKAY, register.name
                value = int.from_bytes(data.data, "little")
                assert value == self.expected[register.name], f"{register.name}: {value}"


def mixture(count: int, source: random.Random) -> list[Stimulus]:
    """Tagged and untagged, TCP and UDP, short and long, aligned or not, now and then marked bad."""
    stimuli = []
    sequence = Counter()
    for _ in range(count):
        kind = source.choice(sorted(KINDS))
        lanes = source.choice((0, 1, 15, 16, 17)) if source.random() < 0.3 else source.randint(1, 365)
        port = 40000 + source.randrange(4)
        # One flow leaves its 4-byte grid.
        odd = source.choice((0, 2)) if port == 40000 else 0
        data = payload(kind, lanes, source.getrandbits(20)) + bytes(odd)
        tos = source.choice((0x28, 0x28, 0x28, 0x2A, 0x2B, 0x00))
        vlan = source.choice((None, None, 7))
        if source.random() < 0.75:
            options = bytes(source.choice((0, 0, 12, 40)))
            if port not in sequence:
                stimuli.append(Stimulus(tcp(b"", sequence=-1, source_port=port, flags=SYN)))
            number = sequence[port]
            sequence[port] += len(data)
            frame = tcp(data, sequence=number, source_port=port, tcp_options=options, vlan=vlan, tos=tos)
        else:
            frame = udp(data, source_port=port, vlan=vlan, tos=tos)
        stimuli.append(Stimulus(frame, source.random() < 0.05))
    return stimuli


def damaged(frame: bytes, bad: bool, source: random.Random) -> Stimulus:
    """Return a frame as a poor wire delivers it: one in five cut short or changed, some marked bad."""
    if source.random() < 0.2:
        at = source.randrange(1, len(frame))
        changed = bytes([frame[at] ^ 1 << source.randrange(8)])
        frame = frame[:at] if source.random() < 0.5 else frame[:at] + changed + frame[at + 1 :]
        bad |= source.random() < 0.3
    return Stimulus(frame, bad)


@TB.test(timeout_time=100 * PATIENCE, timeout_unit="us")
async def first_frame_after_reset(tb):
    """Check that the NIC is enabled out of reset.

    The very first frame, offered at once, is compressed and restored.
    """
    (wire_form,) = await tb.run("tx", [Stimulus(udp(payload("gradients", 365)))])
    assert tb.expected["TX_COMPRESSED"] == 1
    await tb.reset()
    await tb.run("rx", [Stimulus(wire_form)])
    assert tb.expected["RX_RESTORED"] == 1
    await tb.check_counters()


@TB.test(timeout_time=2000 * PATIENCE, timeout_unit="us")
@cocotb.parametrize(
    (
        ("source", "sink"),
        [((0.4, 40), (0.4, 40)), (None, None), ((0.5, 3), None), (None, (0.5, 3))][: 1 if BRIEF else None],
    )
)
async def every_verdict(tb, source, sink):
    """All the model's hand-written sequences, both directions at once, with their settings by register."""
    seen = Counter()
    pairs = itertools.zip_longest(transmit_sequences(), receive_sequences())
    for tx, rx in itertools.islice(pairs, 3 if BRIEF else None):
        await tb.reset()
        tb.pause(source, sink)
        # Each direction's settings come with its sequence: one after the other where they differ.
        runs = [("tx", tx)] if rx is None else [("tx", tx), ("rx", rx)]
        if rx is not None and tx.config == rx.config:
            await tb.configure(tx.config)
            await tb.both(*([Stimulus(case.frame, case.bad) for case in run.cases] for run in (tx, rx)))
        else:
            for direction, run in runs:
                await tb.configure(run.config)
                await tb.run(direction, [Stimulus(case.frame, case.bad) for case in run.cases])
        tb.pause(None, None)
        await tb.check_counters()
        seen += tb.expected
    for direction in DIRECTIONS:
        for register in REGISTERS.counters(direction).values():
            if not (BRIEF and register.name.endswith("DISABLED")):
                assert seen[register.name], f"{register.name} was never counted"


@TB.test(timeout_time=1000 * PATIENCE, timeout_unit="us")
async def mixed_traffic_in_loopback(tb):
    """Check frames that come back from the wire while more are sent; settings change between the rounds."""
    source = random.Random(1)
    wire_forms: list[Stimulus] = []
    for k, mode, pause in ((10, "bounded", None), (6, "literal", (0.3, 5)), (14, "bounded", (0.3, 20))):
        await tb.configure(EngineConfig(parameters=parameters(k, mode)))
        tb.pause(pause, pause)
        fresh = mixture(60, source)
        sending = cocotb.start_soon(tb.run("tx", fresh))
        await tb.run("rx", wire_forms)
        sent = await sending
        wire_forms = [
            damaged(frame, stimulus.bad, source) for frame, stimulus in zip(sent, fresh, strict=True)
        ]
    tb.pause(None, None)
    await tb.run("rx", wire_forms)
    await tb.check_counters()
    assert tb.expected["TX_COMPRESSED"] > tb.expected["RX_RESTORED"] > 30
    assert tb.expected["RX_MALFORMED"] > 0


@TB.test(timeout_time=200 * PATIENCE, timeout_unit="us")
@cocotb.parametrize(k=[10] if BRIEF else [1, 6, 10, 14], mode=["literal", "bounded"])
async def end_to_end(tb, k, mode):
    """Host to host: the receiver gets the sender's values within the bound, under a checksum that holds."""
    numbers = parameters(k, mode)
    await tb.configure(EngineConfig(parameters=numbers))
    data = payload("gradients", 2048) + payload("edges", 256)
    await tb.run("tx", [Stimulus(OPENING.frame)])
    for frame in (tcp(data), udp(data), tcp(data, vlan=3, tcp_options=bytes(12))):
        (wire_form,) = await tb.run("tx", [Stimulus(frame)])
        assert len(wire_form) < len(frame)
        (restored,) = await tb.run("rx", [Stimulus(wire_form)])
        assert len(restored) == len(frame)
        assert restored.endswith(lossy_bytes(data, numbers))
        at = 18 if restored[12:14] == b"\x81\x00" else 14
        total_length = int.from_bytes(restored[at + 2 : at + 4], "big")
        addresses = (int.from_bytes(restored[at + n : at + n + 4], "big") for n in (12, 16))
        pseudo_header = checksum.pseudo_header_sum(*addresses, restored[at + 9], total_length - 20)
        assert checksum.fold(pseudo_header + checksum.word_sum(restored[at + 20 :])) == 0xFFFF
        assert checksum.fold(checksum.word_sum(restored[at : at + 20])) == 0xFFFF


def lossy_bytes(data: bytes, numbers: Parameters) -> bytes:
    return lossy(np.frombuffer(data, "<f4"), params=numbers).astype("<f4").tobytes()


@TB.test(timeout_time=100 * PATIENCE, timeout_unit="us")
async def registers_in_a_row(tb):
    """Offer each write, and each read, before the last is answered; what has no register is refused."""
    for _ in range(20):
        words = {
            REGISTERS["TOS"].offset: random.getrandbits(32) & REGISTERS["TOS"].mask,
            REGISTERS["PARAMETERS"].offset: random.getrandbits(32) & REGISTERS["PARAMETERS"].mask,
            REGISTERS["PAYLOAD"].offset: REGISTERS["PAYLOAD"]["MIN"].put(random.getrandbits(16))
            | REGISTERS["PAYLOAD"]["MAX"].put(random.randrange(DEFAULT_MAX_PAYLOAD)),
        }
        writes = [tb.axil.write(offset, word.to_bytes(4, "little")) for offset, word in words.items()]
        for write in [cocotb.start_soon(write) for write in writes]:
            assert (await write).resp == AxiResp.OKAY
        for read in [cocotb.start_soon(tb.axil.read(offset, 4)) for offset in words]:
            data = await read
            assert data.resp == AxiResp.OKAY
            assert int.from_bytes(data.data, "little") == words[data.address], data.address
    nowhere = max(REGISTERS.words) + 4
    assert (await tb.axil.read(nowhere, 4)).resp == AxiResp.SLVERR
    assert (await tb.axil.write(nowhere, bytes(4))).resp == AxiResp.SLVERR


@TB.test(timeout_time=200 * PATIENCE, timeout_unit="us")
async def switches(tb):
    """Each direction's switch, invalid parameters and length limits work alone and at once."""
    frame = tcp(payload("gradients", 100))
    _, wire_form = await tb.run("tx", [Stimulus(OPENING.frame), Stimulus(frame)])
    for tx, rx in itertools.product((False, True), repeat=2):
        await tb.configure(EngineConfig(), tx=tx, rx=rx)
        await tb.both([Stimulus(frame)] * 3, [Stimulus(wire_form)] * 3)
    await tb.configure(EngineConfig(parameters=Parameters(117, 116, 127)))
    await tb.both([Stimulus(frame)], [Stimulus(wire_form)])
    await tb.configure(EngineConfig(min_payload=404, max_payload=400))
    await tb.both([Stimulus(frame)], [Stimulus(wire_form)])
    await tb.configure(EngineConfig(max_payload=396))
    await tb.both([Stimulus(frame)], [Stimulus(wire_form)])
    await tb.check_counters()
    assert tb.expected["TX_DISABLED"] == 7
    assert tb.expected["RX_DISABLED"] == 6
    assert tb.expected["TX_SHORT"] == tb.expected["TX_LONG"] == tb.expected["RX_BAD_SHIM"] == 1


@TB.test(timeout_time=200 * PATIENCE, timeout_unit="us")
async def settings_change_under_traffic(tb):
    """Parameters rewritten while frames run: each frame has one setting or the other, never a mix."""
    frames = [tcp(payload("gradients", 365, seed), sequence=4 * 365 * seed) for seed in range(40)]
    settings = (parameters(10, "bounded"), parameters(4, "literal"))
    answers = [
        [alone(frame, EngineConfig(parameters=numbers)).frame for numbers in settings] for frame in frames
    ]
    await tb.run("tx", [Stimulus(OPENING.frame)])
    for frame in frames:
        await tb.sources["tx"].send(AxiStreamFrame(frame))
    writing = cocotb.start_soon(rewrite(tb, settings))
    chosen = []
    for number, answer in enumerate(answers):
        found, bad = await tb._receive("tx")
        assert found in answer, f"frame {number} is of neither setting"
        assert not bad
        chosen.append(answer.index(found))
    writing.cancel()
    assert {0, 1} == set(chosen), "the settings never changed between two frames"


async def rewrite(tb: TB, settings: tuple[Parameters, ...]) -> None:
    for numbers in itertools.cycle(settings):
        await tb.write("PARAMETERS", E0=numbers.e0, T=numbers.t, B=numbers.b)
        await ClockCycles(tb.dut.aclk, random.randint(1, 150))


@TB.test(timeout_time=200 * PATIENCE, timeout_unit="us")
async def reset_under_traffic(tb):
    """Reset for 1 to 16 cycles in the middle of frames and accesses: nothing of them is left."""
    source = random.Random(2)
    cocotb.start_soon(tb.watch_resets())
    frame = udp(payload("gradients", 365))
    wire_form = alone(frame, EngineConfig()).frame
    for _ in range(4 if BRIEF else 12):
        for direction, data in (("tx", frame), ("rx", wire_form)):
            for _ in range(3):
                await tb.sources[direction].send(AxiStreamFrame(data))
        await ClockCycles(tb.dut.aclk, source.randint(1, 200))
        accesses = [cocotb.start_soon(tb.axil.read(8 * n, 4)) for n in range(4)]
        accesses += [cocotb.start_soon(tb.axil.write(REGISTERS["TOS"].offset, bytes(4))) for _ in range(4)]
        await ClockCycles(tb.dut.aclk, source.randint(1, 20))
        await tb.reset(source.choice((1, 1, 1, 2, 3, 8, 16)))
        for access in accesses:
            access.cancel()
        await tb.both([Stimulus(frame)] * 2, [Stimulus(wire_form)] * 2)
        await tb.check_counters()
