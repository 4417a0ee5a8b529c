# SPDX-License-Identifier: BSD-2-Clause
"""Random frames through both engines: round trips, a second parser's opinion, and spoilt bytes."""

import random
from dataclasses import replace

import numpy as np
import pytest

from inceptionn import wire
from inceptionn.sim import golden
from inceptionn.sim.golden import EngineConfig, FlowTable, planes, receive, transmit
from inceptionn.sim.golden.cases import CODECS, alone
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.values import KINDS, payload
from inceptionn.wire import Verdict as V


def random_frame(source: random.Random) -> tuple[bytes, int, int]:
    """Return a good frame that is eligible but for its phase, its payload's offset, and its lanes."""
    lanes = source.choice((16, 17, 24, 32, 63, source.randint(16, 362)))
    data = payload(source.choice(list(KINDS)), lanes, source.getrandbits(16))
    shape = {
        "tos": source.choice((0x28, 0x28, 0x29, 0x2A, 0x2B)),
        "vlan": source.choice((None, None, source.getrandbits(16))),
        "padding": source.randbytes(source.choice((0, 0, 0, 1, 7))),
        **{name: source.getrandbits(32) for name in ("source", "destination")},
        **{name: source.getrandbits(16) for name in ("source_port", "destination_port", "identification")},
    }
    l4 = 34 if shape["vlan"] is None else 38
    if source.getrandbits(2) == 0:
        return udp(data, **shape), l4 + 8, lanes
    options = source.randbytes(4 * source.randint(0, 10))
    flags = source.choice((0x10, 0x18, 0x11))
    frame = tcp(data, tcp_options=options, sequence=source.getrandbits(32), flags=flags, **shape)
    return frame, l4 + 20 + len(options), lanes


@pytest.mark.parametrize("variant", wire.VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("k", [1, 6, 10, 14])
def test_round_trip(k: int, variant: wire.Variant, referee) -> None:
    source = random.Random(f"round trip {k} {variant.name}")
    parameters = wire.CODECS[variant.codec].parameters(k, variant.mode)
    config = replace(EngineConfig(), parameters=parameters)
    seen = {}
    for _ in range(150):
        frame, start, lanes = random_frame(source)
        sent = alone(frame, config)
        seen[sent.verdict] = seen.get(sent.verdict, 0) + 1
        if sent.verdict is V.EXPANDED:
            assert sent.frame == frame
            assert receive(frame, config).verdict is V.NO_SHIM
            continue
        assert sent.verdict is V.COMPRESSED
        assert not referee.host_accepts(sent.frame)
        assert referee.router_accepts(sent.frame)
        back = receive(sent.frame, config)
        assert back.verdict is V.RESTORED
        assert back.counts == sent.counts
        assert referee.router_accepts(back.frame)
        assert referee.host_accepts(back.frame)
        original = np.frombuffer(frame, "<f4", lanes, start)
        if variant.mode is None:
            expected = planes.lossy(original.copy(), 2.0**-k)
        else:
            expected = golden.lossy(original.copy(), 2.0**-k, variant.mode)
        assert back.frame[start:] == expected.tobytes()
        # Once lossy, always the same: a second hop over an engine pair changes nothing.
        again = receive(alone(back.frame, config).frame, config)
        assert again.frame == back.frame
    assert seen[V.COMPRESSED] > 80
    assert seen[V.EXPANDED] > 10


@pytest.mark.parametrize("learn", [False, True])
def test_conversation_of_flows(learn: bool) -> None:
    """Flows opened, ended and cut anew, with and without the mark, against grids kept by name."""
    source = random.Random(7)
    flows, config = FlowTable(), replace(EngineConfig(), learn_phases=learn)
    data = payload("gradients", 32)
    ports = random.Random(1).sample(range(1024, 65536), 12)
    grid: dict[int, int] = {}
    counts = dict.fromkeys((V.COMPRESSED, V.PHASE, V.SYN, V.UNTAGGED, V.UNKNOWN_FLOW), 0)
    for _ in range(2500):
        port, sequence = source.choice(ports), source.getrandbits(32)
        flags = source.choice([0x10] * 12 + [0x02, 0x02, 0x12, 0x11, 0x14, 0x03])
        tos = source.choice((0x28, 0x28, 0x29, 0x28, 0x00))
        if tos == 0:
            expected = V.UNTAGGED
        elif flags & 2:
            expected = V.SYN
        elif port in grid:
            expected = V.COMPRESSED if grid[port] == sequence % 4 else V.PHASE
        else:
            expected = V.COMPRESSED if learn else V.UNKNOWN_FLOW
            if learn:
                grid[port] = sequence % 4
        if flags & 5 or (flags & 2 and tos == 0):
            grid.pop(port, None)
        elif flags & 2:
            grid[port] = (sequence + 1) % 4
        frame = tcp(data, sequence=sequence, source_port=port, flags=flags, tos=tos)
        assert transmit(frame, config, flows).verdict is expected
        counts[expected] += 1
        assert len(flows) == len(grid)
    assert min(count for verdict, count in counts.items() if not (learn and verdict is V.UNKNOWN_FLOW)) > 100


@pytest.mark.parametrize("config", [case.CONFIG for case in CODECS.values()], ids=CODECS)
def test_spoilt_frames(config: EngineConfig) -> None:
    """Any bytes changed on the wire, any cut: passed as it came, restored, or marked bad; no error."""
    source = random.Random(11)
    outcomes: dict[V, int] = {}
    for _ in range(4000):
        frame, start, _ = random_frame(source)
        sent = alone(frame, config).frame
        spoilt = bytearray(sent)
        for _ in range(source.choice((1, 1, 2, 5))):
            spoilt[source.randrange(12, min(len(spoilt), start + 40))] = source.getrandbits(8)
        spoilt = bytes(spoilt[: source.choice((len(spoilt), len(spoilt), source.randrange(1, len(spoilt))))])
        result = receive(spoilt, config)
        outcomes[result.verdict] = outcomes.get(result.verdict, 0) + 1
        assert transmit(spoilt, config, FlowTable()).bad is False
        if result.verdict is V.MALFORMED:
            assert result.bad
        elif result.verdict is not V.RESTORED:
            assert (result.frame, result.bad) == (spoilt, False)
    assert {V.RESTORED, V.MALFORMED, V.BAD_SHIM, V.NO_SHIM, V.TRUNCATED, V.LENGTHS} <= set(outcomes)


def test_random_bytes_never_raise() -> None:
    source = random.Random(13)
    config = replace(EngineConfig(), tos_mask=0)
    flows = FlowTable()
    for _ in range(3000):
        body = source.randbytes(source.randrange(0, 200))
        head = bytes(12) + b"\x08\0" + bytes([0x45])
        frame = source.choice((body, head + body))
        for result in (transmit(frame, config, flows), receive(frame, config)):
            assert len(result.frame) >= len(frame) or result.verdict is V.COMPRESSED
