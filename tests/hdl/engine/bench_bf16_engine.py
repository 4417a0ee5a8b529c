# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of both engines with bf16 lanes beside fp32: frames against the golden model; the pace."""

import random
from dataclasses import replace

import cocotb
import numpy as np
from engine_bench import PAUSES, CompressionTB, DecompressionTB, Stimulus
from engine_pace import input_rate, output_rate, run_stalled, verdicts
from engine_traffic import (
    TOS,
    cut_frames,
    long_frame,
    replay,
    restored_checksum_edges,
    sent,
    sent_checksum_edges,
    shapes,
)

from inceptionn.sim.golden import FlowTable, transmit
from inceptionn.sim.golden.cases import bf16
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.values import KINDS, bf16_payload, payload
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import BURST_BYTES, DEFAULT_K, MAX_TRANSMIT_FRAME, RAW_CODE, Verdict

TRANSMIT = bench_parameters()["transmit"]
ENGINE = CompressionTB if TRANSMIT else DecompressionTB
CONFIG = replace(bf16.CONFIG, learn_phases=True)
"""No flow needs a SYN before its data."""
CASES = bf16.transmitted if TRANSMIT else bf16.received
RATE = 0.995
"""Fewest beats per cycle on the side of the payloads."""


def of_code(size: int, code: int, is_bf16: bool) -> bytes:
    """Return a payload of groups of one code; raw groups alternate with groups of zeros."""
    steps = {0: 0.0, 1: -1.0, RAW_CODE: 2.0**13}.get(code, 2.0 ** (code - 2))
    lanes = np.full(size // 4, steps * 2.0 ** (1 - DEFAULT_K), "<f4")
    if code == RAW_CODE:
        lanes[np.arange(len(lanes)) % 16 < 8] = 0
    words = lanes.view("<u4")
    return words.tobytes() if not is_bf16 else np.repeat(words >> 16, 2).astype("<u2").tobytes()


def frame_of(data: bytes, is_bf16: bool, **fields: int) -> bytes:
    return tcp(data, tos=bf16.TOS if is_bf16 else TOS, **fields)


def arriving(frame: bytes) -> bytes:
    """``frame`` as it comes to this engine."""
    return frame if TRANSMIT else sent(frame, CONFIG)


@ENGINE.test()
@cocotb.parametrize(pauses=list(PAUSES))
async def every_case(tb, pauses):
    """All hand-written cases back to back; each gets the verdict that was written down for it."""
    assert len(verdicts(await tb.run(replay(CASES), pauses))) >= 6


@ENGINE.test()
@cocotb.parametrize(pauses=["none", "both"])
async def mixed_traffic(tb, pauses):
    """Frames of both types of lanes, of neither, and of other engines, in any order and of any length."""
    flows, stimuli = FlowTable(), []
    for number in range(150):
        size, kind = random.choice([64, 1448, random.randrange(64, 1448, 4)]), random.choice(list(KINDS))
        is_bf16 = random.random() < 0.5
        data = bf16_payload(kind, size // 2) if is_bf16 else payload(kind, size // 4, number)
        vlan = random.choice([None, 7])
        make = random.choice([tcp, udp])
        frame = make(data, tos=random.choice([bf16.TOS if is_bf16 else TOS] * 4 + [0]), vlan=vlan)
        if not TRANSMIT and random.random() < 0.8:
            frame = transmit(frame, CONFIG, flows).frame
            if random.random() < 0.2:  # a bit flipped on the way, in shim or block
                headers = (54 if make is tcp else 42) + (4 if vlan else 0)
                at = random.randrange(headers, len(frame))
                frame = frame[:at] + bytes([frame[at] ^ 1 << random.randrange(8)]) + frame[at + 1 :]
        config = random.choice([CONFIG, CONFIG, bf16.CONFIG, bf16.WITHOUT])
        stimuli.append(Stimulus(frame, random.random() < 0.05, config, f"{kind}, bf16 {is_bf16}"))
    await tb.run(stimuli, pauses)


@ENGINE.test()
@cocotb.parametrize(pauses=["none", "both"])
async def every_shape_of_headers(tb, pauses):
    """Lanes of both types behind every place where headers can end, with padding; cut frames between."""
    frames = [
        frame
        for tos, maker in ((TOS, payload), (bf16.TOS, bf16_payload))
        for frame in shapes(lambda maker=maker: maker("gradients", 2 * random.randint(16, 60)), (0, 45), tos)
    ]
    stimuli = [Stimulus(arriving(frame), config=CONFIG) for frame in frames]
    stimuli += [Stimulus(cut.frame, config=CONFIG) for cut in cut_frames(payload("zeros", 64), arriving)[::3]]
    random.shuffle(stimuli)
    await tb.run(stimuli, pauses)


@ENGINE.test()
async def checksums_next_to_zero(tb):
    edges = sent_checksum_edges if TRANSMIT else restored_checksum_edges
    narrow = edges(CONFIG, bf16.TOS, lambda kind, lanes: bf16_payload(kind, 2 * lanes))
    found = verdicts(await tb.run(edges(CONFIG) + narrow))
    assert not TRANSMIT or Verdict.AMBIGUOUS in found


@ENGINE.test(skip=not TRANSMIT)
async def longer_than_it_holds(tb):
    """Frames of 16384 bytes, the most that the engine holds, and of one more pass whole."""
    stimuli = []
    for size in (MAX_TRANSMIT_FRAME, MAX_TRANSMIT_FRAME + 1):
        stimuli += [long_frame(size, tagged=True), Stimulus(frame_of(bf16_payload("gradients", 64), True))]
    await tb.run([replace(stimulus, config=CONFIG) for stimulus in stimuli])


@ENGINE.test()
async def output_stalled_for_long(tb):
    """Rings and queues fill up, the input waits, and nothing is lost."""
    data = [
        make(kind, 64) for make in (payload, bf16_payload) for kind in ("zeros", "gradients")
    ]
    frames = [arriving(frame_of(data[i % 4], i % 4 > 1, sequence=i << 8)) for i in range(120)]
    await run_stalled(tb, [Stimulus(frame, config=CONFIG) for frame in frames], 3500)


@ENGINE.test(skip=not TRANSMIT)
async def checksums_wait(tb):
    """Short frames whose verdict depends on each bit of a sum that waits, behind a stalled output."""
    edges = sent_checksum_edges(CONFIG, bf16.TOS, lambda kind, lanes: bf16_payload(kind, 2 * lanes))
    short = [stimulus for stimulus in edges if len(stimulus.frame) < 200]
    await run_stalled(tb, 3 * short, 1500)


@ENGINE.test()
@cocotb.parametrize(size=[1448, 8960])
async def throughput(tb, size):
    """One beat per cycle at every code (some for long frames), the two types of lanes in turn."""
    for code in range(RAW_CODE + 1) if size < 2000 else (0, 1, RAW_CODE // 2, RAW_CODE):
        frames = [
            frame_of(of_code(size, code, bool(i % 2)), bool(i % 2), sequence=size * i)
            for i in range(30 if size < BURST_BYTES**2 * 2 else 11)
        ]
        stimuli = [Stimulus(arriving(frame), config=CONFIG) for frame in frames]
        passages = await tb.run(stimuli)
        assert verdicts(passages) == {Verdict.COMPRESSED if TRANSMIT else Verdict.RESTORED}
        rate = (input_rate if TRANSMIT else output_rate)(passages, 3)
        tb.log.info("code %d, %d bytes: %.4f beats per cycle", code, size, rate)
        assert rate >= RATE, f"code {code}, {size} bytes: {rate:.4f} beats per cycle"
