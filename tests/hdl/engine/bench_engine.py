# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of both engines: frames of every kind against the golden model, and the pace.

Parameters ``part``, the name in the catalogue, ``lanes``, ``bf16`` and ``codec``. With bf16 lanes, frames of
both types of lanes come in turn.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import repeat

import cocotb
import numpy as np
from chosen_width import WIDTH
from cocotb.triggers import ClockCycles
from engine_bench import ANY_LENGTH, DEFAULT, PAUSES, CompressionTB, DecompressionTB, Passage, Stimulus, beats
from engine_traffic import (
    OPTION_SIZES,
    PARAMETERS,
    RATIOS,
    TOS,
    both_ways,
    cut_frames,
    ethertypes,
    long_frame,
    malformed_frames,
    minimum_frames,
    ones,
    ragged,
    replay,
    restored_checksum_edges,
    segments,
    sent,
    sent_checksum_edges,
    shapes,
    with_configs,
    with_good_between,
)

from inceptionn.hdl.engine.transmit_decision import TransmitDecision
from inceptionn.hdl.frame.flow_table import FLOW_SETS
from inceptionn.hdl.serial.frame_store import FrameStore
from inceptionn.sim.golden import EngineConfig, FlowTable, transmit
from inceptionn.sim.golden.cases import bf16, receive_sequences, transmit_sequences
from inceptionn.sim.golden.packets import MINIMUM_FRAME, SYN, ethernet, tcp, udp
from inceptionn.sim.golden.values import KINDS, bf16_payload, payload
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.traffic import host_frames, sharing_flows, wire_frames
from inceptionn.wire import (
    BURST_BYTES,
    DEFAULT_K,
    ETHERTYPE_IPV6,
    GROUP_LANES,
    MAX_TRANSMIT_FRAME,
    RAW_CODE,
    TAG_WORD_BYTES,
    Verdict,
    parameters,
)

TRANSMIT = not bench_parameters()["part"].endswith("decompression_engine")
BF16 = WIDTH.bf16
ENGINE = CompressionTB if TRANSMIT else DecompressionTB
PACE = TransmitDecision.pace_of(WIDTH)
COMPRESSED_LATENCY = 48 if WIDTH.lanes == 8 else 56
"""Most cycles from first beat to first beat of a frame in the transmit engine, beyond the frame's beats."""
BYPASS_LATENCY, RESTORED_LATENCY = 24, 56
"""The same in the receive engine: of a frame that passes; of a restored one, beyond the table's beats."""
SERIAL = WIDTH.lanes == 1
LINE_CLOCK = 0.008 * (75 if not BF16 else 92 if TRANSMIT else 72)
"""Cycles of a serial engine in the time of a byte at 1 Gbit/s."""
BETWEEN_FRAMES = 24
"""Bytes of a line beside a frame's: preamble, FCS and gap."""
SERIAL_LATENCY = 100 if TRANSMIT else 75
"""Most cycles of a frame alone in a serial engine: 17 for each 8 words, and these."""
BF16_RATE = 0.995
"""Fewest beats per cycle on the side of the payloads, with lanes of both types."""
RATE = 0.97
"""Fewest beats per cycle in steady state, of either engine."""
IDLE = 2
"""Most idle cycles of a 64-byte frame."""
SHRINKING = ("gradients", "zeros") if BF16 else ("gradients", "zeros", "fractions")
"""Kinds of values whose blocks are smaller than they are."""
ONE_SIDED = {
    "transmit": {
        *(Verdict.COMPRESSED, Verdict.SHORT, Verdict.LONG, Verdict.ALIGNMENT, Verdict.PHASE),
        *(Verdict.EXPANDED, Verdict.AMBIGUOUS, Verdict.UNKNOWN_FLOW),
    },
    "receive": {Verdict.RESTORED, Verdict.NO_SHIM, Verdict.BAD_SHIM, Verdict.MALFORMED},
}
"""Verdicts that one of the engines has alone."""


def bf16_pairs(kind: str, lanes: int) -> bytes:
    return bf16_payload(kind, 2 * lanes)


Maker = Callable[[str, int], bytes]
MAKERS: list[tuple[int, Maker]] = [(TOS, payload), *([(bf16.TOS, bf16_pairs)] if BF16 else [])]
"""ToS byte and payloads of each type of lanes."""


