# SPDX-License-Identifier: BSD-2-Clause
"""Received frames for the benches of ReceiveAssembler and its two parts, with the expected results.

Headers, payloads and how a frame came are drawn independently, so these benches need no codec.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

from chosen_beat import BEAT

from inceptionn.hdl.engine.receive_decision import ReceiveOrder
from inceptionn.hdl.engine.receive_layout import frame_part, restored_burst, wire_beat
from inceptionn.wire import SHIM_BYTES, Verdict

LANES = BEAT.lanes
"""fp32 lanes of the component's beats."""
BEAT_BYTES = BEAT.bytes
FramePart = frame_part(BEAT)
RestoredBurst = restored_burst(BEAT)
WireBeat = wire_beat(BEAT)
OTHER_VERDICTS = [v for v in Verdict if v not in (Verdict.COMPRESSED, Verdict.RESTORED, Verdict.BAD)]


def beats(length: int) -> int:
    """Beats of ``length`` bytes."""
    return -(-length // BEAT_BYTES)


def cut(data: bytes) -> list[bytes]:
    """Return the bytes of each beat."""
    return [data[at : at + BEAT_BYTES] for at in range(0, len(data), BEAT_BYTES)]


def filled(data: bytes) -> int:
    """Return a beat's ``tdata``, with noise after ``data``."""
    return int.from_bytes(data + random.randbytes(BEAT_BYTES - len(data)), "little")


@dataclass(frozen=True)
class Frame:
    """A frame as it came from the wire, its order, and its decoded payload."""

    came: bytes
    bad: bool
    short: bool
    order: dict[str, int]
    payload: bytes = b""
    faulty: bool = False

    @classmethod
    def passing(cls, size: int) -> Frame:
        """``size``: bytes."""
        order = {"restore": 0, "verdict": random.choice(OTHER_VERDICTS)}
        for name in ("vlan", "tcp", "payload_at", "total_length", "ip_checksum", "payload_length"):
            order[name] = random.getrandbits(ReceiveOrder.as_shape()[name].width)
        return cls(random.randbytes(size), random.random() < 0.2, random.random() < 0.5, order)

    @classmethod
    def restored(cls, lanes: int, more: int, *, spoilt: float = 0.3) -> Frame:
        """``lanes``: fp32 values of the payload; ``more``: bytes that came after the shim."""
        tcp, vlan = random.getrandbits(1), random.getrandbits(1)
        begin = (34 + 4 * vlan) + (4 * random.randint(5, 15) if tcp else 8)
        order = {
            "restore": 1,
            "verdict": 0,
            "vlan": vlan,
            "tcp": tcp,
            "payload_at": begin,
            "total_length": random.getrandbits(16),
            "ip_checksum": random.getrandbits(16),
            "payload_length": 4 * lanes,
        }
        return cls(
            random.randbytes(begin + 8 + more),
            random.random() < spoilt,
            random.random() < spoilt,
            order,
            random.randbytes(4 * lanes),
            random.random() < spoilt,
        )

    @property
    def header(self) -> bytes:
        """The patched header of a restored frame."""
        head = bytearray(self.came[: self.order["payload_at"]])
        l3 = 14 + 4 * self.order["vlan"]
        fields = [(l3 + 2, self.order["total_length"]), (l3 + 10, self.order["ip_checksum"])]
        if not self.order["tcp"]:
            fields.append((l3 + 24, (self.order["total_length"] - 20) % (1 << 16)))
        for at, value in fields:
            head[at : at + 2] = value.to_bytes(2, "big")
        return bytes(head)

    @property
    def leaves(self) -> tuple[bytes, bool]:
        """What must come out, and whether it is marked bad."""
        if not self.order["restore"]:
            return self.came, self.bad
        return self.header + self.payload, self.bad or self.short or self.faulty

    @property
    def report(self) -> tuple[int, int, int]:
        """Verdict, bytes in, bytes out."""
        verdict = self.order["verdict"]
        if self.order["restore"]:
            verdict = Verdict.MALFORMED if self.short or self.faulty else Verdict.RESTORED
        if self.bad:
            verdict = Verdict.BAD
        return verdict, len(self.came), len(self.leaves[0])

    @cached_property
    def wire_beats(self) -> list[dict[str, int]]:
        """The frame's waiting beats, with noise where a field means nothing."""
        made = [
            {
                "tdata": filled(part),
                "last": 0,
                "bad": random.getrandbits(1),
                "short": random.getrandbits(1),
                "ending": random.randrange(BEAT_BYTES),
            }
            for part in cut(self.came)
        ]
        ending = len(self.came) % BEAT_BYTES
        made[-1] |= {"last": 1, "bad": int(self.bad), "short": int(self.short), "ending": ending}
        return made

    @property
    def parts(self) -> list[dict[str, int]]:
        """The frame laid out, from byte positions alone; without the fields that mean nothing."""
        restore = self.order["restore"]
        size = len(self.leaves[0])
        if restore:
            header = [int.from_bytes(part, "little") for part in cut(self.header)]
            header += [0] * (beats(size) - len(header))
        else:
            header = [beat["tdata"] for beat in self.wire_beats]
        made = [
            {"header": word, "payload": 0, "first": 0, "last": 0, "restored": restore, "awaits_tail": 0}
            for word in header
        ]
        begin, place = divmod(self.order["payload_at"], BEAT_BYTES)
        for part in made[begin : begin + beats(len(self.payload))] if restore else ():
            part |= {"payload": 1, "place": (place - 2) // 4}
        made[0]["first"] = 1
        made[-1] |= {"last": 1, "awaits_tail": restore, "ending": size % BEAT_BYTES}
        if not restore:
            made[-1]["bad"] = int(self.bad)
        return made

    @property
    def payload_bursts(self) -> list[dict[str, int]]:
        """The payload as the Decompressor sends it; only the last burst's ``malformed`` counts."""
        made = [{"data": filled(part), "malformed": random.getrandbits(1)} for part in cut(self.payload)]
        if made:
            made[-1]["malformed"] = int(self.faulty)
        return made


def mixture(number: int) -> list[Frame]:
    """Return passing and restored frames.

    Many are so small that the last output beat shares the header's beat.
    """
    frames = []
    for _ in range(number):
        if random.random() < 0.35:
            frames.append(Frame.passing(random.choice([1, 20, 32, 33, 60, 64, random.randint(1, 300)])))
        else:
            lanes = random.choice([3, 3, 4, 5, random.randint(3, 40), random.randint(3, 100)])
            frames.append(
                Frame.restored(lanes, random.choice([0, 1, 4, 40, 200, random.randint(0, 4 * lanes)]))
            )
    return frames


def long_mixture() -> list[Frame]:
    """Return frames of the longest blocks, and frames longer than any that may be restored."""
    frames = [Frame.restored(2304, 600), Frame.passing(9000), Frame.restored(3, 4000), Frame.passing(1)]
    # Numbers of lanes with any one bit set, and of beats about 512 and with bit 10 set.
    frames += [Frame.restored(lanes, 100) for lanes in (*(4 << bit for bit in range(10)), 1500, 2047)]
    frames += [Frame.passing(BEAT_BYTES * number + 1) for number in (510, 511, 512, 1563)]
    return frames + [Frame.restored(2304, 9200, spoilt=0), Frame.passing(70_000), Frame.passing(32)]


def streams_without_gap() -> list[list[Frame]]:
    """Frames that leave back to back, one output beat per cycle."""
    return [
        [Frame.passing(size) for size in [32] * 30 + [60] * 30 + [300] * 10],
        [Frame.restored(lanes, 4 * lanes // 3) for lanes in [365] * 8 + [100] * 10],
        # As many beats from the wire as restored.
        [Frame.restored(365, 1460 - SHIM_BYTES - saved) for saved in (4, 2, 1) * 6],
    ]
