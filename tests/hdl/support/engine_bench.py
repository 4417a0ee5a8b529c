# SPDX-License-Identifier: BSD-2-Clause
"""The test bench of both engines: frames in, frames and reports out, judged by the golden model.

A test only says what to send: a list of :class:`Stimulus`, and how the two streams pause.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import repeat

import cocotb
from chosen_width import WIDTH
from cocotb.triggers import ClockCycles, Event, RisingEdge
from cocotbext.axi import AxiStreamFrame

from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.config import EngineConfig as ConfigBits
from inceptionn.hdl.control.counters import frame_report
from inceptionn.hdl.serial.frame_store import FrameStore
from inceptionn.sim.golden import EngineConfig, FlowTable, Result, receive, transmit
from inceptionn.sim.golden.cases import bf16
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.testbench import TestBench
from inceptionn.wire import Verdict

LANES = WIDTH.lanes
"""fp32 lanes of the component's beats."""
CODEC = bench_parameters().get("codec", "paper")
"""Name of the component's codec."""
BEAT_BYTES = WIDTH.bytes
PATIENCE = 4000 if LANES > 1 else 6000
"""Cycles without an output frame, beyond four for each beat of the longest, that count as a hang."""
DRAIN = 60
"""Cycles after the last frame in which nothing more may come out."""
DEFAULT = replace(bf16.CONFIG if WIDTH.bf16 else EngineConfig(), learn_phases=True)
"""The reset values, but a segment alone is compressed, as a datagram is."""
ANY_LENGTH = replace(DEFAULT, min_payload=0)
"""Compresses payloads of any length."""