def arriving(frame: bytes, config: EngineConfig = DEFAULT) -> bytes:
    """``frame`` as it comes to this engine."""
    return frame if TRANSMIT else sent(frame, config)


def input_rate(passages: list[Passage], warm_up: int) -> float:
    """Input beats per cycle, first beat to first beat, from frame ``warm_up`` to the last one's start."""
    middle = passages[warm_up:-1]
    return sum(p.stimulus.beats for p in middle) / (passages[-1].first_in - middle[0].first_in)


def output_rate(passages: list[Passage], warm_up: int) -> float:
    """Return the rate of the output as `input_rate` does that of the input."""
    middle = passages[warm_up:-1]
    return sum(beats(len(p.result.frame)) for p in middle) / (passages[-1].first_out - middle[0].first_out)


async def check_bypass(tb, tos: int) -> None:
    """One beat per cycle in and out, for frames that pass."""
    for size, number in ((1460, 14), (8960, 11)):
        frames = segments(lambda _, size=size: random.randbytes(size), size, number, tos=tos)
        passages = await tb.run(frames)
        rates = input_rate(passages, 2), output_rate(passages, 2)
        tb.log.info("bypass, %d bytes, ToS %#04x: %.4f beats per cycle in, %.4f out", size, tos, *rates)
        assert min(rates) >= 0.999, f"{size} bytes: {rates} beats per cycle in and out"


async def check_idle_cycles(tb) -> None:
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
    tb, ratio: str, rate_of: Callable[[list[Passage], int], float], verdict: Verdict,
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


