# SPDX-License-Identifier: BSD-2-Clause
"""A NIC of several engines per direction, or of 16 lanes or one, behaves as one of 8: frames, counters, pace.

By default two engines with planes and bf16 lanes, and engines of one lane with each codec; with
``EXHAUSTIVE=1`` all others as well, and the soak, the vectors and the performance of one engine on all
(``conftest.py``).
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from inceptionn.hdl.control.registers import REGISTERS, VERDICTS, Direction
from inceptionn.sim.golden import EngineConfig, Flow, FlowTable, Result, packets, receive, transmit
from inceptionn.sim.golden.cases import alone
from inceptionn.sim.golden.values import KINDS, bf16_payload, payload
from inceptionn.sim.nic_codec import NIC_CODECS
from inceptionn.sim.replay.payloads import PAYLOADS, Values
from inceptionn.sim.replay.performance import LEAST_RATE, Rate, measure, one_rate
from inceptionn.sim.replay.registers import read_counter
from inceptionn.sim.soak_frames import CHUNK, soak
from inceptionn.sim.traffic import Frame, host_frames, wire_frames
from inceptionn.sim.verilated import Output, Pause, VerilatedNic
from inceptionn.wire import BF16_LANES, DEFAULT_BF16_TOS, DEFAULT_TOS, Verdict

PAUSES = ((Pause(), Pause()), (Pause(0.3), Pause(0.3)), (Pause(), Pause(0.01, 400)))

SIZES = [(2, 8), (1, 16), (4, 8), (2, 16), (4, 16)]
"""Engines per direction, and lanes of each."""
ONE_LANE = [(1, 1, "paper"), (1, 1, "planes")]
"""Of serial engines, which hold no frame of any length."""
CHOSEN = [(2, 8, "planes")]
"""Also the codec: a model takes minutes to build."""
if os.environ.get("EXHAUSTIVE"):
    CHOSEN = [(*size, codec) for size in SIZES for codec in NIC_CODECS]

pytestmark = pytest.mark.slow
each_size = pytest.mark.parametrize(("engines", "lanes", "codec"), CHOSEN, indirect=True, scope="session")
each_bf16 = pytest.mark.parametrize(("engines", "lanes"), SIZES, indirect=True, scope="session")


@pytest.fixture
def config(nic: VerilatedNic) -> EngineConfig:
    """Return the NIC's reset values."""
    return nic.codec.config()


def check(came: Sequence[Output], expected: Sequence[Result]) -> None:
    """Every frame, in its place."""
    for number, (output, result) in enumerate(zip(came, expected, strict=True)):
        what = f"frame {number}, {result.verdict.name}"
        sure = result.unspecified_from
        assert len(output.data) == len(result.frame), what
        assert output.data[:sure] == result.frame[:sure], what
        assert output.bad == result.bad, what


def has_bf16(frame: bytes) -> bool:
    """Return whether the shim of a frame on the wire says bf16."""
    return frame[frame.index(b"IN\x02") + 3] >= BF16_LANES.shim_offset


def check_counters(nic: VerilatedNic, direction: Direction, results: Sequence[Result]) -> None:
    """One register map for all engines: every frame counted once, under its verdict."""
    expected = Counter(result.verdict for result in results)
    prefix = direction.upper()
    found = {verdict: read_counter(nic, f"{prefix}_{verdict.name}") for verdict in VERDICTS[direction]}
    assert found == {verdict: expected[verdict] for verdict in found}
    for side in ("IN", "OUT"):
        assert read_counter(nic, f"{prefix}_FRAMES_{side}") == len(results)
    if direction == "tx":
        counts = [sum(each) for each in zip(*(r.counts for r in results if r.counts), strict=True)]
        assert [read_counter(nic, name, nic.codec) for name in nic.codec.counters] == counts
        if nic.codec.name == "planes":
            bf16 = [result.lanes for result in results if result.lanes and has_bf16(result.frame)]
            lanes = sum(result.lanes for result in results) - sum(bf16)
            assert read_counter(nic, "TX_LANES", nic.codec) == lanes
            if nic.codec.bf16:
                assert read_counter(nic, "TX_LANES_BF16", nic.codec) == sum(bf16)
                assert read_counter(nic, "TX_COMPRESSED_BF16", nic.codec) == len(bf16)


