# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of CompressionEngine: frames of every kind against the golden model, and its pace."""

import random
from itertools import repeat

import cocotb
from chosen_beat import BEAT
from cocotb.triggers import ClockCycles
from engine_bench import ANY_LENGTH, LANES, PAUSES, CompressionTB, Stimulus, beats
from engine_pace import check_bypass, check_idle_cycles, check_throughput, input_rate, run_stalled, verdicts
from engine_traffic import (
    PARAMETERS,
    RATIOS,
    cut_frames,
    long_frame,
    minimum_frames,
    ones,
    ragged,
    replay,
    segments,
    sent_checksum_edges,
    shapes,
    with_configs,
    with_good_between,
)

from inceptionn.hdl.engine.transmit_decision import TransmitDecision
from inceptionn.hdl.frame.flow_table import FLOW_SETS
from inceptionn.sim.golden import EngineConfig
from inceptionn.sim.golden.cases import transmit_sequences
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.values import KINDS, payload
from inceptionn.sim.traffic import host_frames
from inceptionn.wire import MAX_TRANSMIT_FRAME, Verdict

PACE = TransmitDecision.pace_of(BEAT)
LATENCY = 48 if LANES == 8 else 56
"""Most cycles from first beat to first beat, beyond the frame's beats."""


@CompressionTB.test()
async def empties_its_flow_table_first(tb):
    """``tready`` is low out of reset until every set of the flow table is empty, and nothing comes out."""
    waited = 0
    while not tb.dut.s_axis_tready.value:
        await ClockCycles(tb.dut.aclk, 1)
        waited += 1
        assert waited < FLOW_SETS + 20, "tready stays low"
    assert waited > FLOW_SETS - 20
    await ClockCycles(tb.dut.aclk, 100)
    assert not tb.begun
    assert not tb.reports


@CompressionTB.test()
@cocotb.parametrize(pauses=list(PAUSES))
async def every_verdict(tb, pauses):
    """All hand-written cases back to back; each gets the verdict that was written down for it."""
    receive_only = {Verdict.RESTORED, Verdict.NO_SHIM, Verdict.BAD_SHIM, Verdict.MALFORMED}
    assert verdicts(await tb.run(replay(transmit_sequences), pauses)) == set(Verdict) - receive_only


@CompressionTB.test()
@cocotb.parametrize(pauses=["none", "both"])
async def cut_anywhere(tb, pauses):
    """Check a tagged frame that ends after any of its first 130 bytes, with good frames in between."""
    data = payload("gradients", 40)
    await tb.run(with_good_between(cut_frames(data), 9, lambda: udp(data)), pauses)


@CompressionTB.test()
@cocotb.parametrize(pauses=["none", "both"])
async def every_shape_of_headers(tb, pauses):
    """Block after every place that a shim can have, straddling beats, with padding after the packet."""

    def data() -> bytes:
        return payload(random.choice(list(KINDS)), random.randint(16, 80), random.getrandbits(20))

    await tb.run([Stimulus(frame) for frame in shapes(data, (0, 1, 45))], pauses)


@CompressionTB.test()
async def every_length(tb):
    """1 to 50 lanes, and those around 2304, at four places of the payload; also lengths off the grid."""
    stimuli = []
    for lanes in [*range(51), 362, 365, *range(2299, 2306)]:
        kind = random.choice(["gradients", "zeros", "fractions"])
        data = payload(kind, lanes)
        frames = [tcp(data), tcp(data, tcp_options=bytes(12)), udp(data), tcp(data + bytes(lanes % 4))]
        for frame in frames if lanes < 51 else frames[:1]:
            stimuli.append(Stimulus(frame, config=ANY_LENGTH, name=f"{lanes} lanes"))
    random.shuffle(stimuli)
    await tb.run(stimuli)


@CompressionTB.test()
async def every_setting_and_kind(tb):
    await tb.run(
        Stimulus(tcp(payload(kind, random.randint(16, 60))), config=EngineConfig(parameters=parameters))
        for parameters in PARAMETERS
        for kind in KINDS
    )


@CompressionTB.test()
async def checksums_next_to_zero(tb):
    """Checksums that become 0, 1 or 0xFFFE: 0 stays 0 but in UDP, where it would mean that there is none."""
    await tb.run(sent_checksum_edges())


@CompressionTB.test()
@cocotb.parametrize(pauses=["none", "stalls"])
async def longer_than_it_holds(tb, pauses):
    """Frames around 16384 bytes and multiples of it pass, whole; so do frames right after them."""
    most = MAX_TRANSMIT_FRAME
    sizes = [most - 1, most, most + 1, 2 * most, 2 * most + 33, 66_000]
    if pauses != "none":
        sizes = [most + 1, 2 * most + 1]
    stimuli = []
    for size in sizes:
        stimuli.append(long_frame(size, tagged=random.random() < 0.5, bad=random.random() < 0.3))
        stimuli += ones(3)
        stimuli.append(Stimulus(udp(payload("gradients", 64)), name="after a long one"))
    passages = await tb.run(stimuli, pauses)
    verdicts = [p.result.verdict for p in passages if len(p.stimulus.frame) > most]
    assert set(verdicts) <= {Verdict.LONG, Verdict.BAD}