async def run_stalled(tb, stimuli: Iterable[Stimulus], cycles: int) -> None:
    """Send frames while the output stalls for ``cycles`` cycles; at their end ``tready`` must be low."""

    async def stall() -> None:
        tb.sink.pause = True
        await ClockCycles(tb.dut.aclk, max(cycles, SERIAL * (FrameStore.LONGEST // 4 + 500)))
        assert not tb.dut.s_axis_tready.value, "room without end"
        tb.sink.pause = False

    stalling = cocotb.start_soon(stall())
    await tb.run(stimuli, keep_paused=True)
    await stalling


@ENGINE.test()
async def nothing_comes_from_nothing(tb):
    """``tready`` is low out of reset until every set of a flow table is empty, and nothing comes out."""
    waited = 0
    while not tb.dut.s_axis_tready.value:
        await ClockCycles(tb.dut.aclk, 1)
        waited += 1
        assert waited < (FLOW_SETS + 20 if TRANSMIT else 8), "tready stays low"
    assert waited > FLOW_SETS - 20 or not TRANSMIT or SERIAL  # frames wait within
    await ClockCycles(tb.dut.aclk, 200)
    assert not tb.begun
    assert not tb.reports


@ENGINE.test()
@cocotb.parametrize(pauses=list(PAUSES))
async def every_verdict(tb, pauses):
    """All hand-written cases back to back; each gets the verdict that was written down for it."""
    if BF16:
        cases = bf16.transmitted if TRANSMIT else bf16.received
        assert len(verdicts(await tb.run(replay(cases), pauses))) >= 6
        return
    stimuli = [*replay(transmit_sequences if TRANSMIT else receive_sequences)]
    stimuli.append(Stimulus(ethernet(bytes(60), ETHERTYPE_IPV6, vlan=5)))
    other = ONE_SIDED["receive" if TRANSMIT else "transmit"]
    assert verdicts(await tb.run(stimuli, pauses)) == set(Verdict) - other


@ENGINE.test()
@cocotb.parametrize(pauses=["none", "both"])
async def cut_anywhere(tb, pauses):
    """Check a tagged frame that ends after any of its first 130 bytes, with good frames in between."""
    data = payload("gradients", 40 if TRANSMIT else 120)
    stimuli = cut_frames(data, arriving)[:: 3 if BF16 and pauses != "none" else 1]
    random.shuffle(stimuli)
    passages = await tb.run(with_good_between(stimuli, 9, lambda: arriving(udp(data))), pauses)
    malformed = sum(passage.result.verdict is Verdict.MALFORMED for passage in passages)
    assert TRANSMIT or malformed > len(stimuli) // 5


@ENGINE.test(skip=not SERIAL)
async def wrong_ethertypes(tb):
    """EtherTypes with a bit wrong: the parser of words has no other bench."""
    await tb.run(list(ethertypes(arriving)))


@ENGINE.test(skip=not BF16)
async def wrong_tos(tb):
    """Check several ToS bytes for bf16 lanes, and each with a bit wrong."""
    stimuli = []
    for tos in (bf16.TOS, 0x55, 0xAA, 0xD3):
        config = replace(DEFAULT, bf16_tos=tos, tos_mask=0xFF)
        frame = arriving(udp(bf16_payload("gradients", 128), tos=tos), config)
        for found in (tos, *(tos ^ 1 << bit for bit in range(8))):
            stimuli.append(Stimulus(frame[:15] + bytes([found]) + frame[16:], config=config))
    await tb.run(stimuli)


@ENGINE.test(skip=not TRANSMIT)
async def flows_in_both_ways(tb):
    """Every bit of a flow's key as it is stored, in both ways of the table."""
    found = verdicts(await tb.run(both_ways(12)))
    assert found >= {Verdict.COMPRESSED, Verdict.PHASE, Verdict.UNKNOWN_FLOW}


@ENGINE.test()
@cocotb.parametrize(pauses=["none", "both"])
async def every_shape_of_headers(tb, pauses):
    """Block after every place where headers can end, straddling beats, with padding after the packet."""
    stimuli = []
    for tos, make in MAKERS:
        for frame in shapes(
            lambda make=make: make(random.choice(SHRINKING), random.randint(16, 120)), tos=tos
        ):
            stimuli += [Stimulus(arriving(frame) + random.randbytes(padding)) for padding in (0, 1, 45)]
    random.shuffle(stimuli)
    await tb.run(stimuli, pauses)


@ENGINE.test(skip=TRANSMIT or BF16)
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


@ENGINE.test(skip=BF16)
async def every_length(tb):
    """Up to 50 lanes, and those around 2304, at several places of the payload; lengths off the grid."""
    stimuli = []
    for lanes in [*range(0 if TRANSMIT else 3, 51), 362, 365, *range(2299, 2306 if TRANSMIT else 2305)]:
        data = payload(random.choice(SHRINKING) if TRANSMIT or lanes > 15 else "zeros", lanes)
        frames = [tcp(data), tcp(data, tcp_options=bytes(12)), udp(data)]
        frames += [tcp(data + bytes(lanes % 4))] if TRANSMIT else []
        for frame in frames if lanes < 51 else frames[:1]:
            stimulus = Stimulus(arriving(frame, ANY_LENGTH), config=ANY_LENGTH, name=f"{lanes} lanes")
            stimuli.append(stimulus)
    random.shuffle(stimuli)
    await tb.run(stimuli)


@ENGINE.test(skip=BF16)
async def every_setting_and_kind(tb):
    """Every bound and mode; of a received frame, the shim tells the base, whatever the sender had."""
    stimuli = []
    for numbers in PARAMETERS:
        for kind in KINDS if TRANSMIT else SHRINKING:
            config = EngineConfig(parameters=numbers)
            frame = arriving(tcp(payload(kind, random.randint(16, 90))), config)
            stimuli.append(Stimulus(frame, config=config if TRANSMIT else DEFAULT))
    random.shuffle(stimuli)
    await tb.run(stimuli)


@ENGINE.test()
async def checksums_next_to_zero(tb):
    """Checksums that become 0, 1 or 0xFFFE: 0 stays 0 but in UDP, where it would mean that there is none."""
    edges = sent_checksum_edges if TRANSMIT else restored_checksum_edges
    stimuli = [stimulus for tos, make in MAKERS for stimulus in edges(DEFAULT, tos, make)]
    found = verdicts(await tb.run(stimuli))
    assert not TRANSMIT or Verdict.AMBIGUOUS in found


@ENGINE.test(skip=TRANSMIT or BF16)
@cocotb.parametrize(pauses=["none", "both"])
async def malformed_between_good(tb, pauses):
    """Every malformation; what is left over or missing does not reach the next frame."""
    stimuli = with_good_between(
        malformed_frames(70), 3, lambda: sent(udp(payload("gradients", random.randint(16, 200))))
    )
    passages = await tb.run([*stimuli, *ones(3)], pauses)
    assert sum(p.result.verdict is Verdict.MALFORMED for p in passages) > 15


@ENGINE.test(skip=BF16 and not TRANSMIT)
@cocotb.parametrize(pauses=["none"] if BF16 else ["none", "stalls"])
async def long_frames(tb, pauses):
    """Frames longer than the transmit engine holds pass, whole; so do frames right after them."""
    most = MAX_TRANSMIT_FRAME
    sizes = [most, most + 1] if BF16 else [most + 1, 2 * most + 1]
    if pauses == "none" and not BF16:
        sizes = [9300, most - 1, most, most + 1, 2 * most, 2 * most + 33, 66_000]
    stimuli = []
    for size in sizes:
        tagged = random.random() < 0.5 or BF16 or not TRANSMIT
        stimuli += [long_frame(size, tagged, bad=random.random() < 0.3), *ones(3)]
        stimuli += [Stimulus(arriving(udp(make("gradients", 64), tos=tos))) for tos, make in MAKERS]
    if TRANSMIT:
        stimuli += [replace(long_frame(most + 1, True), config=replace(DEFAULT, enable=False)), *ones(2)]
    if BF16:
        lanes = np.full(2240, 2.0**10, "<f4")
        lanes[:112] = 0  # the rest is raw: the packet that leaves has more than 8 KiB
        stimuli += [Stimulus(udp(lanes.tobytes()), verdict=Verdict.COMPRESSED), *ones(2)]
    if SERIAL:
        longest = FrameStore.LONGEST
        for size in (longest - 1, longest, longest + 1, longest + 4, 4 * longest):
            stimuli += [long_frame(size, TRANSMIT, bad=size % 3 == 0), *ones(2)]
    if not TRANSMIT:
        wire_form = sent(udp(payload("gradients", 64)))
        padding = 16_000 if SERIAL else 20_000
        stimuli += [Stimulus(wire_form + bytes(padding), name=f"padded with {padding} bytes"), *ones(2)]
        longest = sent(udp(RATIOS["just above 1"](8960)))  # a block of more than 8 KiB
        stimuli += [Stimulus(longest, verdict=Verdict.RESTORED), *ones(2)]
    passages = await tb.run(stimuli, pauses)
    long = verdicts(p for p in passages if len(p.stimulus.frame) > most)
    assert not TRANSMIT or long <= {Verdict.LONG, Verdict.BAD, Verdict.DISABLED}


@ENGINE.test(skip=BF16)
@cocotb.parametrize(pauses=["none", "idle", "both"])
async def short_behind_long(tb, pauses):
    """Check runs of one-beat frames directly after jumbo frames, changed or not, whole or cut."""
    stimuli = []
    for kind in SHRINKING:
        jumbo = arriving(udp(payload(kind, 2304)))
        stimuli += [Stimulus(jumbo, name=f"9216 bytes, {kind}"), *ones(40)]
        stimuli += [Stimulus(jumbo[:-40], name="cut short"), *ones(30)]
        stimuli += [Stimulus(arriving(udp(payload(kind, 64)))), *ones(5), *minimum_frames(5, 0x28)]
    stimuli += [Stimulus(udp(payload("large", 2304)), name="raw jumbo"), *ones(30)]
    await tb.run(stimuli, pauses)


@ENGINE.test(skip=TRANSMIT or BF16)
async def settings_between_frames(tb):
    """Switch, ToS, mask and longest payload change from frame to frame; the parameters do not matter."""
    stimuli = []
    for lanes in (16, 17, 63, 64, 65, 365):
        frame = sent(tcp(payload("gradients", lanes)))
        configs = [replace(DEFAULT, max_payload=4 * lanes + more) for more in (-1, 0, 4)]
        configs += [replace(DEFAULT, enable=False), replace(DEFAULT, tos=0x10)]
        configs += [
            replace(DEFAULT, tos=0x20, tos_mask=0x30),
            EngineConfig(parameters=parameters(1, "literal")),
        ]
        stimuli += [Stimulus(frame, config=config) for config in [DEFAULT, *configs]]
        stimuli.append(Stimulus(frame, True, config=replace(DEFAULT, enable=False)))
    random.shuffle(stimuli)
    met = verdicts(await tb.run(stimuli))
    assert met == {Verdict.RESTORED, Verdict.BAD_SHIM, Verdict.DISABLED, Verdict.BAD, Verdict.UNTAGGED}


@ENGINE.test(skip=BF16)
async def partial_beats(tb):
    """Check that a beat before ``tlast`` that is not full makes its frame bad, and no other."""
    stimuli = []
    for lanes in (60, 100, 365, 730):
        data = payload("gradients", lanes)
        frames = arriving(udp(data)), arriving(tcp(data, tcp_options=bytes(40))), tcp(data, tos=0)
        for frame in frames:
            last = beats(len(frame)) - 1
            places = {0, 1, 2, 7, last - 1}
            if not TRANSMIT and not SERIAL and frame is not frames[-1]:
                # A frame that lacks bytes of the beat with which its headers are known passes, as cut short.
                places = {0, 1, 2} - {WIDTH.parsed_beat}
            stimuli += ragged(frame, (place for place in places if place < last))
    found = [passage.result.verdict for passage in await tb.run(stimuli)]
    assert found.count(Verdict.COMPRESSED if TRANSMIT else Verdict.RESTORED) >= 10


def of_both_types() -> list[Stimulus]:
    """Frames of both types of lanes, of neither, and of other engines, in any order and of any length."""
    flows, stimuli = FlowTable(), []
    for number in range(150):
        size, kind = random.choice([64, 1448, random.randrange(64, 1448, 4)]), random.choice(list(KINDS))
        is_bf16, vlan, make = random.random() < 0.5, random.choice([None, 7]), random.choice([tcp, udp])
        data = bf16_payload(kind, size // 2) if is_bf16 else payload(kind, size // 4, number)
        if random.random() < 0.3:
            data = of_code(size, random.randrange(RAW_CODE + 1), is_bf16)
        frame = make(data, tos=random.choice([bf16.TOS if is_bf16 else TOS] * 4 + [0]), vlan=vlan)
        if not TRANSMIT and random.random() < 0.8:
            frame = transmit(frame, DEFAULT, flows).frame
            if random.random() < 0.2:  # a bit flipped on the way, in shim or block
                headers = (54 if make is tcp else 42) + (4 if vlan else 0)
                at = random.randrange(headers, len(frame))
                frame = frame[:at] + bytes([frame[at] ^ 1 << random.randrange(8)]) + frame[at + 1 :]
        config = random.choice([DEFAULT, DEFAULT, bf16.CONFIG, bf16.WITHOUT])
        stimuli.append(Stimulus(frame, random.random() < 0.05, config, f"{kind}, bf16 {is_bf16}"))
    return stimuli


def mixture(number: int) -> list[Stimulus]:
    """Random traffic, good and spoilt, every frame with settings of its own."""
    if BF16:
        return of_both_types()
    if TRANSMIT:
        return with_configs(host_frames(random, number, long_share=0.02))
    return with_configs(wire_frames(random, number, random.choice(PARAMETERS), long_share=0.02))


@ENGINE.test()
@cocotb.parametrize(pauses=["none", "both"] if BF16 else list(PAUSES))
async def mixed(tb, pauses):
    """Random traffic back to back."""
    assert len(verdicts(await tb.run(mixture(200), pauses))) > (3 if BF16 else 8 if TRANSMIT else 6)


def floods() -> list[tuple[list[Stimulus], int]]:
    """Stimuli that fill every ring and queue while the output stalls, and cycles of that stall."""
    kinds = ("zeros", "large", "gradients") if TRANSMIT else SHRINKING
    if BF16:
        data = [(tos, make(kind, 32)) for tos, make in MAKERS for kind in ("zeros", "gradients")]
        frames = [arriving(tcp(data[i % 4][1], tos=data[i % 4][0], sequence=i << 8)) for i in range(120)]
        flood = [([Stimulus(frame) for frame in frames], 3500)]
        # Short frames whose verdict depends on each bit of a sum that waits.
        edges = [one for one in sent_checksum_edges(DEFAULT, bf16.TOS, bf16_pairs) if len(one.frame) < 200]
        return flood + ([(3 * edges, 1500)] if TRANSMIT else [])
    frames = [Stimulus(arriving(udp(payload(kind, 365)))) for kind in kinds for _ in range(10)]
    random.shuffle(frames)
    if TRANSMIT:
        frames += [Stimulus(tcp(bytes(10), sequence=index)) for index in range(60)]
        # Blocks nearly as long as their data fill the store before the ring of unchanged frames.
        jumbos = [Stimulus(udp(RATIOS["just above 1"](8960))) for _ in range(6)]
        # Many short ones, so that queues of frames fill before the rings.
        return [(frames, 3500), (jumbos, 1500), ([*minimum_frames(150, 0x28), *ones(100)], 3500)]
    small = [Stimulus(sent(udp(bytes(12)), ANY_LENGTH)) for _ in range(150)]
    return [(frames, 600), (small, 600), ([*minimum_frames(80), *ones(150)], 600)]


@ENGINE.test()
async def output_stalled_for_long(tb):
    """Every ring and queue fills up, ``tready`` falls, and nothing is lost."""
    for stimuli, cycles in floods():
        await run_stalled(tb, stimuli, cycles)


@ENGINE.test()
async def reset_in_the_middle(tb):
    """Check that what is inside at reset never comes out, that flows are forgotten, and what follows."""
    flows = [flow._asdict() for _ in range(24) for flow in sharing_flows(random, 1)] if TRANSMIT else []
    if TRANSMIT:
        await tb.run([Stimulus(tcp(payload("gradients", 64), sequence=3), name="teaches phase 3")])
        await tb.run([Stimulus(tcp(b"", sequence=3, flags=SYN, **flow)) for flow in flows])
    for cycles in (20, 45, 90):
        while not tb.dut.s_axis_tready.value:
            await ClockCycles(tb.dut.aclk, 1)
        await tb.send(Stimulus(arriving(udp(payload("gradients", lanes)))) for lanes in (365, 1000, 2304))
        await ClockCycles(tb.dut.aclk, cycles)
        await tb.reset()
    config = replace(DEFAULT, learn_phases=False)
    unknown = [tcp(payload("gradients", 64), sequence=4, **flow) for flow in flows]
    await tb.run([Stimulus(frame, config=config, verdict=Verdict.UNKNOWN_FLOW) for frame in unknown])
    verdict = Verdict.COMPRESSED if TRANSMIT else Verdict.RESTORED
    await tb.run([Stimulus(arriving(tcp(payload("gradients", 64))), verdict=verdict)])
    await tb.run(mixture(30))


@ENGINE.test(skip=BF16 or SERIAL)
async def bypass_throughput(tb):
    """One beat per cycle in and out; on receive, tagged or not."""
    for tos in (0x00,) if TRANSMIT else (0x00, 0x28):
        await check_bypass(tb, tos)


@ENGINE.test(skip=BF16 or SERIAL)
@cocotb.parametrize(ratio=list(RATIOS)[0 if TRANSMIT else 1 :])
async def throughput(tb, ratio):
    """One beat per cycle on the side of the payloads, averaged over the frames, at every ratio."""
    if TRANSMIT:
        verdict = Verdict.EXPANDED if ratio == "just below 1" else Verdict.COMPRESSED
        await check_throughput(tb, ratio, input_rate, verdict)
    else:
        await check_throughput(tb, ratio, output_rate, Verdict.RESTORED, sent)


def of_code(size: int, code: int, is_bf16: bool) -> bytes:
    """Return a payload of groups of one code; raw groups alternate with groups of zeros."""
    steps = {0: 0.0, 1: -1.0, RAW_CODE: 2.0**13}.get(code, 2.0 ** (code - 2))
    lanes = np.full(size // 4, steps * 2.0 ** (1 - DEFAULT_K), "<f4")
    if code == RAW_CODE:
        lanes[np.arange(len(lanes)) % 16 < 8] = 0
    words = lanes.view("<u4")
    return words.tobytes() if not is_bf16 else np.repeat(words >> 16, 2).astype("<u2").tobytes()


@ENGINE.test(skip=not BF16 or SERIAL)
@cocotb.parametrize(size=[1448, 8960])
async def throughput_of_codes(tb, size):
    """One beat per cycle at every code (some for long frames), the two types of lanes in turn."""
    for code in range(RAW_CODE + 1) if size < 2000 else (0, 1, RAW_CODE // 2, RAW_CODE):
        frames = [
            tcp(of_code(size, code, bool(i % 2)), tos=MAKERS[i % 2][0], sequence=size * i)
            for i in range(30 if size < BURST_BYTES**2 * 2 else 11)
        ]
        passages = await tb.run([Stimulus(arriving(frame)) for frame in frames])
        assert verdicts(passages) == {Verdict.COMPRESSED if TRANSMIT else Verdict.RESTORED}
        rate = (input_rate if TRANSMIT else output_rate)(passages, 3)
        assert rate >= BF16_RATE, f"code {code}, {size} bytes: {rate:.4f} beats per cycle"


@ENGINE.test(skip=BF16 or SERIAL)
async def idle_cycles_of_short_frames(tb):
    await check_idle_cycles(tb)
    for size in (20, 64, 96, 128, 160) if TRANSMIT else ():
        cycles = max(PACE, beats(size))
        passages = await tb.run(repeat(Stimulus(random.randbytes(size)), 12))
        steps = {b.first_in - a.first_in for a, b in zip(passages, passages[1:], strict=False)}
        assert steps == {cycles}, f"frames of {size} bytes start every {steps} cycles"


@ENGINE.test(skip=BF16 or SERIAL)
async def latency(tb):
    """Of an idle engine, for frames that pass, fall back, and are changed."""
    for lanes in (1, 16, 64, 365, 2240):
        table = beats(TAG_WORD_BYTES * -(-lanes // GROUP_LANES))
        for kind in KINDS:
            data = payload(kind, lanes)
            for frame in (udp(data), udp(data, tos=0), tcp(data, tcp_options=bytes(40))):
                restores = not TRANSMIT and kind in SHRINKING and lanes > 15 and frame[15] != 0
                (passage,) = await tb.run([Stimulus(sent(frame) if restores else frame)])
                limit = RESTORED_LATENCY + table if restores else BYPASS_LATENCY
                if TRANSMIT:
                    limit = COMPRESSED_LATENCY + passage.stimulus.beats
                assert passage.latency <= limit, f"{lanes} lanes, {kind}: {passage.latency} cycles"


def serial_loads() -> Iterator[tuple[str, list[Stimulus]]]:
    """Name and frames of each load of a serial engine: every length and verdict, ratio and type of lanes."""
    for size in (60, 128, 576, 1514, 9014):
        yield f"{size} bytes, untagged", [Stimulus(udp(bytes(size - 42), tos=0))] * 12
    for size in (64, 512, 1448, 8960):
        for tos, make in MAKERS:
            for kind in (*SHRINKING, *(("large",) if TRANSMIT else ())):
                frames = [tcp(make(kind, size // 4), tos=tos, sequence=size * i) for i in range(12)]
                yield f"{size} bytes of {kind}, ToS {tos:#04x}", [Stimulus(arriving(f)) for f in frames]
        yield f"{size} bytes of random numbers", [Stimulus(udp(random.randbytes(size)))] * 12


@ENGINE.test(skip=not SERIAL)
async def line_rate_of_a_gigabit(tb):
    """Frames of 1 Gbit/s on the busier side keep their pace, and one alone leaves in time."""
    for name, stimuli in serial_loads():
        passages = await tb.run(stimuli)
        (alone,) = await tb.run(stimuli[:1])
        waits = alone.latency - alone.stimulus.beats * 17 // 8
        steps = passages[-1].last_out - passages[2].last_out
        longest = max(60, len(alone.stimulus.frame), len(alone.result.frame))
        cycles, limit = steps / (len(passages) - 3), LINE_CLOCK * (longest + BETWEEN_FRAMES)
        tb.log.info("%s: %.1f of %.1f cycles, latency %d", name, cycles, limit, alone.latency)
        assert cycles <= limit, f"{name}: {cycles:.1f} cycles a frame, not {limit:.1f}"
        assert waits <= SERIAL_LATENCY, f"{name}: {alone.latency} cycles"
