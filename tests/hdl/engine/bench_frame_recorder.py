# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FrameRecorder: beats and headers in, one record per frame and piece in its cycle."""

import random
from collections import defaultdict

import cocotb
from chosen_width import WIDTH
from engine_bench import BEAT_BYTES, Stimulus, beats
from engine_traffic import replay
from lockstep import Lockstep
from parsed_headers import header_word, objection

from inceptionn.hdl.engine.frame_recorder import FrameRecord, FrameRecorder
from inceptionn.hdl.frame.flow_table import FlowKey
from inceptionn.hdl.frame.frame_input import frame_beat
from inceptionn.hdl.frame.header_judge import ParsedHeader
from inceptionn.hdl.frame.header_parser import HeaderParser, parsed_frame
from inceptionn.sim.golden.cases import transmit_sequences
from inceptionn.sim.golden.packets import udp
from inceptionn.wire import MAX_TRANSMIT_FRAME

LATENCY = FrameRecorder.latency_of(WIDTH)
PARSER_LATENCY = HeaderParser.latency_of(WIDTH)
WHOLE = MAX_TRANSMIT_FRAME // BEAT_BYTES
"""Beats of a piece."""
HEADER = ParsedHeader.as_shape()
RECORD = FrameRecord.as_shape()


class TB(Lockstep):
    """Plans frames cycle by cycle, with each header where the parser gives it."""

    def __init__(self, dut):
        layouts = {
            "beats_payload": frame_beat(BEAT_BYTES),
            "headers_payload": parsed_frame(WIDTH),
            "records_payload": RECORD,
        }
        pulses = ("beats_valid", "headers_valid")
        super().__init__(dut, pulses=pulses, quiet={"records_valid": 0}, layouts=layouts)

    def _record(self, stimulus: Stimulus, header: int) -> dict[str, int]:
        """Return a frame's record, given its header."""
        known = HEADER.from_bits(header)
        _, headers = objection(stimulus, transmit=True)
        size = len(stimulus.frame)
        names = ("verdict", "tcp", "vlan", "payload_at", "total_length", "payload_length", "phase")
        record = {name: known[name] for name in (*names, "ip_checksum", "checksum", "opens", "closes")}
        record |= {
            "partial": 0,
            "bad": int(stimulus.bad),
            "overlong": int(size > MAX_TRANSMIT_FRAME),
            "short": int(size < known.frame_length),
            "key": FlowKey.as_shape().const({name: known[name] for name, _ in FlowKey.as_shape()}).as_bits(),
            "base": known.config.b,
            "learns": known.config.learn_phases,
            "frame_bytes": size,
            "beats": (stimulus.beats - 1) % WHOLE + 1,
        }
        return record | ({"index": headers.flow.slot} if headers else {})

    async def run(self, stimuli: list[Stimulus], gap: float) -> None:
        """Frames one after the other; ``gap`` is the probability of an idle cycle in front of a beat."""
        plan: defaultdict[int, dict[str, int | dict[str, int]]] = defaultdict(dict)
        end = self.now
        for stimulus in stimuli:
            header = header_word(stimulus, transmit=True)
            for index in range(stimulus.beats):
                while random.random() < gap:
                    end += 1
                data = stimulus.frame[index * BEAT_BYTES : (index + 1) * BEAT_BYTES]
                last = index == stimulus.beats - 1
                beat = {"last": int(last), "count": len(data)} | ({"bad": int(stimulus.bad)} if last else {})
                plan[end] |= {"beats_valid": 1, "beats_payload": beat}
                if index == min(WIDTH.parsed_beat, stimulus.beats - 1):
                    plan[end + PARSER_LATENCY] |= {"headers_valid": 1, "headers_payload": {"header": header}}
                if last or index % WHOLE == WHOLE - 1:
                    record = self._record(stimulus, header) if last else {"partial": 1, "beats": WHOLE}
                    self.due(end - self.now + LATENCY, records_valid=1, records_payload=record)
                end += 1
        while plan or self.now < end:
            await self.cycle(**{"beats_payload": {}, "headers_payload": {}} | plan.pop(self.now, {}))
        await self.drain()


@TB.test()
@cocotb.parametrize(gap=[0.0, 0.3])
async def every_case(tb, gap):
    """All hand-written frames, settings changing from frame to frame."""
    await tb.run(replay(transmit_sequences), gap)
    assert tb.checked > 100


@TB.test()
async def pieces(tb):
    """Frames around one to five pieces; the next frame counts from 0 again."""
    stimuli = []
    for size in (WHOLE * BEAT_BYTES * n + d for n in (1, 2, 3, 5) for d in (-1, 0, 1, BEAT_BYTES)):
        frame = udp(bytes(64)) + random.randbytes(size)
        stimuli += [Stimulus(frame[:size], bad=random.random() < 0.5), Stimulus(udp(random.randbytes(80)))]
    assert {beats(len(stimulus.frame)) % WHOLE for stimulus in stimuli} >= {0, 1}
    await tb.run(stimuli, 0.0)