@CompressionTB.test()
@cocotb.parametrize(pauses=["none", "idle", "both"])
async def short_behind_long(tb, pauses):
    """Check runs of one-beat frames directly after jumbo frames, compressed or not."""
    stimuli = []
    for kind in ("large", "gradients", "zeros"):
        stimuli += [Stimulus(udp(payload(kind, 2304)), name=f"9216 bytes, {kind}"), *ones(40)]
        stimuli += [Stimulus(udp(payload(kind, 64))), *ones(5), *minimum_frames(5, 0x28)]
    await tb.run(stimuli, pauses)


@CompressionTB.test()
async def partial_beats(tb):
    """Check that a beat before ``tlast`` that is not full makes its frame bad, and no other."""
    stimuli = []
    for size in (60, 100, 300):
        for frame in (udp(payload("gradients", size)), tcp(payload("gradients", size), tos=0)):
            stimuli += ragged(frame, {0, 1, 2, beats(len(frame)) - 2})
    passages = await tb.run(stimuli)
    assert sum(p.result.verdict is Verdict.COMPRESSED for p in passages) == 3 * 4


@CompressionTB.test()
@cocotb.parametrize(pauses=list(PAUSES))
async def mixed(tb, pauses):
    """Random traffic, good and spoilt, back to back, every frame with settings of its own."""
    assert len(verdicts(await tb.run(with_configs(host_frames(random, 200, long_share=0.02)), pauses))) > 8


@CompressionTB.test()
async def output_stalled_for_long(tb):
    """Every ring and queue fills up, ``tready`` falls, and nothing is lost."""
    frames = [udp(payload(random.choice(["zeros", "large", "gradients"]), 365)) for _ in range(30)]
    frames += [tcp(bytes(10), sequence=index) for index in range(60)]
    await run_stalled(tb, [Stimulus(frame) for frame in frames], 3500)
    # Blocks nearly as long as their data fill the store before the ring of unchanged frames.
    await run_stalled(tb, [Stimulus(udp(RATIOS["just above 1"](8960))) for _ in range(6)], 1500)
    # Many short ones, so that queues of frames fill before the rings.
    await run_stalled(tb, [*minimum_frames(150, 0x28), *ones(100)], 3500)


@CompressionTB.test()
async def reset_in_the_middle(tb):
    """Check that what is inside at reset never comes out, and that what follows is right.

    The flow table forgets.
    """
    await tb.run([Stimulus(tcp(payload("gradients", 64), sequence=3), name="teaches phase 3")])
    await tb.send(segments(lambda index: payload("gradients", 365), 1460, 6))
    for cycles in (20, 90):
        await ClockCycles(tb.dut.aclk, cycles)
        await tb.reset()
    await tb.run([Stimulus(tcp(payload("gradients", 64)), verdict=Verdict.COMPRESSED)])
    await tb.run(with_configs(host_frames(random, 20)))


@CompressionTB.test()
async def bypass_throughput(tb):
    await check_bypass(tb, 0x00)


@CompressionTB.test()
@cocotb.parametrize(ratio=list(RATIOS))
async def compression_throughput(tb, ratio):
    """One input beat per cycle, averaged over the frames, whatever the data."""
    verdict = Verdict.EXPANDED if ratio == "just below 1" else Verdict.COMPRESSED
    await check_throughput(tb, ratio, input_rate, verdict)


@CompressionTB.test()
async def idle_cycles_of_short_frames(tb):
    await check_idle_cycles(tb)
    for size in (20, 64, 96, 128, 160):
        cycles = max(PACE, beats(size))
        passages = await tb.run(repeat(Stimulus(random.randbytes(size)), 12))
        steps = {b.first_in - a.first_in for a, b in zip(passages, passages[1:], strict=False)}
        assert steps == {cycles}, f"frames of {size} bytes start every {steps} cycles"


@CompressionTB.test()
async def latency(tb):
    """Of an idle engine, for frames that pass, fall back, and are compressed."""
    worst = 0
    for lanes in (1, 16, 64, 365, 2240):
        for kind in ("gradients", "zeros", "large", "fractions"):
            for frame in (udp(payload(kind, lanes)), udp(payload(kind, lanes), tos=0)):
                (passage,) = await tb.run([Stimulus(frame)])
                extra = passage.latency - passage.stimulus.beats
                assert extra <= LATENCY, f"{lanes} lanes, {kind}: {extra} cycles beyond the frame's beats"
                worst = max(worst, extra)
    tb.log.info("at most %d cycles beyond the frame's beats", worst)
