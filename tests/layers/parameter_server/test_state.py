# SPDX-License-Identifier: BSD-2-Clause
"""Plan, optimizer, server and headers by themselves, against answers worked out by hand."""

from typing import Any

import numpy as np
import pytest
from refusals import refused

from inceptionn import Codec
from inceptionn.collectives import BFloat16
from inceptionn.layers.parameter_server import Cosine, MomentumSGD, Plan, Server, StepDecay, WarmUp
from inceptionn.layers.parameter_server.exchange.envelope import Envelope, Kind, most_bytes
from inceptionn.layers.parameter_server.exchange.legs import CodecLeg, EncodedLeg, Leg, RawLeg, TaggedLeg


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


class Halves:
    """An encoding of the test's own: float16, 2 bytes per value."""

    def encode(self, key: str, values: np.ndarray) -> Any:
        return values.astype("<f2")

    def decode(self, key: str, data: np.ndarray, count: int) -> np.ndarray:
        return data.view("<f2").astype(np.float32)


def test_a_small_plan_by_hand() -> None:
    """The large key is cut in two on the grid of 16; of the others the larger goes to the emptier server."""
    plan = Plan({"a": (40, 8), "b": (3,), "c": (2, 2)}, 2)
    found = [(p.key, p.server, p.start, p.stop) for p in plan.partitions]
    assert found == [("a", 0, 0, 160), ("a", 1, 160, 320), ("b", 1, 0, 3), ("c", 0, 0, 4)]
    assert plan.load == (164, 163)
    assert [p.number for p in plan.of(1)] == [1, 2]
    assert [p.number for p in plan.of(1, {"b"})] == [2]


@pytest.mark.parametrize("servers", [1, 2, 3, 4, 7])
def test_a_plan_covers_every_value_once_and_evenly(servers: int) -> None:
    shapes = {"w1": (64, 48), "b1": (48,), "w2": (48, 10), "b2": (10,), "w3": (1001,), "scalar": ()}
    plan = Plan(shapes, servers)
    for key, shape in shapes.items():
        ranges = sorted((p.start, p.stop) for p in plan.partitions if p.key == key)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == int(np.prod(shape))
        assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))
    assert sum(plan.load) == sum(int(np.prod(shape)) for shape in shapes.values())
    assert max(plan.load) - min(plan.load) <= 64
    assert [p.number for p in plan.partitions] == list(range(len(plan.partitions)))


def test_momentum_and_weight_decay_by_hand() -> None:
    """With m = wd = 0.5, lr = 1 then 0.5: mom = -(2 + 2) = -4, w = 0; mom = -2 - 0.5*(2 + 0) = -3, -3."""
    (part,) = Plan({"w": (1,)}, 1).partitions
    rule = MomentumSGD(StepDecay(1.0, (1,), 0.5), momentum=0.5, weight_decay=0.5)
    weights = f32(4)
    rule.update(part, weights, f32(2), 0)
    assert weights.tolist() == [0]
    rule.update(part, weights, f32(2), 1)
    assert weights.tolist() == [-3]
    assert rule.state_dict()["momentum0"].tolist() == [-3]


def test_schedules_by_hand() -> None:
    assert [StepDecay(1.0, (2, 4), 0.1)(s) for s in (0, 1, 2, 3, 4)] == pytest.approx([1, 1, 0.1, 0.1, 0.01])
    assert [Cosine(2.0, 4)(s) for s in (0, 2, 4, 9)] == pytest.approx([2, 1, 0, 0])
    assert [WarmUp(StepDecay(1.0, ()), 4)(s) for s in (0, 1, 3, 8)] == [0.25, 0.5, 1, 1]


def test_a_rate_is_a_number_or_a_schedule() -> None:
    assert MomentumSGD(np.float32(0.5)).schedule(7) == 0.5


def server(mode: Any = "sync", workers: int = 2, **settings: Any) -> Server:
    plan = Plan({"a": (2,)}, 1)
    return Server(plan, 0, {"a": f32(10, 20)}, workers, MomentumSGD(1.0, momentum=0, **settings), mode)


