# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of TransmitDecision: records, sums and statistics in, the golden model's answers out.

Its parts TransmitJudging and TransmitResolving are checked here, too.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import cocotb
import numpy as np
from chosen_width import WIDTH
from cocotb.triggers import Timer
from engine_bench import BEAT_BYTES, DEFAULT, Stimulus, beats
from engine_traffic import be16, replay, sent_checksum_edges, with_configs, with_field
from flows import random_flow, segment, twins
from lockstep import Lockstep
from parsed_headers import fields, objection

from inceptionn.hdl.codec.paper.block_statistics import Statistics
from inceptionn.hdl.control.counters import frame_report
from inceptionn.hdl.engine.frame_recorder import FrameRecord
from inceptionn.hdl.engine.transmit_decision import TransmitDecision
from inceptionn.hdl.engine.transmit_resolving import frame_order
from inceptionn.hdl.frame.flow_table import FLOW_SETS, FlowKey
from inceptionn.sim.golden import EngineConfig, FlowTable, Result, codec, transmit
from inceptionn.sim.golden.cases import transmit_sequences
from inceptionn.sim.golden.packets import FIN, RST, SYN, tcp, udp
from inceptionn.sim.golden.parse import Headers
from inceptionn.sim.golden.values import payload
from inceptionn.sim.traffic import host_frames
from inceptionn.wire import MAX_TRANSMIT_FRAME, PROTOCOL_TCP, Verdict

RECORD = FrameRecord.as_shape()
ORDER = frame_order(WIDTH)
SLACK = 8
"""Records that may follow when ``room`` has fallen."""
JUDGING = 4
"""Cycles a frame, and fewer with 16 lanes if its headers object."""
QUEUE_LATENCY = 2


def little_endian_sum(data: bytes) -> int:
    """Sum of 16-bit words modulo 65535; zero in either of its two forms."""
    total = int(np.frombuffer(data + bytes(len(data) % 2), "<u2").sum(dtype=np.int64)) % 0xFFFF
    return total or random.choice([0, 0xFFFF])


def noise(shape) -> dict[str, int]:
    return {name: random.getrandbits(field.width) for name, field in shape}


@dataclass(frozen=True)
class Known:
    """What the decision is told of a frame, in the words of its ports."""

    records: list[int]
    header_sum: int | None
    """Of a frame that no header check fails."""
    statistics: int | None

    @classmethod
    def of(cls, stimulus: Stimulus) -> Known:
        frame = stimulus.frame
        verdict, headers = objection(stimulus, transmit=True)
        pieces = (len(frame) - 1) // MAX_TRANSMIT_FRAME
        whole = MAX_TRANSMIT_FRAME // BEAT_BYTES
        records = [cls._word({"partial": 1, "beats": whole}) for _ in range(pieces)]
        record = {
            "verdict": int(verdict),
            "partial": 0,
            "bad": int(stimulus.bad),
            "overlong": int(pieces > 0),
            "short": random.getrandbits(1),
            "base": stimulus.config.parameters.b,
            "frame_bytes": len(frame) % (1 << 17),
            "beats": stimulus.beats - whole * pieces,
        }
        header_sum, statistics = None, None
        found = fields(headers, stimulus)
        record |= {name: found[name] for name in ("opens", "closes")}
        record["learns"] = int(stimulus.config.learn_phases)
        if headers is not None:
            record["short"] = int(len(frame) < headers.end)
            names = ("tcp", "vlan", "payload_at", "total_length", "payload_length", "ip_checksum", "checksum")
            record |= {name: found[name] for name in names}
            record |= {"phase": headers.sequence % 4, "index": headers.flow.slot}
            record["key"] = FlowKey.as_shape().const(headers.flow._asdict()).as_bits()
            if verdict == 0:
                header_sum = little_endian_sum(frame[headers.l4 : headers.payload])
                statistics = cls._statistics(stimulus, headers)
        return cls([*records, cls._word(record)], header_sum, statistics)

    @staticmethod
    def _word(values: dict[str, int]) -> int:
        """Return a record with these fields, and noise in all others."""
        word = 0
        for name, field in RECORD:
            word |= values.get(name, random.getrandbits(field.width)) << field.offset
        return word

    @staticmethod
    def _statistics(stimulus: Stimulus, headers: Headers) -> int:
        """Of the block; noise for a frame that is shorter than it says, whose block is none."""
        data = stimulus.frame[headers.payload : headers.end]
        if len(stimulus.frame) < headers.end:
            return random.getrandbits(Statistics.as_shape().size)
        numbers = stimulus.config.parameters
        tags, vectors = codec.compress_lanes(np.frombuffer(data, "<u4"), numbers)
        block = codec.pack_block(tags, vectors)
        seen, _ = codec.decompress_lanes(tags, vectors, numbers.b)
        cleared = np.frombuffer(data, "<u4") ^ seen
        values = {
            "block_bytes": len(block),
            "block_sum": little_endian_sum(block),
            "cleared_sum": little_endian_sum(cleared.astype("<u4").tobytes()),
            "counts": np.bincount(tags, minlength=4).tolist(),
        }
        return int(Statistics.as_shape().const(values).as_bits())