def beats(length: int) -> int:
    """Beats of ``length`` bytes."""
    return -(-length // BEAT_BYTES)


@dataclass(frozen=True)
class Stimulus:
    """A frame, how it arrives, and the engine's settings at that moment.

    ``partial``: index of a beat before the last that arrives with part of its ``tkeep`` only; the bytes are
    there all the same. ``verdict``: what a hand-written case demands of the model.
    """

    frame: bytes
    bad: bool = False
    config: EngineConfig = DEFAULT
    name: str = ""
    verdict: Verdict | None = None
    partial: int | None = None

    @property
    def beats(self) -> int:
        """Beats on ``s_axis``."""
        return beats(len(self.frame))

    @property
    def leaves(self) -> bool:
        """Whether the engine can hold it; else it is dropped."""
        return LANES > 1 or len(self.frame) <= FrameStore.LONGEST

    @property
    def arrives_bad(self) -> bool:
        """Whether the engine has to treat it as marked bad."""
        return self.bad or self.partial is not None

    def stream_frame(self) -> AxiStreamFrame:
        """With noise on ``tuser`` where it means nothing, before the last beat."""
        size = len(self.frame)
        rest = (size - 1) % BEAT_BYTES + 1
        user = [random.getrandbits(1)] * (size - rest) + [int(self.bad)] * rest
        keep = None
        if self.partial is not None:
            assert self.partial < self.beats - 1
            keep = [1] * size
            end = BEAT_BYTES * (self.partial + 1)
            missing = random.randint(1, BEAT_BYTES - 1)
            keep[end - missing : end] = [0] * missing
        return AxiStreamFrame(self.frame, tkeep=keep, tuser=user)


@dataclass(frozen=True)
class Passage:
    """A frame that went through: the model's result, and the cycles of its beats' handshakes."""

    stimulus: Stimulus
    result: Result
    first_in: int
    last_in: int
    first_out: int
    last_out: int

    @property
    def latency(self) -> int:
        """First beat in to first beat out."""
        return self.first_out - self.first_in


def gaps(probability: float, longest: int) -> Iterator[bool]:
    """For a pause generator: runs of up to ``longest`` cycles, a share of them pauses."""
    while True:
        yield from repeat(random.random() < probability, random.randint(1, longest))


PAUSES: dict[str, tuple[tuple[float, int] | None, tuple[float, int] | None]] = {
    "none": (None, None),
    "idle": ((0.5, 3), None),
    "stalls": (None, (0.5, 4)),
    "both": ((0.3, 12), (0.4, 40)),
}
"""Idle input and back-pressure by name: probability and longest run, or none."""


@cache
def bits(config: EngineConfig) -> int:
    """Return the value of an engine's ``config`` port."""
    numbers = config.parameters
    fields = {"t": 0, "b": 0, "parameters_valid": numbers.valid} | asdict(numbers)
    same = ("enable", "tos", "tos_mask", "min_payload", "max_payload", "learn_phases")
    fields |= {name: getattr(config, name) for name in same}
    return int(ConfigBits.as_shape().const(fields).as_bits())


class EngineTB(TestBench):
    """Source, sink, settings per frame, and what was seen at the ports, cycle by cycle.

    ``config`` has a frame's settings in the one cycle in which the engine samples them, and else noise.
    """

    def __init__(self, dut, model: Callable[[Stimulus], Result]):
        super().__init__(dut)
        self.model = model
        self.cycle = 0
        self._width = len(dut.config)
        dut.config.value = 0
        if WIDTH.bf16:
            dut.bf16_tos.value = 0
        self.source, self.sink = self.stream_source(), self.stream_sink()
        self._came = Event()  # a frame has left, or the deadline has come
        self._deadline = -1  # cycle of a hang
        self._forget()
        cocotb.start_soon(self._watch())

    def _forget(self) -> None:
        self.configs: deque[tuple[int, int]] = deque()
        self.starts: list[int] = []  # cycle of every frame's first input beat, then of its last
        self.ends: list[int] = []
        self.begun: list[int] = []  # the same of the output
        self.done: list[int] = []
        self.marks: list[bool] = []  # `tuser` at every frame's end
        self.reports: list[int] = []

    async def reset(self) -> None:
        """Nothing that was inside may come out after it."""
        await super().reset(8, 0)
        self._forget()
        await ClockCycles(self.dut.aclk, 2)

    async def _watch(self) -> None:
        dut = self.dut
        # Looked up once: a handle by its name takes as long as its value.
        reset, offered, taken = dut.aresetn, dut.s_axis_tvalid, dut.s_axis_tready
        valid, ready, last_out, reported = (
            dut.m_axis_tvalid, dut.m_axis_tready, dut.m_axis_tlast, dut.reports_valid,
        )  # fmt: skip
        beat = [getattr(dut, f"m_axis_{name}") for name in ("tdata", "tkeep", "tuser")]
        edge = RisingEdge(dut.aclk)
        first_in = first_out = True
        held = None
        while True:
            await edge
            self.cycle += 1
            if self.cycle == self._deadline:
                self._came.set()
            if not reset.value:
                first_in, first_out, held = True, True, None
                continue
            settings, bf16_tos = random.getrandbits(self._width), random.getrandbits(8)
            if offered.value and taken.value:
                if first_in:
                    self.starts.append(self.cycle)
                    settings, bf16_tos = self.configs.popleft()
                first_in = bool(dut.s_axis_tlast.value)
                if first_in:
                    self.ends.append(self.cycle)
            dut.config.value = settings
            if WIDTH.bf16:
                dut.bf16_tos.value = bf16_tos
            if valid.value:
                last, leaves = bool(last_out.value), bool(ready.value)
                if held is not None or not leaves:
                    payload = [int(part.value) for part in beat]
                    assert held in (None, [*payload, last]), "m_axis changed while it waited for tready"
                    held = None if leaves else [*payload, last]
                if leaves:
                    self._taken(first_out, last)
                    first_out = last
            else:
                assert held is None, "m_axis.tvalid fell before tready came"
            if reported.value:
                self.reports.append(int(dut.reports_payload.value))

    def _taken(self, first: bool, last: bool) -> None:
        """Note when a beat has left, and hold it to what AXIStream says of ``tkeep``."""
        if first:
            self.begun.append(self.cycle)
        keep = int(self.dut.m_axis_tkeep.value)
        if last:
            self.done.append(self.cycle)
            self._came.set()
            self.marks.append(bool(self.dut.m_axis_tuser.value))
            assert keep & 1, f"tkeep {keep:#010x} at tlast"
            assert not keep & (keep + 1), f"tkeep {keep:#010x} at tlast"
        else:
            assert keep == (1 << BEAT_BYTES) - 1, f"tkeep {keep:#010x} before tlast"

    def pause(self, idle: tuple[float, int] | None, stalls: tuple[float, int] | None) -> None:
        """Random pauses of source and sink from now on: probability and longest run, or none."""
        for end, setting in ((self.source, idle), (self.sink, stalls)):
            end.clear_pause_generator()
            end.pause = False
            if setting is not None:
                end.set_pause_generator(gaps(*setting))

    async def send(self, stimuli: Iterable[Stimulus]) -> None:
        """Queues frames back to back, with their settings."""
        for stimulus in stimuli:
            config = stimulus.config  # the register bank gives fp32's ToS byte for none, or for 0
            bf16 = config.bf16_tos or 0
            self.configs.append((bits(config), bf16 if bf16 & config.tos_mask else config.tos))
            await self.source.send(stimulus.stream_frame())

    async def run(
        self, stimuli: Iterable[Stimulus], pauses: str = "none", *, keep_paused: bool = False
    ) -> list[Passage]:
        """Send frames back to back and check every answer and report; fail where the engine hangs.

        The frames get random MAC addresses. ``pauses``: a key of :data:`PAUSES`; ``keep_paused`` leaves them
        to the test.
        """
        stimuli = [
            replace(one, frame=random.randbytes(12)[: len(one.frame)] + one.frame[12:]) for one in stimuli
        ]
        begin, before = len(self.starts), len(self.done)
        assert (begin, before) == (len(self.ends), len(self.reports)), "not idle"
        sources = [begin + number for number, stimulus in enumerate(stimuli) if stimulus.leaves]
        leaving = [stimulus for stimulus in stimuli if stimulus.leaves]
        results = [self.model(stimulus) for stimulus in leaving]
        await RisingEdge(self.dut.aclk)
        if not keep_paused:
            self.pause(*PAUSES[pauses])
        await self.send(stimuli)
        patience = PATIENCE + 4 * max((stimulus.beats for stimulus in stimuli), default=0)
        for index, (stimulus, result) in enumerate(zip(leaving, results, strict=True)):
            self._deadline = self.cycle + patience
            while len(self.done) <= before + index:
                self._came.clear()
                await self._came.wait()
                assert self.cycle < self._deadline, (
                    f"hang: no frame for {patience} cycles, {index} of {len(leaving)} frames came out, "
                    f"then {describe(stimulus)}, {result.verdict.name}"
                )
            self._check(stimulus, result, bytes(self.sink.recv_nowait().tdata), self.marks[before + index])
        self.pause(None, None)
        await ClockCycles(self.dut.aclk, DRAIN)
        assert self.sink.empty(), "a frame too many"
        assert self.sink.idle(), "a beat too many"
        assert self.source.empty()
        self._check_reports(leaving, results, self.reports[before:])
        moments = [[cycles[at] for at in sources] for cycles in (self.starts, self.ends)]
        moments += [cycles[before:] for cycles in (self.begun, self.done)]
        return [Passage(*each) for each in zip(leaving, results, *moments, strict=True)]

    @staticmethod
    def _check(stimulus: Stimulus, result: Result, frame: bytes, bad: bool) -> None:
        what = f"{describe(stimulus)}, {result.verdict.name}"
        assert stimulus.verdict in (None, result.verdict), f"{what}: the case says {stimulus.verdict!r}"
        assert len(frame) == len(result.frame), (
            f"{what}: {len(frame)} bytes came out, not {len(result.frame)}"
        )
        sure = result.unspecified_from
        if frame[:sure] != result.frame[:sure]:
            wrong = [i for i, (a, b) in enumerate(zip(frame[:sure], result.frame, strict=False)) if a != b]
            raise AssertionError(f"{what}: {len(wrong)} of {len(frame)} bytes wrong, the first at {wrong[0]}")
        assert bad == result.bad, f"{what}: leaves marked {'bad' if bad else 'good'}"

    @staticmethod
    def _check_reports(stimuli: list[Stimulus], results: list[Result], words: list[int]) -> None:
        assert len(words) == len(stimuli), f"{len(words)} reports for {len(stimuli)} frames"
        for stimulus, result, word in zip(stimuli, results, words, strict=True):
            report = frame_report(EngineShape.of(codec=CODEC, bf16=WIDTH.bf16)).from_bits(word)
            compressed = result.verdict is Verdict.COMPRESSED
            found = Verdict(report.verdict), report.bytes_in, report.bytes_out, tuple(report.counts)
            expected = (
                result.verdict,
                len(stimulus.frame) % (1 << 17),
                len(result.frame) % (1 << 17),
                result.counts if compressed else (0,) * len(report.counts),
            )
            assert found == expected, f"{describe(stimulus)}: reported {found}, not {expected}"
            if WIDTH.bf16:
                wire_form = result.frame if compressed else stimulus.frame
                bf16 = wire_form[wire_form.find(b"IN\x02") + 3] >> 7 if result.lanes else 0
                assert report.bf16 == bf16, f"{describe(stimulus)}: bf16 lanes reported as {report.bf16}"
                assert report.lanes << bf16 == (result.lanes if compressed else 0), describe(stimulus)


def describe(stimulus: Stimulus) -> str:
    """For a message: what a frame is and how it begins."""
    how = ["bad"] * stimulus.bad + [f"partial beat {stimulus.partial}"] * (stimulus.partial is not None)
    head = stimulus.frame[:66].hex()
    return f"{stimulus.name or 'frame'} ({', '.join([f'{len(stimulus.frame)} bytes', *how])}; {head})"


class CompressionTB(EngineTB):
    """The compression engine and the model of it, with its flow table."""

    def __init__(self, dut):
        self.flows = FlowTable()
        super().__init__(dut, self._answer)

    def _answer(self, stimulus: Stimulus) -> Result:
        return transmit(stimulus.frame, stimulus.config, self.flows, stimulus.arrives_bad)

    async def reset(self) -> None:
        self.flows = FlowTable()
        await super().reset()


class DecompressionTB(EngineTB):
    """The decompression engine and the model of it."""

    def __init__(self, dut):
        super().__init__(dut, self._answer)

    @staticmethod
    def _answer(stimulus: Stimulus) -> Result:
        return receive(stimulus.frame, stimulus.config, stimulus.arrives_bad)