def test_a_synchronous_update_is_the_mean_of_all_workers() -> None:
    s = server()
    s.push(1, 0, 0, f32(4, 0))
    assert s.weights[0].tolist() == [10, 20]
    assert s.missing(0) == [0]
    assert not s.ready(0, 1)
    s.push(1, 0, 1, f32(2, 2))  # a worker may be ahead
    s.push(0, 0, 0, f32(0, 2))
    assert s.weights[0].tolist() == [8, 19]
    assert s.versions[0] == 1
    assert s.ready(0, 1)
    s.push(0, 0, 1, f32(2, 2))
    assert s.weights[0].tolist() == [6, 17]


def test_the_order_in_which_gradients_come_does_not_change_the_bits() -> None:
    gradients = [np.random.default_rng(n).normal(size=2).astype(np.float32) for n in range(5)]
    bits = set()
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        s = server(workers=5)
        for worker in order:
            s.push(worker, 0, 0, gradients[worker].copy())
        bits.add(s.weights[0].tobytes())
    assert len(bits) == 1


def test_an_asynchronous_update_is_one_gradient_and_its_delay_is_counted() -> None:
    s = server("async")
    s.pulled(0, [0])
    s.pulled(1, [0])
    s.push(0, 0, 0, f32(4, 0))
    s.push(1, 0, 0, f32(2, 2))
    assert s.weights[0].tolist() == [4, 18]
    assert s.delays == {0: 1, 1: 1}
    assert s.ready(0, 99)


def test_a_worker_without_a_gradient_is_left_out_of_the_mean() -> None:
    s = server(workers=3)
    s.push(0, 0, 0, f32(4, 4))
    s.push(1, 0, 0, None)
    s.push(2, 0, 0, f32(2, 0))
    assert s.weights[0].tolist() == [7, 18]
    assert s.skipped == [(1, "a", 0)]
    for worker in range(3):
        s.push(worker, 0, 1, None)
    assert s.weights[0].tolist() == [7, 18]
    assert s.versions[0] == 2


def test_a_server_refuses() -> None:
    s = server()
    s.push(0, 0, 0, f32(1, 1))
    refused(ValueError, "worker 0 has pushed step 0 of key 'a' before", s.push, 0, 0, 0, f32(1, 1))
    with pytest.raises(ValueError, match="worker 1 pushed 3 values of key 'a', its partition 0 has 2"):
        s.push(1, 0, 0, f32(1, 1, 1))
    refused(ValueError, "partition 7 is not with server 0", s.push, 0, 7, 0, f32(1, 1))
    refused(ValueError, "mode must be 'sync' or 'async', not 'maybe'", server, "maybe")


def test_headers_come_back() -> None:
    header = Envelope(Kind.PUSH, [3, 70_000], [0, 2**32 - 1], 9, b"\1\2\3", 2**40)
    packed = header.pack()
    assert Envelope.unpack(packed) == header
    assert len(packed) <= most_bytes(2, 3)
    for length in (0, 5, len(packed) - 15):
        refused(ValueError, "header", Envelope.unpack, packed[:length])


PARTS = [("a", f32(0.5, -0.25, 3)), ("b", f32(2**-3))]


@pytest.mark.parametrize(
    "leg",
    [
        RawLeg(), CodecLeg(Codec(), 0), CodecLeg(Codec()), CodecLeg(BFloat16()), TaggedLeg(Codec(), 3),
        EncodedLeg(Halves()),
    ],
    ids=lambda leg: leg.name,
)  # fmt: skip
def test_legs_give_back_what_they_can_hold(leg: Leg) -> None:
    meta, data = leg.encode(PARTS)
    found = leg.decode(meta, np.array(data), [(key, values.size) for key, values in PARTS])
    assert [values.tolist() for values in found] == [values.tolist() for _, values in PARTS]
    with pytest.raises(ValueError):
        leg.decode(meta, np.array(data), [("a", 3), ("b", 60)])


def test_a_scale_of_its_own_moves_the_bound() -> None:
    """Values below 2^-10 vanish at that bound; scaled up by their largest magnitude they do not."""
    parts = [("a", f32(2**-12, 2**-13))]
    with pytest.warns(RuntimeWarning, match="the push of gradients: all of the energy"):
        meta, data = CodecLeg(Codec(), None).encode(parts)
    assert CodecLeg(Codec()).decode(meta, data, [("a", 2)])[0].tolist() == [0, 0]
    meta, data = CodecLeg(Codec()).encode(parts)
    assert CodecLeg(Codec()).decode(meta, data, [("a", 2)])[0].tolist() == [2**-12, 2**-13]
