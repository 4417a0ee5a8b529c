# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of ReceiveDecision against the golden model: one order per frame, each in its cycle.

Parameter ``lanes``.
"""

from __future__ import annotations

import random
from collections import defaultdict

import cocotb
from engine_bench import BEAT_BYTES, LANES, Stimulus, beats, bits
from engine_traffic import cuts, ones, replay, restored_checksum_edges, sent, shapes, with_configs
from lockstep import Lockstep
from parsed_headers import fields, objection

from inceptionn.hdl.engine.receive_decision import ReceiveDecision, ReceiveOrder, Shim
from inceptionn.hdl.frame.header_parser import ParsedHeader
from inceptionn.hdl.parts.beat import Beat
from inceptionn.sim.golden import receive
from inceptionn.sim.golden.cases import receive_sequences
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.parse import be16
from inceptionn.sim.golden.values import payload
from inceptionn.sim.traffic import wire_frames
from inceptionn.wire import PROTOCOL_TCP, SHIM_BYTES, Verdict, parameters

LATENCY = ReceiveDecision.LATENCY
PARSED = Beat(LANES).parsed_beat
TO_BURST = 3
"""Cycles from a beat to the realigner's ``out_before``."""
CONFIG_AT = ParsedHeader.as_shape()["config"].offset
MOST_BEATS = 6
"""Beats of a frame that are sent; no shim ends behind the fourth."""


class TB(Lockstep):
    """Sends beats, header words and the realigner's bursts as the engine does; else noise."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("valid",), quiet={"order_valid": 0})
        self._bursts: dict[int, int] = {}
        self._orders: defaultdict[int, list[Stimulus]] = defaultdict(list)
        self.verdicts: set[Verdict] = set()

    async def step(self, **inputs: int) -> None:
        for stimulus in self._orders.pop(self.now, []):
            self._check(stimulus)
        noise = {
            "header": random.getrandbits(ParsedHeader.as_shape().size),
            "last": random.getrandbits(1),
            "count": random.randint(1, BEAT_BYTES),
            "burst": self._bursts.pop(self.now, random.getrandbits(len(self.dut.burst))),
        }
        await self.cycle(**noise | inputs)

    def _check(self, stimulus: Stimulus) -> None:
        """The order of this cycle is the golden model's answer to the frame."""
        result = receive(stimulus.frame, stimulus.config)
        self.verdicts.add(result.verdict)
        order = ReceiveOrder.as_shape().from_bits(self.read("order"))
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
        assert (shim.b, shim.length) == (stimulus.frame[at + 3], be16(stimulus.frame, at + 4)), what

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
                inputs = {"valid": 1, "last": int(last)}
                if last:
                    inputs["count"] = len(data) if number == stimulus.beats else BEAT_BYTES
                if index >= PARSED or last:
                    inputs["header"] = header
                if index == shim_beat:
                    assert headers is not None
                    end = headers.payload + SHIM_BYTES
                    known = frame[end - SHIM_BYTES : end]
                    width = len(self.dut.burst) // 8
                    burst = random.randbytes(width - SHIM_BYTES) + known
                    burst += random.randbytes(width - len(burst))
                    self._bursts[self.now + TO_BURST] = int.from_bytes(burst, "little")
                if index == self._decision_beat(stimulus, shim_beat):
                    self.due(LATENCY, order_valid=1)
                    self._orders[self.now + LATENCY].append(stimulus)
                await self.step(**inputs)
        for _ in range(LATENCY + 10):
            await self.step()
        assert not self._orders


async def started(dut) -> TB:
    tb = TB(dut)
    await tb.reset()
    return tb


@cocotb.test()
@cocotb.parametrize(gap=[0.0, 0.3])
async def every_case(dut, gap):
    tb = await started(dut)
    await tb.run(replay(receive_sequences) + restored_checksum_edges(), gap)
    assert {Verdict.NO_SHIM, Verdict.BAD_SHIM, Verdict.RESTORED, Verdict.LENGTHS} <= tb.verdicts


@cocotb.test()
async def cut_anywhere(dut):
    """Ends in the shim, right behind it, and everywhere else."""
    tb = await started(dut)
    data = payload("gradients", 100)
    stimuli = []
    for frame in (tcp(data), udp(data), tcp(data, vlan=1), tcp(data, tcp_options=bytes(40))):
        stimuli += cuts(sent(frame), "cut")
    random.shuffle(stimuli)
    await tb.run(stimuli, 0.0)


@cocotb.test()
@cocotb.parametrize(gap=[0.0, 0.4])
async def random_frames(dut, gap):
    """Every shape of headers, good and spoilt shims, settings from frame to frame, runs of one beat."""
    tb = await started(dut)
    stimuli = with_configs(wire_frames(random, 600, parameters(10, "bounded"))) + ones(40)
    stimuli += [Stimulus(sent(frame)) for frame in shapes(lambda: payload("gradients", 30), (0, 9))]
    random.shuffle(stimuli)
    assert beats(len(max(stimuli, key=lambda stimulus: stimulus.beats).frame)) > MOST_BEATS
    await tb.run(stimuli, gap)
