# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of DecompressionEngine: frames of every kind against the golden model, and its pace."""

import random
from dataclasses import replace
from itertools import repeat

import cocotb
import engine_bench
from cocotb.triggers import ClockCycles
from engine_bench import ANY_LENGTH, DEFAULT, PAUSES, DecompressionTB, Stimulus, beats
from engine_pace import (
    check_bypass,
    check_idle_cycles,
    check_throughput,
    input_rate,
    output_rate,
    run_stalled,
    verdicts,
)
from engine_traffic import (
    OPTION_SIZES,
    PARAMETERS,
    RATIOS,
    cut_frames,
    long_frame,
    malformed_frames,
    minimum_frames,
    ones,
    ragged,
    replay,
    restored_checksum_edges,
    sent,
    shapes,
    with_configs,
    with_good_between,
)

from inceptionn.hdl.parts.beat import Beat
from inceptionn.sim.golden import EngineConfig
from inceptionn.sim.golden.cases import receive_sequences
from inceptionn.sim.golden.packets import MINIMUM_FRAME, ethernet, tcp, udp
from inceptionn.sim.golden.values import KINDS, payload
from inceptionn.sim.traffic import wire_frames
from inceptionn.wire import ETHERTYPE_IPV6, GROUP_LANES, TAG_WORD_BYTES, Verdict, parameters

BYPASS_LATENCY = 24
"""Most cycles from first beat to first beat of a frame that passes."""
RESTORED_LATENCY = 56
"""The same of one that is restored, beyond the tag table's beats."""


@DecompressionTB.test()
async def nothing_comes_from_nothing(tb):
    await ClockCycles(tb.dut.aclk, 4)
    assert tb.dut.s_axis_tready.value == 1
    await ClockCycles(tb.dut.aclk, 200)
    assert not tb.begun
    assert not tb.reports


@DecompressionTB.test()
@cocotb.parametrize(pauses=list(PAUSES))
async def every_verdict(tb, pauses):
    """All hand-written cases back to back; each gets the verdict that was written down for it."""
    transmit_only = {
        Verdict.COMPRESSED, Verdict.SHORT, Verdict.LONG, Verdict.ALIGNMENT, Verdict.PHASE, Verdict.EXPANDED,
        Verdict.AMBIGUOUS, Verdict.UNKNOWN_FLOW,
    }  # fmt: skip
    stimuli = [*replay(receive_sequences), Stimulus(ethernet(bytes(60), ETHERTYPE_IPV6, vlan=5))]
    assert verdicts(await tb.run(stimuli, pauses)) == set(Verdict) - transmit_only


@DecompressionTB.test()
@cocotb.parametrize(pauses=["none", "both"])
async def cut_anywhere(tb, pauses):
    """Check a frame with a shim that ends after any of its first 130 bytes, with good frames in between."""
    data = payload("gradients", 120)
    stimuli = cut_frames(data, sent)
    random.shuffle(stimuli)
    passages = await tb.run(with_good_between(stimuli, 9, lambda: sent(udp(data))), pauses)
    assert sum(p.result.verdict is Verdict.MALFORMED for p in passages) > 100


@DecompressionTB.test()
@cocotb.parametrize(pauses=["none", "both"])
async def every_shape_of_headers(tb, pauses):
    """Shim and block at every place that they can have, with padding after the packet."""

    def data() -> bytes:
        return payload(random.choice(["gradients", "zeros", "fractions"]), random.randint(16, 120))

    stimuli = []
    for frame in shapes(data):
        wire_form = sent(frame)
        stimuli += [Stimulus(wire_form + random.randbytes(padding)) for padding in (0, 1, 45)]
    await tb.run(stimuli, pauses)


@DecompressionTB.test()
@cocotb.parametrize(pauses=["none", "idle", "both"])
async def small_with_padding_behind(tb, pauses):
    """Few lanes: the last output beat holds the header's end, too, and more input beats follow."""
    stimuli = []
    for vlan in (None, 3):
        for lanes in (3, 4, 5, 7, 8, 9, 15, 16):
            data = bytes(4 * lanes)
            frames = [udp(data, vlan=vlan)]
            frames += [tcp(data, vlan=vlan, tcp_options=bytes(size)) for size in OPTION_SIZES]
            for frame in frames:
                wire_form = sent(frame, ANY_LENGTH)
                padding = random.choice([max(0, MINIMUM_FRAME - len(wire_form)), 0, 1, 31, 32, 64, 200])
                bad = random.random() < 0.2
                stimuli.append(Stimulus(wire_form + bytes(padding), bad, name=f"{lanes} lanes, padded"))
    random.shuffle(stimuli)
    passages = await tb.run(stimuli, pauses)
    assert any(beats(len(p.result.frame)) < p.stimulus.beats for p in passages)


