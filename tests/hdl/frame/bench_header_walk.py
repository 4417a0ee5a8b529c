# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of HeaderWalk: every header, beat by beat, against what the bytes say; parameter ``lanes``."""

import random

import cocotb
from chosen_beat import BEAT
from lockstep import Lockstep

from inceptionn.hdl.frame.header_walk import HeaderMarks

BEAT_BYTES = BEAT.bytes
WORDS = BEAT_BYTES // 2
CHECKSUM_BEAT = 50 // BEAT_BYTES
"""The beat of the TCP checksum, and of the UDP header's fields."""
OUTPUTS = ("in_header", "header_follows", "in_payload", "payload_follows", "keep", "marks")


def expected(header: dict[str, int], beat: int) -> dict[str, int]:
    """Return the outputs at ``beat`` of a frame, from byte positions alone."""
    end, patch, vlan, tcp = (header[name] for name in ("payload_at", "patch", "vlan", "tcp"))

    def holds_header(beat: int) -> bool:
        return not patch or end > BEAT_BYTES * beat

    def holds_payload(beat: int) -> bool:
        return bool(patch) and end < BEAT_BYTES * (beat + 1)

    keep = sum((not patch or BEAT_BYTES * beat + 2 * word < end) << word for word in range(WORDS))
    mark = patch << vlan
    marks = {
        "first": mark if beat == 0 else 0,
        "udp": mark if beat == CHECKSUM_BEAT and not tcp else 0,
        "tcp": mark if beat == CHECKSUM_BEAT and tcp else 0,
    }
    return {
        "in_header": int(holds_header(beat)),
        "header_follows": int(holds_header(beat + 1)),
        "in_payload": int(holds_payload(beat)),
        "payload_follows": int(holds_payload(beat + 1)),
        "keep": keep,
        "marks": HeaderMarks.as_shape().const(marks).as_bits(),
    }


class TB(Lockstep):
    """Loads headers and steps through their frames, with pauses in between."""

    def __init__(self, dut):
        super().__init__(dut, pulses=("load", "step"))

    async def walk(self, header: dict[str, int], beats: int, pause: float) -> None:
        """Begins a frame in this cycle, together with the last step of the one before."""
        await self.cycle(load=1, step=1, **header)
        noise = {name: random.getrandbits(len(getattr(self.dut, name))) for name in header}
        for beat in range(beats):
            while True:
                wanted = expected(header, beat)
                found = {name: self.read(name) for name in OUTPUTS}
                assert found == wanted, f"beat {beat} of {header}: {found}, not {wanted}"
                self.checked += 1
                if random.random() >= pause:
                    break
                await self.cycle(load=random.getrandbits(1), **noise)
            if beat < beats - 1:
                await self.cycle(step=1, **noise)


def headers() -> list[dict[str, int]]:
    """All places at which a payload can begin, of either protocol; and frames that pass."""
    made = []
    for vlan in range(2):
        for tcp, sizes in ((0, (8,)), (1, range(20, 64, 4))):
            made += [
                {"patch": 1, "vlan": vlan, "tcp": tcp, "payload_at": 34 + 4 * vlan + size} for size in sizes
            ]
    for _ in range(10):
        made.append({"patch": 0, "vlan": 0, "tcp": 1, "payload_at": random.getrandbits(7)})
    random.shuffle(made)
    return made


@TB.test()
@cocotb.parametrize(pause=[0.0, 0.5])
async def every_header(tb, pause):
    for beats in (1, 2, 4, 9):
        for header in headers():
            await tb.walk(header, beats, pause)
    assert tb.checked > 400
