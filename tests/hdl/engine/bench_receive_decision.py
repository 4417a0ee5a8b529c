# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ReceiveDecision against the golden model: one order per frame, each in its cycle.

Parameter ``lanes``.
"""

import random
from collections import defaultdict
from dataclasses import replace

import cocotb
from chosen_width import WIDTH
from engine_bench import ANY_LENGTH, BEAT_BYTES, Stimulus, beats, bits
from engine_traffic import (
    be16,
    cuts,
    ones,
    replay,
    restored_checksum_edges,
    sent,
    shapes,
    with_configs,
    with_field,
)
from lockstep import Lockstep
from parsed_headers import fields, objection

from inceptionn.hdl.engine.receive_decision import ReceiveDecision, ReceiveOrder, Shim
from inceptionn.hdl.frame.frame_input import frame_beat
from inceptionn.hdl.frame.header_judge import ParsedHeader
from inceptionn.sim.golden import receive
from inceptionn.sim.golden.cases import receive_sequences
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.values import payload
from inceptionn.sim.traffic import wire_frames
from inceptionn.wire import PROTOCOL_TCP, SHIM_BYTES, Verdict, parameters

LATENCY = ReceiveDecision.LATENCY
PARSED = WIDTH.parsed_beat
TO_FRONT = 3
"""Cycles from a beat to the realigner's ``front``."""
CONFIG_AT = ParsedHeader.as_shape()["config"].offset
MOST_BEATS = 6
"""Beats of a frame that are sent; no shim ends after the fourth."""


class TB(Lockstep):
    """Sends beats, header words and the realigner's ``front`` as the engine does; else noise."""

    def __init__(self, dut):
        layouts = {"beats_payload": frame_beat(BEAT_BYTES), "orders_payload": ReceiveOrder.as_shape()}
        super().__init__(dut, pulses=("beats_valid",), quiet={"orders_valid": 0}, layouts=layouts)
        self._fronts: dict[int, int] = {}
        self._orders: defaultdict[int, list[Stimulus]] = defaultdict(list)
        self.verdicts: set[Verdict] = set()

    async def step(self, **inputs: int) -> None:
        for stimulus in self._orders.pop(self.now, []):
            self._check(stimulus)
        noise = {
            "header": random.getrandbits(ParsedHeader.as_shape().size),
            "beats_payload": {},
            "front": self._fronts.pop(self.now, random.getrandbits(8 * SHIM_BYTES)),
        }
        await self.cycle(**noise | inputs)

    def _check(self, stimulus: Stimulus) -> None:
        """Check that the order of this cycle is the golden model's answer to the frame."""
        result = receive(stimulus.frame, stimulus.config)
        self.verdicts.add(result.verdict)
        order = self.fields("orders_payload")
        what = f"{stimulus.name}, {len(stimulus.frame)} bytes {stimulus.frame[:64].hex()}"
        restored = result.verdict in (Verdict.RESTORED, Verdict.MALFORMED)
        assert bool(order.restore) == restored, f"{what}: restore is {order.restore}, {result.verdict.name}"
        if not restored:
            assert order.verdict == result.verdict, f"{what}: {order.verdict}, not {result.verdict!r}"
            return
        _, headers = objection(stimulus, transmit=False)
        assert headers is not None
        at, l3 = headers.payload, headers.l3
        expected = {
            "vlan": int(l3 == 18),
            "tcp": int(headers.protocol == PROTOCOL_TCP),
            "payload_at": at,
            "total_length": be16(result.frame, l3 + 2),
            "ip_checksum": be16(result.frame, l3 + 10),
            "payload_length": len(result.frame) - at,
        }
        for name, value in expected.items():
            assert order[name] == value, f"{what}: {name} is {order[name]:#x}, not {value:#x}"
        shim = Shim.as_shape().from_bits(self.read("shim"))
        assert (shim.base, shim.length) == (stimulus.frame[at + 3], be16(stimulus.frame, at + 4)), what

    def _decision_beat(self, stimulus: Stimulus, shim_beat: int | None) -> int:
        """Index of the beat with which the frame is decided."""
        last = stimulus.beats - 1
        return min(last, PARSED if shim_beat is None else shim_beat)

    async def run(self, stimuli: list[Stimulus], gap: float) -> None:
        """``gap``: probability of an idle cycle in front of a beat."""
        for stimulus in stimuli:
            verdict, headers = objection(stimulus, transmit=False)
            word = {"verdict": int(verdict)}
            shim_beat = None
            if verdict == 0:
                assert headers is not None
                word |= {name: value for name, value in fields(headers, stimulus).items() if name != "config"}
                shim_beat = (headers.payload + SHIM_BYTES) // BEAT_BYTES
            base = ParsedHeader.as_shape().const(word).as_bits()
            settings = bits(stimulus.config) << CONFIG_AT
            header = base | settings
            frame = stimulus.frame
            number = min(stimulus.beats, MOST_BEATS)
            for index in range(number):
                while random.random() < gap:
                    await self.step(**{"header": header} if index > PARSED else {})
                last = index == number - 1
                data = frame[BEAT_BYTES * index : BEAT_BYTES * (index + 1)]
                beat = {"last": int(last)}
                if last:
                    beat["count"] = len(data) if number == stimulus.beats else BEAT_BYTES
                inputs = {"beats_valid": 1, "beats_payload": beat}
                if index >= PARSED or last:
                    inputs["header"] = header
                if index == shim_beat:
                    assert headers is not None
                    end = headers.payload + SHIM_BYTES
                    front = frame[end - SHIM_BYTES : end]
                    front += random.randbytes(SHIM_BYTES - len(front))
                    self._fronts[self.now + TO_FRONT] = int.from_bytes(front, "little")
                if index == self._decision_beat(stimulus, shim_beat):
                    self.due(LATENCY, orders_valid=1)
                    self._orders[self.now + LATENCY].append(stimulus)
                await self.step(**inputs)
        for _ in range(LATENCY + 10):
            await self.step()
        assert not self._orders