@DecompressionTB.test()
async def every_length(tb):
    """1 to 50 lanes, and those around 2304, at three places of the payload."""
    stimuli = []
    for lanes in [*range(3, 51), 362, 365, *range(2299, 2305)]:
        data = payload(random.choice(["gradients", "zeros"]) if lanes > 15 else "zeros", lanes)
        frames = [tcp(data), tcp(data, tcp_options=bytes(12)), udp(data)]
        for frame in frames if lanes < 51 else frames[:1]:
            stimuli.append(Stimulus(sent(frame, ANY_LENGTH), name=f"{lanes} lanes"))
    random.shuffle(stimuli)
    await tb.run(stimuli)


@DecompressionTB.test()
async def every_sender(tb):
    """Whatever bound, mode and kind of values the sender had: the shim tells the base."""
    stimuli = []
    for numbers in PARAMETERS:
        for kind in ("gradients", "fractions", "zeros"):
            config = EngineConfig(parameters=numbers)
            stimuli.append(Stimulus(sent(tcp(payload(kind, random.randint(16, 90))), config)))
    random.shuffle(stimuli)
    await tb.run(stimuli)


@DecompressionTB.test()
async def checksums_next_to_zero(tb):
    """IP header checksums that become 0, 1 or 0xFFFE."""
    await tb.run(restored_checksum_edges())


@DecompressionTB.test()
@cocotb.parametrize(pauses=["none", "both"])
async def malformed_between_good(tb, pauses):
    """Every malformation; what is left over or missing does not reach the next frame."""
    stimuli = with_good_between(
        malformed_frames(70), 3, lambda: sent(udp(payload("gradients", random.randint(16, 200))))
    )
    passages = await tb.run([*stimuli, *ones(3)], pauses)
    assert sum(p.result.verdict is Verdict.MALFORMED for p in passages) > 15


@DecompressionTB.test()
@cocotb.parametrize(pauses=["none", "stalls"])
async def long_frames_pass(tb, pauses):
    """Nothing is too long to pass, and no longer frame can have a shim that counts."""
    stimuli = []
    for size in (9300, 16_385, 66_000) if pauses == "none" else (16_385,):
        stimuli += [long_frame(size, tagged=True, bad=random.random() < 0.5), *ones(3)]
    wire_form = sent(udp(payload("gradients", 64)))
    stimuli += [Stimulus(wire_form + bytes(20_000), name="padded with 20000 bytes"), *ones(2)]
    await tb.run(stimuli, pauses)


@DecompressionTB.test()
@cocotb.parametrize(pauses=["none", "idle", "both"])
async def short_behind_long(tb, pauses):
    """Check runs of one-beat frames directly after jumbo frames, restored or not."""
    stimuli = []
    for kind in ("gradients", "zeros", "fractions"):
        jumbo = sent(udp(payload(kind, 2304)))
        stimuli += [Stimulus(jumbo, name=f"9216 bytes, {kind}"), *ones(40)]
        stimuli += [Stimulus(jumbo[:-40], name="cut short"), *ones(30), *minimum_frames(5, 0x28)]
    stimuli += [Stimulus(udp(payload("large", 2304)), name="raw jumbo"), *ones(30)]
    await tb.run(stimuli, pauses)


@DecompressionTB.test()
async def settings_between_frames(tb):
    """Switch, ToS, mask and longest payload change from frame to frame; the parameters do not matter."""
    stimuli = []
    for lanes in (16, 17, 63, 64, 65, 365):
        frame = sent(tcp(payload("gradients", lanes)))
        for most in (4 * lanes - 1, 4 * lanes, 4 * lanes + 4, 9216):
            stimuli.append(Stimulus(frame, config=replace(DEFAULT, max_payload=most)))
        stimuli.append(Stimulus(frame, config=replace(DEFAULT, enable=False)))
        stimuli.append(Stimulus(frame, True, config=replace(DEFAULT, enable=False)))
        stimuli.append(Stimulus(frame, config=replace(DEFAULT, tos=0x10)))
        stimuli.append(Stimulus(frame, config=replace(DEFAULT, tos=0x20, tos_mask=0x30)))
        stimuli.append(Stimulus(frame, config=EngineConfig(parameters=parameters(1, "literal"))))
    random.shuffle(stimuli)
    met = {passage.result.verdict for passage in await tb.run(stimuli)}
    assert met == {Verdict.RESTORED, Verdict.BAD_SHIM, Verdict.DISABLED, Verdict.BAD, Verdict.UNTAGGED}


