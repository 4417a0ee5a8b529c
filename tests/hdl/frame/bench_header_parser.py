# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of HeaderParser against the golden parser; parameters ``transmit`` and ``lanes``."""

import random
from collections import deque
from dataclasses import replace
from itertools import chain

import cocotb
from chosen_beat import BEAT
from engine_bench import BEAT_BYTES, DEFAULT, Stimulus, beats, bits
from engine_traffic import cuts, ones, replay, shapes, with_configs, with_field
from lockstep import Lockstep
from parsed_headers import fields, objection

from inceptionn.hdl.frame.frame_input import frame_beat
from inceptionn.hdl.frame.header_parser import HeaderParser, parsed_frame
from inceptionn.sim.golden.cases import receive_sequences, transmit_sequences
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.values import payload
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.traffic import host_frames, noise, wire_frames
from inceptionn.wire import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_SERVICE_VLAN,
    ETHERTYPE_VLAN,
    LANE_BYTES,
    SHIM_BYTES,
    Verdict,
    parameters,
)

TRANSMIT = bench_parameters()["transmit"]
LATENCY = HeaderParser.latency_of(BEAT)
PARSED = BEAT.parsed_beat
MOST_BEATS = 4
"""Beats of a frame that are sent; the parser looks at two at most."""


class TB(Lockstep):
    """Sends frames beat by beat, noise in every cycle without one, and checks every header in its cycle."""

    def __init__(self, dut):
        layouts = {"beats_payload": frame_beat(BEAT_BYTES), "headers_payload": parsed_frame(BEAT)}
        super().__init__(dut, pulses=("beats_valid",), quiet={"headers_valid": 0}, layouts=layouts)
        self._answers: deque[Stimulus] = deque()
        self.verdicts: set[int] = set()

    async def step(self, **inputs: int) -> None:
        if self.read("headers_valid"):
            self._check(self._answers.popleft())
        idle = {
            "config": random.getrandbits(len(self.dut.config)),
            "beats_payload": {"first": 0, "second": 0},
        }
        await self.cycle(**idle | inputs)

    def _check(self, stimulus: Stimulus) -> None:
        found_frame = self.fields("headers_payload")
        word = found_frame.header
        verdict, headers = objection(stimulus, transmit=TRANSMIT)
        self.verdicts.add(int(verdict))
        what = f"{stimulus.name}, {len(stimulus.frame)} bytes {stimulus.frame[:64].hex()}"
        assert word.verdict == verdict, f"{what}: verdict {word.verdict}, not {verdict!r}"
        assert found_frame.clear == (verdict == 0), f"{what}: clear is {found_frame.clear}"
        for name, value in fields(headers, stimulus).items():
            found = word[name] if name != "config" else word.config.as_bits()
            assert found == value, f"{what}: {name} is {found:#x}, not {value:#x}"
        if verdict == 0 and headers:
            run = found_frame.run
            in_front = 0 if TRANSMIT else SHIM_BYTES
            at, length = headers.payload + in_front, max(1, headers.payload_bytes - in_front)
            assert (run.skip + PARSED, run.lane) == (at // BEAT_BYTES, at % BEAT_BYTES // LANE_BYTES), what
            assert (run.bursts, run.ending) == (-(-length // BEAT_BYTES), length % BEAT_BYTES), what

    async def run(self, stimuli: list[Stimulus], gap: float) -> None:
        """``gap``: probability of an idle cycle in front of a beat."""
        for stimulus in stimuli:
            number = min(stimulus.beats, MOST_BEATS)
            frame = stimulus.frame[: number * BEAT_BYTES]
            for index in range(number):
                while random.random() < gap:
                    await self.step()
                data = frame[index * BEAT_BYTES : (index + 1) * BEAT_BYTES]
                noisy = data + random.randbytes(BEAT_BYTES - len(data))
                beat = {
                    "first": int(index == 0),
                    "second": int(index == 1),
                    "last": int(index == number - 1),
                    "count": len(data),
                    "data": int.from_bytes(noisy, "little"),
                }
                inputs = {"beats_valid": 1, "beats_payload": beat}
                if index == 0:
                    inputs["config"] = bits(stimulus.config)
                if index == min(PARSED, beats(len(frame)) - 1):
                    self._answers.append(stimulus)
                    self.due(LATENCY, headers_valid=1)
                await self.step(**inputs)
        for _ in range(LATENCY + 10):
            await self.step()
        assert not self._answers


@TB.test()
@cocotb.parametrize(gap=[0.0, 0.3])
async def every_case(tb, gap):
    """All hand-written frames of both engines; between them they have every verdict of the headers."""
    await tb.run(replay(transmit_sequences) + replay(receive_sequences), gap)
    own = {Verdict.SHORT, Verdict.LONG, Verdict.ALIGNMENT} if TRANSMIT else {Verdict.NO_SHIM}
    common = set(range(Verdict.DISABLED, Verdict.NO_CHECKSUM + 1))
    assert tb.verdicts == {0} | common | own


@TB.test()
async def cut_anywhere(tb):
    data = payload("gradients", 40)
    shaped = (tcp(data), tcp(data, vlan=1, tcp_options=bytes(8)), udp(data), udp(data, vlan=1))
    stimuli = list(chain.from_iterable(cuts(frame, "cut") for frame in shaped))
    random.shuffle(stimuli)
    await tb.run(stimuli, 0.0)


@TB.test()
async def lengths_wrong_by_a_bit(tb):
    """IP's total length and UDP's length, each with any one of its bits inverted."""
    stimuli = []
    for vlan, moved in ((None, 0), (1, 4)):
        for frame, places in ((tcp(bytes(160), vlan=vlan), (16,)), (udp(bytes(160), vlan=vlan), (16, 38))):
            for at in (place + moved for place in places):
                right = int.from_bytes(frame[at : at + 2], "big")
                wrong = (with_field(frame, at, right ^ 1 << bit) for bit in range(16))
                stimuli += [Stimulus(frame), *(Stimulus(one, name=f"length at {at}") for one in wrong)]
    await tb.run(stimuli, 0.0)
    assert tb.verdicts >= {0, Verdict.LENGTHS}


@TB.test()
async def ethertypes_wrong_by_a_bit(tb):
    """Each EtherType that is told apart, with any one of its bits inverted, with and without a VLAN tag."""
    stimuli = []
    for vlan, at in ((None, 12), (1, 12), (1, 16)):
        frame = tcp(bytes(160), vlan=vlan)
        for right in (ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, ETHERTYPE_SERVICE_VLAN):
            values = [right, *(right ^ 1 << bit for bit in range(16))]
            stimuli += [Stimulus(with_field(frame, at, value), name=f"{value:04x}") for value in values]
    await tb.run(stimuli, 0.0)


@TB.test()
async def payloads_about_their_limits(tb):
    """Limits with any one bit set and any others; payloads of a lane less, as many, and a lane more."""
    stimuli = []
    for limit in (4 << bit for bit in range(12)):
        for config in (replace(DEFAULT, min_payload=limit), replace(DEFAULT, max_payload=limit)):
            stimuli += [Stimulus(udp(bytes(size)), config=config) for size in (limit - 4, limit, limit + 4)]
    for _ in range(100):
        size = 4 * random.randint(1, 2304)
        config = replace(
            DEFAULT, **{f"{random.choice(('min', 'max'))}_payload": size + random.randint(-4, 4)}
        )
        stimuli.append(Stimulus(udp(bytes(size)), config=config))
    await tb.run(stimuli, 0.0)
    assert tb.verdicts >= ({0, Verdict.SHORT, Verdict.LONG} if TRANSMIT else {0, Verdict.NO_SHIM})


@TB.test()
@cocotb.parametrize(gap=[0.0, 0.4])
async def random_frames(tb, gap):
    """Good and spoilt frames, runs of one beat, and bytes that look like headers, each with own settings."""
    frames = host_frames(random, 500) + wire_frames(random, 200, parameters(10, "bounded"))
    frames += [(noise(random), False) for _ in range(300)]
    random.shuffle(frames)
    stimuli = with_configs(frames) + ones(30)
    stimuli += [Stimulus(frame) for frame in shapes(lambda: payload("zeros", random.randint(1, 40)))]
    await tb.run(stimuli, gap)