@TB.test()
@cocotb.parametrize(gap=[0.0, 0.3])
async def every_case(tb, gap):
    await tb.run(replay(receive_sequences) + restored_checksum_edges(), gap)
    assert {Verdict.NO_SHIM, Verdict.BAD_SHIM, Verdict.RESTORED, Verdict.LENGTHS} <= tb.verdicts


@TB.test()
async def cut_anywhere(tb):
    """Check frames that end in the shim, right after it, and everywhere else."""
    data = payload("gradients", 100)
    stimuli = []
    for frame in (tcp(data), udp(data), tcp(data, vlan=1), tcp(data, tcp_options=bytes(40))):
        stimuli += cuts(sent(frame), "cut")
    random.shuffle(stimuli)
    await tb.run(stimuli, 0.0)


@TB.test()
@cocotb.parametrize(gap=[0.0, 0.4])
async def random_frames(tb, gap):
    """Every shape of headers, good and spoilt shims, settings from frame to frame, runs of one beat."""
    stimuli = with_configs(wire_frames(random, 600, parameters(10, "bounded"))) + ones(40)
    stimuli += [Stimulus(sent(frame)) for frame in shapes(lambda: payload("gradients", 30), (0, 9))]
    random.shuffle(stimuli)
    assert beats(len(max(stimuli, key=lambda stimulus: stimulus.beats).frame)) > MOST_BEATS
    await tb.run(stimuli, gap)


@TB.test()
async def lengths(tb):
    """Limits of any one bit and 64, payloads of as many bytes and more; frames that outgrow their shim."""
    stimuli = []
    for bit in (2, 3, 4, 5, *range(7, 14)):
        limit = 64 + (1 << bit)
        config = replace(ANY_LENGTH, max_payload=limit)
        stimuli += [Stimulus(sent(tcp(bytes(size))), config=config) for size in (limit, limit + 4)]
    shim = sent(udp(bytes(400)))[42 : 42 + SHIM_BYTES]
    stimuli += [Stimulus(udp(shim + bytes(1 << bit))) for bit in range(6, 16)]
    for _ in range(100):
        length = 4 * random.randrange(16, 360)
        there = max(1, length + random.choice((1, -1)) * random.choice((0, 1, 4, 1 << random.randrange(11))))
        stimuli.append(Stimulus(udp(with_field(shim, 4, length) + bytes(there))))
    await tb.run(stimuli, 0.0)
    assert tb.verdicts == {Verdict.RESTORED, Verdict.MALFORMED, Verdict.BAD_SHIM}


@TB.test()
async def carries_of_the_ip_checksum(tb):
    """Checksums that sum up with the payload's length to 2^16, or a little less or more."""
    stimuli = []
    for _ in range(60):
        frame = sent(udp(payload("gradients", random.randint(17, 365))))
        for off in (-1, 0, 1):
            field = (0x10000 + off - (len(frame) - 42)) % 0x10000
            stimuli.append(Stimulus(with_field(frame, 24, field), name=f"checksum {field:#06x}"))
    await tb.run(stimuli, 0.0)
    assert tb.verdicts == {Verdict.RESTORED}