@DecompressionTB.test()
async def partial_beats(tb):
    """Check that a beat before ``tlast`` that is not full makes its frame bad, and no other."""
    stimuli = []
    for lanes in (100, 365):
        data = payload("gradients", lanes)
        for frame, places in (
            # A frame that lacks bytes of the beat with which its headers are known passes, as cut short.
            (sent(udp(data)), {0, 1, 2} - {Beat(engine_bench.LANES).parsed_beat}),
            (sent(tcp(data, tcp_options=bytes(40))), {0, 1, 2} - {Beat(engine_bench.LANES).parsed_beat}),
            (tcp(data, tos=0), {0, 1, 2, 7}),
        ):
            stimuli += ragged(frame, (place for place in places if place < beats(len(frame)) - 1))
    await tb.run(stimuli)


@DecompressionTB.test()
@cocotb.parametrize(pauses=list(PAUSES))
async def mixed(tb, pauses):
    """Random traffic, good and spoilt, back to back, every frame with settings of its own."""
    frames = wire_frames(random, 200, random.choice(PARAMETERS), long_share=0.02)
    assert len(verdicts(await tb.run(with_configs(frames), pauses))) > 6


@DecompressionTB.test()
async def output_stalled_for_long(tb):
    """Every queue fills up, ``tready`` falls, and nothing is lost."""
    restored = [
        sent(udp(payload(kind, 365))) for kind in ("zeros", "gradients", "fractions") for _ in range(8)
    ]
    random.shuffle(restored)
    runs = (
        [Stimulus(frame) for frame in restored],
        [Stimulus(sent(udp(bytes(12)), ANY_LENGTH)) for _ in range(150)],
        [*minimum_frames(80), *ones(150)],
    )
    for stimuli in runs:
        await run_stalled(tb, stimuli, 600)


@DecompressionTB.test()
async def reset_in_the_middle(tb):
    """Check that what is inside at reset never comes out, and that what follows is right."""
    for cycles in (20, 45, 90):
        await tb.send(Stimulus(sent(udp(payload("gradients", lanes)))) for lanes in (365, 1000, 2304))
        await ClockCycles(tb.dut.aclk, cycles)
        await tb.reset()
    await tb.run(with_configs(wire_frames(random, 30, parameters(10, "bounded"))))


@DecompressionTB.test()
async def bypass_throughput(tb):
    """One beat per cycle in and out, tagged or not."""
    for tos in (0x00, 0x28):
        await check_bypass(tb, tos)


@DecompressionTB.test()
@cocotb.parametrize(ratio=list(RATIOS)[1:])
async def restoring_throughput(tb, ratio):
    """One output beat per cycle, averaged over the frames, at every ratio."""
    await check_throughput(tb, ratio, output_rate, Verdict.RESTORED, sent)


@DecompressionTB.test()
async def idle_cycles_of_short_frames(tb):
    await check_idle_cycles(tb)
    for size in (20, 64, 96):
        passages = await tb.run(repeat(Stimulus(random.randbytes(size)), 40))
        tb.log.info("%d bytes: %.3f beats per cycle", size, input_rate(passages, 10))


@DecompressionTB.test()
async def latency(tb):
    """Of an idle engine, for frames that pass and frames that are restored."""
    for frame in (udp(payload("large", 365)), udp(bytes(64), tos=0), tcp(b""), tcp(bytes(9000)), b"\x01"):
        (passage,) = await tb.run([Stimulus(frame)])
        tb.log.info("bypass, %d bytes: %d cycles", len(frame), passage.latency)
        assert passage.latency <= BYPASS_LATENCY, f"{passage.latency} cycles to pass {len(frame)} bytes"
    worst = 0
    for lanes in (16, 64, 365, 2240, 2304):
        table = beats(TAG_WORD_BYTES * -(-lanes // GROUP_LANES))
        for kind in (kind for kind in KINDS if kind not in ("large", "edges")):
            for frame in (udp(payload(kind, lanes)), tcp(payload(kind, lanes), tcp_options=bytes(40))):
                (passage,) = await tb.run([Stimulus(sent(frame))])
                extra = passage.latency - table
                what = f"{extra} cycles beyond {table} beats of tags to restore {lanes} lanes of {kind}"
                assert extra <= RESTORED_LATENCY, what
                worst = max(worst, extra)
    tb.log.info("restored: at most %d cycles beyond the tag table's beats", worst)
