# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of HeaderSum: frames with every kind of header, whole and cut, against sums of their bytes."""

import random
from collections import defaultdict

import cocotb
import numpy as np
from chosen_width import WIDTH
from engine_bench import BEAT_BYTES, LANES, Stimulus
from engine_traffic import cuts, shapes
from lockstep import Lockstep
from parsed_headers import header_word, objection

from inceptionn.hdl.frame.frame_input import frame_beat
from inceptionn.hdl.frame.header_parser import parsed_frame
from inceptionn.hdl.frame.header_sum import HeaderSum
from inceptionn.sim.golden.checksum import fold
from inceptionn.sim.golden.packets import tcp
from inceptionn.sim.golden.values import payload

FIRST = WIDTH.parsed_beat
"""A frame's header comes in the cycle before this beat, or before its only one."""
SPAN = {8: 4, 16: 2}[LANES]
"""Beats in which a header may lie."""
LATENCY = HeaderSum.latency_of(WIDTH)


def expected(stimulus: Stimulus) -> int | None:
    """Sum of the frame's TCP or UDP header, or None if it has none within its bytes."""
    _, headers = objection(stimulus, transmit=True)
    if headers is None or headers.payload > len(stimulus.frame):
        return None
    words = np.frombuffer(stimulus.frame[headers.l4 : headers.payload], "<u2")
    return fold(int(words.sum(dtype=np.int64)))


class TB(Lockstep):
    """Plans frames with their headers cycle by cycle; every sum is due in its cycle."""

    def __init__(self, dut):
        layouts = {"beats_payload": frame_beat(BEAT_BYTES), "headers_payload": parsed_frame(WIDTH)}
        pulses = ("beats_valid", "headers_valid")
        super().__init__(dut, pulses=pulses, quiet={"sums_valid": 0}, layouts=layouts)
        self.summed = 0

    async def run(self, stimuli: list[Stimulus], gap: float) -> None:
        """Frames one after the other; ``gap`` is the probability of an idle cycle in front of a beat."""
        plan: defaultdict[int, dict[str, int | dict[str, int]]] = defaultdict(dict)
        end = self.now + 1
        for stimulus in stimuli:
            data = stimulus.frame + random.randbytes(-len(stimulus.frame) % BEAT_BYTES)
            clear = False
            for index in range(stimulus.beats):
                while random.random() < gap:
                    end += 1
                if index == min(FIRST, stimulus.beats - 1):
                    header = header_word(stimulus, transmit=True)
                    clear = random.random() < 0.8
                    parsed = {"header": header, "clear": int(clear)}
                    plan[end - 1] |= {"headers_valid": 1, "headers_payload": parsed}
                beat = data[index * BEAT_BYTES : (index + 1) * BEAT_BYTES]
                fields_ = {"data": int.from_bytes(beat, "little"), "last": int(index == stimulus.beats - 1)}
                plan[end] |= {"beats_valid": 1, "beats_payload": fields_}
                if clear and index == min(SPAN, stimulus.beats) - 1:
                    total = expected(stimulus)
                    self.summed += total is not None
                    sums = {} if total is None else {"sums_payload": total}
                    self.due(end - self.now + LATENCY, sums_valid=1, **sums)
                end += 1
        while self.now < end:
            await self.cycle(**plan.pop(self.now, {"beats_payload": {}, "headers_payload": {}}))
        await self.drain()


@TB.test()
@cocotb.parametrize(gap=[0.0, 0.3])
async def every_header(tb, gap):
    """TCP with all its options and UDP, with and without VLAN tag, of many lengths."""
    frames = list(shapes(lambda: payload("gradients", random.randint(1, 40))))
    random.shuffle(frames)
    await tb.run([Stimulus(frame) for frame in frames], gap)
    assert len(frames) // 2 < tb.summed < len(frames)


@TB.test()
async def cut_anywhere(tb):
    """Check that a frame that ends before its payload gives a sum, too, and does not disturb the next one."""
    stimuli = cuts(tcp(payload("gradients", 40), vlan=1, tcp_options=bytes(range(40))), "cut")
    random.shuffle(stimuli)
    await tb.run(stimuli, 0.0)
    assert 0 < tb.summed < len(stimuli)