class TB(Lockstep):
    """Three pushing inputs, each in order and as late as it likes, and the queue of orders after them."""

    def __init__(self, dut):
        pulses = ("records_valid", "header_sums_valid", "statistics_valid", "orders_ready")
        super().__init__(dut, pulses=pulses)
        self.flows = FlowTable()
        self.orders_at: list[int] = []
        self.reports_at: list[int] = []
        self.statistics_at: list[int] = []

    async def start(self) -> None:
        self.flows = FlowTable()
        await self.reset()
        waited = 0
        while not self.read("room"):
            await self.cycle()
            waited += 1
            assert waited < FLOW_SETS + 20, "never room"

    async def run(self, stimuli: list[Stimulus], *, early=1.0, late=1.0, pop=1.0) -> None:
        """Tells of all frames and checks every order and report.

        ``early``, ``late``, ``pop``: probability in each cycle that a record or header sum comes, that
        statistics come, that an order is taken.
        """
        results = [transmit(s.frame, s.config, self.flows, s.bad) for s in stimuli]
        known = [Known.of(stimulus) for stimulus in stimuli]
        records = deque(word for k in known for word in k.records)
        sums = deque((i, k.header_sum) for i, k in enumerate(known) if k.header_sum is not None)
        statistics = deque(k.statistics for k in known if k.statistics is not None)
        # A block's statistics come after its record; header sums are up to a frame ahead of it.
        made = deque()
        for k in known:
            made.extend([0] * (len(k.records) - 1) + [int(k.statistics is not None)])
        orders: list[int] = []
        reports: list[int] = []
        wanted = sum(len(k.records) for k in known)
        after_fall = ended = owed = 0
        for times in (self.orders_at, self.reports_at, self.statistics_at):
            times.clear()
        limit = self.now + 1000 + 60 * wanted
        while len(orders) < wanted or len(reports) < len(stimuli):
            assert self.now < limit, f"hang: {len(orders)} of {wanted} orders after {self.now} cycles"
            inputs: dict[str, int] = {}
            after_fall = 0 if self.read("room") else after_fall
            allowed = self.read("room") or after_fall < SLACK
            if records and allowed and random.random() < early:
                word = records.popleft()
                after_fall += 1
                inputs |= {"records_valid": 1, "records_payload": word}
                ended += not RECORD.from_bits(word).partial
                owed += made.popleft()
            if sums and sums[0][0] <= ended and random.random() < early:
                inputs |= {"header_sums_valid": 1, "header_sums_payload": sums.popleft()[1]}
            if owed and random.random() < late:
                inputs |= {"statistics_valid": 1, "statistics_payload": statistics.popleft()}
                self.statistics_at.append(self.now)
                owed -= 1
            if self.read("reports_valid"):
                reports.append(self.read("reports_payload"))
                self.reports_at.append(self.now)
            if random.random() < pop:
                inputs["orders_ready"] = 1
                if self.read("orders_valid"):
                    orders.append(self.read("orders_payload"))
                    self.orders_at.append(self.now)
            await self.cycle(**inputs)
        assert not statistics
        assert not sums
        for _ in range(30):
            assert not self.read("reports_valid"), "a report too many"
            await self.cycle()
        assert not self.read("orders_valid"), "an order too many"
        words = iter(orders)
        for stimulus, result, word in zip(stimuli, results, reports, strict=True):
            what = f"{stimulus.name}, {len(stimulus.frame)} bytes {stimulus.frame[:64].hex()}"
            for _ in range((len(stimulus.frame) - 1) // MAX_TRANSMIT_FRAME):
                piece = ORDER.from_bits(next(words))
                found = piece.end, piece.compressed, piece.block, piece.beats
                assert found == (0, 0, 0, MAX_TRANSMIT_FRAME // BEAT_BYTES), f"{what}: piece {found}"
            check_order(stimulus, result, ORDER.from_bits(next(words)), what)
            report = frame_report().from_bits(word)
            found = report.verdict, report.bytes_in, report.bytes_out, tuple(report.counts)
            lanes = result.counts if result.verdict is Verdict.COMPRESSED else (0, 0, 0, 0)
            expected = result.verdict, len(stimulus.frame) % (1 << 17), len(result.frame) % (1 << 17), lanes
            assert found == expected, f"{what}: reported {found}, not {expected}"


def check_order(stimulus: Stimulus, result: Result, order, what: str) -> None:
    """Check that the order turns the frame into the model's result."""
    verdict, headers = objection(stimulus, transmit=True)
    compressed = result.verdict is Verdict.COMPRESSED
    expected = {
        "compressed": int(compressed),
        "block": int(verdict == 0),
        "end": 1,
        "bad": int(stimulus.bad),
        "beats": stimulus.beats
        - (len(stimulus.frame) - 1) // MAX_TRANSMIT_FRAME * (MAX_TRANSMIT_FRAME // BEAT_BYTES),
        "ending": len(stimulus.frame) % BEAT_BYTES,
    }
    if compressed:
        assert headers is not None
        expected |= {
            "vlan": int(headers.l3 == 18),
            "tcp": int(headers.protocol == PROTOCOL_TCP),
            "payload_at": headers.payload,
            "total_length": be16(result.frame, headers.l3 + 2),
            "ip_checksum": be16(result.frame, headers.l3 + 10),
            "checksum": be16(result.frame, headers.checksum_at),
            "original_length": headers.payload_bytes,
            "base": stimulus.config.parameters.b,
        }
    for name, value in expected.items():
        found = order[name]
        assert found == value, f"{what}, {result.verdict.name}: {name} is {found:#x}, not {value:#x}"


@TB.test()
@cocotb.parametrize(
    (("early", "late", "pop"), [(1.0, 1.0, 1.0), (0.2, 1.0, 1.0), (1.0, 0.1, 1.0), (1.0, 0.5, 0.1)])
)
async def every_case(tb, early, late, pop):
    """All hand-written frames, whichever input comes late, and with orders taken seldom."""
    await tb.run(replay(transmit_sequences), early=early, late=late, pop=pop)


@TB.test()
@cocotb.parametrize((("early", "late", "pop"), [(1.0, 1.0, 1.0), (0.4, 0.2, 0.5)]))
async def random_frames(tb, early, late, pop):
    await tb.run(with_configs(host_frames(random, 300, 0.05)), early=early, late=late, pop=pop)


@TB.test()
async def flows_that_share_a_set(tb):
    """Segments of flows with any addresses and ports, and of their twins, at any phase.

    Some begin or end a flow.
    """
    stimuli = []
    for _ in range(40):
        flow = random_flow()
        rivals = [flow, flow, *random.sample(twins(flow), 2)]
        for _ in range(12):
            changes: dict[str, Any] = {"sequence": random.choice([0, 0, 0, random.getrandbits(32)])}
            if random.random() < 0.4:
                changes = {
                    "sequence": -1,
                    "flags": random.choice([SYN, SYN, SYN, FIN, RST, SYN | RST, SYN | FIN]),
                }
            changes["tos"] = random.choice([0x28, 0x28, 0x28, 0])
            config = random.choice([EngineConfig(), EngineConfig(), DEFAULT, replace(DEFAULT, enable=False)])
            stimuli.append(Stimulus(segment(random.choice(rivals), **changes), random.random() < 0.1, config))
    await tb.run(stimuli)


@TB.test()
async def long_blocks_wait(tb):
    """Blocks of more than 8 KiB, whose statistics wait for the orders before them."""
    await tb.run([Stimulus(udp(payload("large", 2240 + n))) for n in range(8)], pop=0.02)


@TB.test()
async def checksums_next_to_zero(tb):
    """Checksum fields that are, or become, a value around the two zeros of one's complement."""
    stimuli = sent_checksum_edges()
    data = payload("gradients", 17)
    for frame, at in ((udp(data), 40), (tcp(data), 50)):
        for value in (1, 2, 0x7FFF, 0xFFFD, 0xFFFE, 0xFFFF, *random.choices(range(1, 1 << 16), k=9)):
            stimuli += [Stimulus(with_field(frame, place, value)) for place in (at, 24)]
    await tb.run(stimuli)


@TB.test()
async def pace_and_latency(tb):
    """Frames keep their pace; an order comes ``LATENCY`` cycles after the statistics, and two queues."""
    for frame, judging in (
        (udp(payload("gradients", 16)), JUDGING),
        (tcp(b"", tos=0), TransmitDecision.pace_of(WIDTH)),
    ):
        await tb.run([Stimulus(frame)] * 60)
        steps = [b - a for a, b in zip(tb.orders_at, tb.orders_at[1:], strict=False)]
        assert max(steps) <= judging, f"an order after {max(steps)} cycles"
    # A single frame whose statistics come last.
    stimulus = Stimulus(udp(payload("gradients", 64)))
    await tb.run([stimulus], late=0.02)
    waited = tb.orders_at[0] - tb.statistics_at[0]
    tb.log.info("%d cycles from statistics to order", waited)
    assert waited <= TransmitDecision.LATENCY + 2 * QUEUE_LATENCY + 1
    assert beats(len(stimulus.frame)) > 1


@TB.test()
async def room_falls(tb):
    """With nobody taking orders ``room`` falls, and every record that still comes is kept."""
    stimuli = [Stimulus(tcp(b"", tos=0))] * 40 + [Stimulus(udp(payload("gradients", 16)))] * 40
    popping = 0.0

    class Never(float):
        def __gt__(self, other: object) -> bool:
            return popping > other  # type: ignore[operator]

    running = cocotb.start_soon(tb.run(stimuli, pop=Never()))
    await Timer(4 * 300, "ns")
    assert not tb.read("room")
    popping = 1.0
    await running
