# SPDX-License-Identifier: BSD-2-Clause
"""The pace of an engine: what the benches of both engines measure in the same way."""

import random
from collections.abc import Callable, Iterable

import cocotb
from cocotb.triggers import ClockCycles
from engine_bench import EngineTB, Passage, Stimulus, beats
from engine_traffic import RATIOS, minimum_frames, segments

from inceptionn.wire import Verdict

RATE = 0.97
"""Fewest beats per cycle in steady state, of either engine."""
IDLE = 2
"""Most idle cycles of a 64-byte frame."""


def input_rate(passages: list[Passage], warm_up: int) -> float:
    """Input beats per cycle, first beat to first beat, from frame ``warm_up`` to the last one's start."""
    middle = passages[warm_up:-1]
    return sum(p.stimulus.beats for p in middle) / (passages[-1].first_in - middle[0].first_in)


def output_rate(passages: list[Passage], warm_up: int) -> float:
    """Return the rate of the output as `input_rate` does that of the input."""
    middle = passages[warm_up:-1]
    return sum(beats(len(p.result.frame)) for p in middle) / (passages[-1].first_out - middle[0].first_out)


async def check_bypass(tb: EngineTB, tos: int) -> None:
    """One beat per cycle in and out, for frames that pass."""
    for size, number in ((1460, 14), (8960, 11)):
        frames = segments(lambda _, size=size: random.randbytes(size), size, number, tos=tos)
        passages = await tb.run(frames)
        rates = input_rate(passages, 2), output_rate(passages, 2)
        tb.log.info("bypass, %d bytes, ToS %#04x: %.4f beats per cycle in, %.4f out", size, tos, *rates)
        assert min(rates) >= 0.999, f"{size} bytes: {rates} beats per cycle in and out"


async def check_idle_cycles(tb: EngineTB) -> None:
    """Of 64-byte frames, tagged or not."""
    for tos in (0x00, 0x28):
        passages = await tb.run(minimum_frames(120, tos))
        for rate in (input_rate(passages, 30), output_rate(passages, 30)):
            idle = beats(64) / rate - beats(64)
            tb.log.info("64 bytes, ToS %#04x: %.2f idle cycles", tos, idle)
            assert idle <= IDLE, f"64 bytes, ToS {tos:#04x}: {idle:.2f} idle cycles per frame"


def verdicts(passages: Iterable[Passage]) -> set[Verdict]:
    return {passage.result.verdict for passage in passages}


async def check_throughput(
    tb: EngineTB, ratio: str, rate_of: Callable[[list[Passage], int], float], verdict: Verdict,
    form: Callable[[bytes], bytes] = bytes,
) -> None:  # fmt: skip
    """One beat per cycle on the side of ``rate_of``, averaged over frames, each sent in this form."""
    for size, number in ((1460, 30), (8960, 11)):
        data = RATIOS[ratio](size)
        frames = segments(lambda _, data=data: data, size, number)
        passages = await tb.run(Stimulus(form(each.frame)) for each in frames)
        assert verdicts(passages) == {verdict}
        rate = rate_of(passages, 2)
        tb.log.info("ratio %s, %d bytes: %.4f beats per cycle", ratio, size, rate)
        assert rate >= RATE, f"ratio {ratio}, {size} bytes: {rate:.4f} beats per cycle"


async def run_stalled(tb: EngineTB, stimuli: Iterable[Stimulus], cycles: int) -> None:
    """Send frames while the output stalls for ``cycles`` cycles; at their end ``tready`` must be low."""

    async def stall() -> None:
        tb.sink.pause = True
        await ClockCycles(tb.dut.aclk, cycles)
        assert not tb.dut.s_axis_tready.value, "room without end"
        tb.sink.pause = False

    stalling = cocotb.start_soon(stall())
    await tb.run(stimuli, keep_paused=True)
    await stalling