def exchanged(
    nic: VerilatedNic, config: EngineConfig, traffic: Callable[[], tuple[list[Frame], list[Frame]]]
) -> list[Result]:
    """Exchange ``traffic`` with every pause, check all frames and the counters; return what is received."""
    flows = FlowTable()
    sent: list[Result] = []
    received: list[Result] = []
    for idle, back_pressure in PAUSES:
        out, back = traffic()
        wire_side, host_side = nic.exchange(out, back, idle=idle, back_pressure=back_pressure)
        results = [transmit(frame, config, flows, bad) for frame, bad in out]
        check(wire_side, results)
        sent += results
        results = [receive(frame, config, bad) for frame, bad in back]
        check(host_side, results)
        received += results
    check_counters(nic, "tx", sent)
    check_counters(nic, "rx", received)
    return received


@each_size
def test_mixed_traffic(nic: VerilatedNic, config: EngineConfig) -> None:
    """Good, spoilt, bad and overlong frames of four flows, short and jumbo, both directions at a time."""
    source = random.Random(1)

    def traffic() -> tuple[list[Frame], list[Frame]]:
        back = wire_frames(source, 1200, config.parameters, long_share=0.05)
        return host_frames(source, 1200, long_share=0.05), back

    exchanged(nic, config, traffic)


