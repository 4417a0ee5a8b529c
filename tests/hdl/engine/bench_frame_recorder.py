# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FrameRecorder: beats and headers in, one record per frame and piece in its cycle."""

import random
from collections import defaultdict
from collections.abc import Iterator

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
from inceptionn.wire import DEFAULT_TOS, MAX_TRANSMIT_FRAME

LATENCY = FrameRecorder.latency_of(WIDTH)
EARLY = 2
"""Cycles to a record of a frame that is cut through."""
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
        pulses = ("beats_valid", "headers_valid", "taken")
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
        }
        return record | ({"index": headers.flow.slot} if headers else {})

    async def run(self, stimuli: list[Stimulus], gap: float, held: int = 0) -> None:
        """Frames one after the other; ``gap`` is the probability of an idle cycle in front of a beat.

        The first frame's record waits to the end, so that no frame is cut through. With ``held`` each frame
        finds an idle engine, and each record is taken that many cycles after it has come.
        """
        plan: defaultdict[int, dict[str, int | dict[str, int]]] = defaultdict(dict)
        end, old = self.now, bool(held)
        for stimulus in stimuli:
            header = header_word(stimulus, transmit=True)
            objects = HEADER.from_bits(header).verdict != 0
            times = []
            for _ in range(stimulus.beats):
                while random.random() < gap:
                    end += 1
                times.append(end)
                end += 1
            parsed = times[min(WIDTH.parsed_beat, stimulus.beats - 1)] + PARSER_LATENCY
            plan[parsed] |= {"headers_valid": 1, "headers_payload": {"header": header, "clear": not objects}}
            last = stimulus.beats - 1
            passes = held and objects and times[last] >= parsed
            for index, now in enumerate(times):
                data = stimulus.frame[index * BEAT_BYTES : (index + 1) * BEAT_BYTES]
                place = {"first": index == 0, "second": index == 1, "last": index == last}
                beat = {"count": len(data), **place} | ({"bad": stimulus.bad} if index == last else {})
                plan[now] |= {
                    "beats_valid": 1,
                    "beats_payload": {name: int(bit) for name, bit in beat.items()},
                }
            for now, piece in self._pieces(times, parsed if passes else times[last] + 1, held):
                latency = EARLY if passes else LATENCY
                record = self._record(stimulus, header) if now == times[last] else {"partial": 1}
                self.due(now - self.now + latency, records_valid=1, records_payload=record | {"beats": piece})
                if old:
                    plan[now + latency + held] |= {"taken": 1}
                old = True
            if held:
                end = max(times[last] + LATENCY + held + 2, end)
        while plan or self.now < end:
            idle = {"beats_payload": {"first": 0, "second": 0}, "headers_payload": {"clear": 0}}
            await self.cycle(**idle | plan.pop(self.now, {}))
        await self.drain()

    @staticmethod
    def _pieces(times: list[int], passes: int, held: int) -> Iterator[tuple[int, int]]:
        """Yield when a frame is recorded, its beats being at these times, and the beats of each record.

        It is cut through from ``passes`` on.
        """
        records: list[int] = []
        beats = 0
        for now in times:
            beats += 1
            waiting = sum(then + 2 <= now < then + EARLY + held + 1 for then in records)
            rested = not records or now >= records[-1] + FrameRecorder.PACE
            due = now >= passes and rested and waiting < FrameRecorder.MOST_PIECES
            if now == times[-1] or beats == WHOLE or due:
                yield now, beats
                records.append(now)
                beats = 0


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


@TB.test()
@cocotb.parametrize((("gap", "held"), [(0.0, 14), (0.3, 14), (0.8, 14), (0.0, 60)]))
async def cut_through(tb, gap, held):
    """Frames that a header check fails leave in pieces; those that may be compressed do not."""
    stimuli = []
    for size in (
        60,
        *(BEAT_BYTES * n + d for n in (3, 4, 5, 6, 7, 8, 15, 40, 300) for d in (0, 1)),
        WHOLE * 40,
    ):
        for tos in (0, DEFAULT_TOS):
            payload = random.randbytes(max(0, size - 42) & ~3)
            stimuli.append(Stimulus(udp(payload, tos=tos), bad=random.random() < 0.3))
    random.shuffle(stimuli)
    await tb.run(stimuli, gap, held)