def typed(source: random.Random, number: int) -> Frame:
    """Return a frame of either type of lanes, or of neither, of any length."""
    size, kind = 4 * source.randrange(16, 366), source.choice(list(KINDS))
    bf16 = source.random() < 0.5
    data = bf16_payload(kind, size // 2) if bf16 else payload(kind, size // 4, number)
    tos = source.choice([DEFAULT_BF16_TOS if bf16 else DEFAULT_TOS] * 4 + [0])
    make = source.choice([packets.tcp, packets.udp])
    return make(data, tos=tos, vlan=source.choice([None, 7])), source.random() < 0.05


@pytest.mark.exhaustive
@each_bf16
def test_both_types_of_lanes(bf16_nic: VerilatedNic) -> None:
    """bf16 and fp32 among others, both directions at a time; in turn at full rate, at every code."""
    nic, source, config = bf16_nic, random.Random(4), bf16_nic.codec.config()

    def traffic() -> tuple[list[Frame], list[Frame]]:
        out, more = ([typed(source, number) for number in range(500)] for _ in range(2))
        return [(packets.OPENING, False), *out], [(alone(frame, config).frame, bad) for frame, bad in more]

    received = exchanged(nic, config, traffic)
    restored = [result for result in received if result.verdict is Verdict.RESTORED]
    assert 0 < read_counter(nic, "RX_RESTORED_BF16", nic.codec) < len(restored)
    assert read_counter(nic, "TX_COMPRESSED_BF16", nic.codec) > 0
    rates = [
        rate
        for mtu, count in ((1500, 240), (9000, 480))
        for kind, values in PAYLOADS["planes"].items()
        for rate in rates_of_both(nic, kind, values, mtu, count * nic.engines)
    ]
    for direction in ("transmit", "receive"):
        least = min((rate for rate in rates if rate.direction == direction), key=lambda rate: rate.figure)
        what = f"{least.figure:.4f} beats per cycle at least: {least.kind}, MTU {least.mtu}"
        print(f"{nic.engines} x {nic.lanes} lanes, {direction}: {what}")
        assert least.figure >= LEAST_RATE, what


def rates_of_both(nic: VerilatedNic, kind: str, values: Values, mtu: int, count: int) -> tuple[Rate, Rate]:
    """Return the pace of fp32 and bf16 frames in turn, whose groups have the same codes, both directions.

    While the queues fill, reception has gaps, since the types differ in size on the wire, by which engines
    are chosen. With 4 engines of 16 lanes and gradients in frames of 9000 bytes there are 927 idle cycles in
    the first 456 frames, and none in the next 504. With 2 engines of 8 lanes and code 4, 480 frames pass at
    0.963 beats per cycle from the second quarter on, 960 at 0.973, 1920 at 0.993.
    """
    size = (mtu - 40) & ~3
    fp32 = values(np.random.default_rng(1), size // 4).view("<u4")
    data = fp32.tobytes(), np.repeat(fp32 >> 16, 2).astype("<u2").tobytes()
    frames = [
        packets.tcp(data[i % 2], sequence=i * size, tos=(DEFAULT_TOS, DEFAULT_BF16_TOS)[i % 2])
        for i in range(count)
    ]
    came = nic.transmit(frames)
    wire = [output.data for output in came]
    assert [has_bf16(frame) for frame in wire[:4]] == [False, True] * 2, kind
    return (
        one_rate(nic, "transmit", kind, mtu, 54, frames, came),
        one_rate(nic, "receive", kind, mtu, 54, wire, nic.receive(wire)),
    )


def colliding(count: int) -> list[Flow]:
    """Flows of one set of the flow-phase table, and as many of another."""
    wanted = {Flow(packets.SOURCE, packets.DESTINATION, port, 5000).slot for port in (40000, 40001)}
    flows: dict[int, list[Flow]] = {slot: [] for slot in wanted}
    source = random.Random(2)
    while any(len(found) < count for found in flows.values()):
        flow = Flow(packets.SOURCE, packets.DESTINATION, source.getrandbits(16), source.getrandbits(16))
        if flow.slot in wanted:
            flows[flow.slot].append(flow)
    return [flow for found in flows.values() for flow in found[:count]]


SYN, RST = packets.SYN, packets.RST
CHANGES = SYN, SYN, SYN | packets.ACK, packets.FIN, RST, SYN | RST
"""Flags of segments that change the flow-phase table."""


def segment(source: random.Random, flow: Flow) -> Frame:
    """One that looks up, begins or ends: mostly on the grid, of a flow that others displace."""
    draw = source.random()
    changes = draw < 0.15
    off = source.randrange(4) if changes or draw < 0.3 else 0
    frame = packets.tcp(
        b"" if changes else bytes(4 * source.choice((16, 17, 365))),
        sequence=4 * source.getrandbits(30) + off - changes,
        flags=source.choice(CHANGES) if changes else packets.ACK,
        tos=DEFAULT_TOS if source.random() < 0.95 else 0,
        source_port=flow.source_port,
        destination_port=flow.destination_port,
    )
    return frame, source.random() < 0.1


@each_size
def test_one_flow_table(nic: VerilatedNic, config: EngineConfig) -> None:
    """Flows that displace each other, begin, end, learn; bad frames: as one table that sees all in order."""
    source, table, flows, control = random.Random(3), FlowTable(), colliding(3), REGISTERS["CONTROL"]
    results = []
    for number, (idle, back_pressure) in enumerate(PAUSES):
        config = replace(config, learn_phases=number == 1)
        nic.write(control.offset, control.reset | control["LEARN_PHASES"].put(number == 1))
        frames = [segment(source, source.choice(flows)) for _ in range(1500)]
        came = nic.transmit(frames, idle=idle, back_pressure=back_pressure)
        expected = [transmit(frame, config, table, bad) for frame, bad in frames]
        check(came, expected)
        results += expected
    check_counters(nic, "tx", results)
    verdicts = Counter(result.verdict for result in results)
    seen = (Verdict.COMPRESSED, Verdict.PHASE, Verdict.SYN, Verdict.UNKNOWN_FLOW, Verdict.UNTAGGED)
    assert min(verdicts[verdict] for verdict in seen) > 100


@pytest.mark.parametrize(
    ("engines", "lanes", "codec"), [*CHOSEN, ONE_LANE[0]], indirect=True, scope="session"
)
def test_performance(nic: VerilatedNic, engines: int, lanes: int) -> None:
    """One flow at the full rate of all engines; see inceptionn.sim.replay.performance."""
    figures = measure(nic)
    assert figures.engines == engines == nic.engines
    assert figures.lanes == lanes == nic.lanes
    assert figures.shortfalls() == []


@pytest.mark.parametrize(("engines", "lanes", "codec"), ONE_LANE, indirect=True, scope="session")
@pytest.mark.parametrize("direction", ["tx", "rx"])
def test_soak_of_one_lane(nic: VerilatedNic, direction: Direction, codec: str) -> None:
    verdicts = soak(nic, direction, codec, 0) + soak(nic, direction, codec, 1)
    assert verdicts["COMPRESSED" if direction == "tx" else "RESTORED"] > CHUNK // 20
