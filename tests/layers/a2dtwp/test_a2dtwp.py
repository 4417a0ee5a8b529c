# SPDX-License-Identifier: BSD-2-Clause
"""Adaptive weight precision: Algorithm 1 by hand, and weights on the way down in its formats."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import Group

from inceptionn.collectives import MismatchError, statistics
from inceptionn.evaluate.training import MLP, Batches, Parameters, digits, flatten
from inceptionn.layers import checkpoint
from inceptionn.layers.a2dtwp import (
    AWP,
    AdtEncoding,
    Oracle,
    WeightAggregator,
    adt,
    host_to_device,
    residual_blocks,
    weight_keys,
)
from inceptionn.layers.parameter_server import MomentumSGD, NonFiniteGradient, ParameterServer
from inceptionn.transport import Transport

MODEL, DATA = MLP(64, (24,)), digits()


def of_norm(norm: float) -> np.ndarray:
    """Two weights whose l2-norm is this."""
    return np.array([[0.6 * norm, -0.8 * norm]], np.float32)


def test_algorithm_1_by_hand() -> None:
    """T = -0.1, INTERVAL = 2, N = 8: norms 10, 8.5 (-15 %: one), 8.4 (-1 %), 7 (-17 %: two, so 8 bits) ..."""
    awp = AWP(["w"], threshold=-0.1, interval=2)
    found = []
    for norm in (10, 8.5, 8.4, 7, 5, 4, 3, 2, 1, 0.5, 1, 0.5, 0.25):
        awp.observe("w", of_norm(norm))
        found.append((awp.bits("w"), awp.layers["w"].counter))
    assert found == [
        (8, 0), (8, 1), (8, 1), (16, 0), (16, 1), (24, 0), (24, 1), (32, 0), (32, 1), (32, 0), (32, 0),
        (32, 1), (32, 0),
    ]  # fmt: skip
    assert awp.round_to("w") == 4


def test_bits_that_are_no_bytes() -> None:
    awp = AWP(["w"], threshold=1.0, interval=1, increment=6, initial=8)
    for _ in range(3):
        awp.observe("w", of_norm(1.0))
    assert (awp.bits("w"), awp.round_to("w")) == (20, 3)


def test_layers_go_their_own_way() -> None:
    """Each at its own pace; what is in no layer is whole; a norm that was zero is no division by zero."""
    awp = AWP(["falls", "grows", "zero"], threshold=0.0, interval=1)
    for step in range(3):
        awp.step({
            "falls": of_norm(1 - 0.1 * step), "grows": of_norm(1 + step), "zero": of_norm(0),
            "bias": np.zeros(3, np.float32),
        })  # fmt: skip
    assert [awp.bits(key) for key in ("falls", "grows", "zero", "bias")] == [24, 8, 8, 32]


def test_groups_have_one_norm() -> None:
    """A block whose first key shrinks and whose second grows more, so that the block's norm grows."""
    awp = AWP({"block": ["a", "b"]}, threshold=0.0, interval=1)
    awp.step({"a": of_norm(4), "b": of_norm(3)})
    awp.step({"a": of_norm(3), "b": of_norm(5)})
    assert awp.bits("a") == awp.bits("b") == 8
    awp.step({"a": of_norm(3), "b": of_norm(4)})
    assert awp.bits("a") == awp.bits("b") == 16
    assert awp.layers["block"].norm == pytest.approx(5)


def test_keys_that_never_come() -> None:
    """A server that holds one key of a block goes by that one, a batch late."""
    awp = AWP({"block": ["a", "b"]}, threshold=0.0, interval=1)
    for norm in (3, 2, 1):
        awp.observe("a", of_norm(norm))
    assert awp.bits("a") == 16


def test_residual_blocks() -> None:
    names = ["conv1.weight", "layer1.0.conv1.weight", "layer1.0.conv2.weight", "layer1.1.conv1.weight"]
    parameters = {name: np.zeros((2, 2), np.float32) for name in names} | {"fc.bias": np.zeros(2, np.float32)}
    assert weight_keys(parameters) == tuple(names)
    assert residual_blocks(parameters) == {
        "conv1.weight": (names[0],), "layer1.0": (names[1], names[2]), "layer1.1": (names[3],)
    }  # fmt: skip


def test_encoding_sees_a_batch_once() -> None:
    """The same weights again are no new batch; what is decoded is what the format keeps."""
    encoding = AdtEncoding(AWP(["w"], threshold=0.0, interval=1))
    for norm, bytes_each in ((3, 1), (3, 1), (2, 2), (2, 2), (1, 3)):
        data = encoding.encode("w", of_norm(norm))
        assert data.nbytes == 1 + 2 * bytes_each
        assert encoding.sent == {"w": bytes_each}
        found = encoding.decode("w", data, 2)
        assert found.tobytes() == adt.truncate(of_norm(norm), bytes_each).tobytes()
    with pytest.raises(ValueError, match="key 'w': 7 bytes, the first 3, are not 3 packed values"):
        encoding.decode("w", data, 3)


def test_a_layer_has_one_format_in_each_batch(threads: Group) -> None:
    """Both keys of a block shrink in every step: each batch has wider formats than the one before, or not."""
    shrink = {"a": np.full((2, 3), 0.5, np.float32), "x": np.ones(2, np.float32), "b": of_norm(1)}
    block = {"block": ["a", "b"]}

    def pulled(t: Transport) -> list[tuple[int, ...]]:
        encoding = AdtEncoding(AWP(block, threshold=0.0, interval=1))
        formats = []
        with ParameterServer(
            t, {k: 8 * v for k, v in shrink.items()}, MomentumSGD(1.0, 0), servers=[0], encoding=encoding
        ) as group:
            assert group.worker is not None
            for _ in range(4):
                group.worker.pull()
                formats.append(tuple(encoding.sent.get(key, 0) for key in shrink))
                group.worker.push(shrink)
        return formats

    assert threads(2, pulled)[0] == [(1, 4, 1), (2, 4, 2), (3, 4, 3), (4, 4, 4)]

    def sent(t: Transport) -> list[tuple[int, Parameters]]:
        awp = AWP(block, threshold=0.0, interval=1)
        start = {key: 8 * value + np.float32(0.1234567) for key, value in shrink.items()}
        aggregator = WeightAggregator(t, start, MomentumSGD(1.0, 0), precision=awp)
        steps = []
        for _ in range(3):
            found = aggregator.step(shrink)
            assert list(found) == list(shrink)
            steps.append((awp.round_to("a"), found, {k: v.copy() for k, v in aggregator.weights.items()}))
        return steps

    steps = threads(2, sent)
    for rank in (0, 1):
        for number, (_, found, _) in enumerate(steps[rank]):
            width, _, weights = steps[0][number]
            assert width == number + 1
            for key, value in found.items():
                keep = 4 if key == "x" else width
                assert value.tobytes() == adt.truncate(weights[key], keep).tobytes()


def batches(t: Transport) -> Batches:
    return Batches(DATA.train, 16, t.rank, t.size)


def test_parameter_server_pulls_adt(group: Group) -> None:
    """Fixed formats on the pull leg: weights as truncated, bytes as promised, the server's own in full."""

    def run(t: Transport, encoding: Callable[[], AdtEncoding | None]) -> tuple[Parameters, int]:
        used = encoding()
        with ParameterServer(
            t, MODEL.initial(), MomentumSGD(0.05), servers=[0], workers=[1, 2], encoding=used
        ) as ps:
            if ps.worker is None:
                ps.serve()
                return {}, ps.traffic.sent["pull"]
            weights = ps.worker.pull()
            for step in range(3):
                ps.worker.push(MODEL.gradients(weights, Batches(DATA.train, 16, t.rank - 1, 2).at(step)))
                weights = ps.worker.pull()
            return weights, 0

    raw = group(3, lambda t: run(t, lambda: None))
    exact = group(3, lambda t: run(t, lambda: AdtEncoding(Oracle(4))))
    half = group(3, lambda t: run(t, lambda: AdtEncoding(Oracle({"fc1.weight": 2, "fc2.weight": 2}))))
    for key, values in raw[1][0].items():
        assert np.array_equal(exact[1][0][key], values)
        assert np.array_equal(half[1][0][key], half[2][0][key])
        low = half[1][0][key].view(np.uint32) & 0xFFFF
        assert (low == 0).all() if key.endswith("weight") else (low != 0).any()
    values, biases = sum(v.size for v in raw[1][0].values()), 24 + 10
    expected = 2 * 4 * (2 * (values - biases) + 4 * biases + 4)  # workers, pulls, one byte for each key
    assert abs(half[0][1] - expected) < 0.02 * expected


def test_a_restart_with_adaptive_formats_goes_on_with_the_same_bits(threads: Group, tmp_path: Path) -> None:
    """AWP's bits and counters are in the checkpoint: 1 byte at step 0, more at the checkpoint of step 6."""

    def run(t: Transport, steps: int, **settings: Any) -> Any:
        encoding = AdtEncoding(AWP(weight_keys(MODEL.initial()), threshold=1.0, interval=4))
        with ParameterServer(t, MODEL.initial(), MomentumSGD(0.05), encoding=encoding, **settings) as ps:
            weights = ps.worker.pull()
            for step in range(ps.worker.step, steps):
                ps.worker.push(MODEL.gradients(weights, batches(t).at(step)))
                weights = ps.worker.pull()
            return ps.start_step, encoding.precision.state_dict(), flatten(weights)

    whole = threads(2, lambda t: run(t, 10))
    threads(2, lambda t: run(t, 7, checkpoints=tmp_path, every=6))
    again = threads(2, lambda t: run(t, 10, restore=tmp_path))
    for (_, formats, weights), (start, restored, found) in zip(whole, again, strict=True):
        assert start == 6
        assert restored == formats
        assert found.tobytes() == weights.tobytes()
    assert whole[0][1]["fc1.weight"]["bits"] == 24  # 8 at first, 8 more after 4 and 8 steps


def test_a_restarted_aggregator_goes_on_with_the_same_bits(threads: Group, tmp_path: Path) -> None:
    """Whole weights, momenta and AWP's formats; a state that is wrong at rank 1 is named at both."""

    def run(t: Transport, start: int, stop: int) -> Any:
        precision = AWP(weight_keys(MODEL.initial()), threshold=1.0, interval=3)
        aggregator = WeightAggregator(t, MODEL.initial(), MomentumSGD(0.05), precision=precision)
        weights, path = MODEL.initial(), tmp_path / f"rank{t.rank}.npz"
        if start:
            state = checkpoint.load(path)
            weights, wrong = state["weights"], state["aggregator"] | {"steps": -t.rank}
            with pytest.raises(ValueError, match="steps must be an integer of at least 0, not -1"):
                aggregator.load_state_dict(wrong)
            assert (aggregator.steps, precision.bits("fc1.weight")) == (0, 8)
            assert aggregator.optimizer.state_dict() == {}
            aggregator.load_state_dict(state["aggregator"])
        for step in range(start, stop):
            weights = aggregator.step(MODEL.gradients(weights, batches(t).at(step)))
        checkpoint.save(path, {"weights": weights, "aggregator": aggregator.state_dict()})
        return flatten(weights).tobytes(), flatten(aggregator.weights).tobytes(), precision.state_dict()

    whole = threads(2, lambda t: run(t, 0, 9))
    threads(2, lambda t: run(t, 0, 5))
    again = threads(2, lambda t: run(t, 5, 9))
    assert [found[0] for found in again] == [found[0] for found in whole]
    assert again[0] == whole[0]


def test_weight_aggregator(group: Group) -> None:
    """Whole formats against SGD in one place; narrow ones give truncated weights, the same at all ranks."""

    def run(t: Transport, precision: Any = None) -> tuple[Parameters, Any]:
        weights = MODEL.initial()
        aggregator = WeightAggregator(t, weights, MomentumSGD(0.05, 0.0), precision=precision)
        for step in range(4):
            weights = aggregator.step(MODEL.gradients(weights, batches(t).at(step)))
        counted = statistics(t)
        assert (counted.bytes_sent, counted.bytes_before) == tuple(
            sum(bytes_of.values()) for bytes_of in (aggregator.traffic.sent, aggregator.traffic.raw)
        )
        return weights, aggregator

    expected = MODEL.initial()
    shares = [Batches(DATA.train, 16, worker, 3) for worker in range(3)]
    for step in range(4):
        found = [MODEL.gradients(expected, share.at(step)) for share in shares]
        for key in expected:
            expected[key] = expected[key] - np.float32(0.05) * np.mean([f[key] for f in found], axis=0)
    for precision in (None, Oracle(4)):
        for weights, _ in group(3, lambda t, precision=precision: run(t, precision)):
            for key in expected:
                np.testing.assert_allclose(weights[key], expected[key], atol=2e-6)
    results = group(3, lambda t: run(t, AWP(weight_keys(expected), threshold=1.0, interval=2)))
    for key in expected:
        assert len({weights[key].tobytes() for weights, _ in results}) == 1
    aggregator = results[0][1]
    assert aggregator.precision.bits("fc1.weight") == 16  # from the second of the changes on
    assert not np.array_equal(aggregator.weights["fc1.weight"], results[0][0]["fc1.weight"])
    narrow = adt.truncate(aggregator.weights["fc1.weight"], 2)
    assert np.array_equal(narrow, results[0][0]["fc1.weight"])
    assert aggregator.traffic.sent["weights"] < 0.5 * aggregator.traffic.raw["weights"]
    assert results[1][1].traffic.sent["gradients"] == results[1][1].traffic.raw["gradients"]


def test_weight_aggregator_errors(group: Group) -> None:
    def differing(t: Transport) -> None:
        WeightAggregator(t, MLP(64, (24 + t.rank,)).initial())

    assert all(isinstance(error, MismatchError) for error in group(2, differing))

    def infinite(t: Transport, policy: Any) -> Any:
        aggregator = WeightAggregator(
            t, {"w": np.zeros((2, 2), np.float32)}, MomentumSGD(1.0), nonfinite=policy
        )
        value = np.inf if t.rank == 1 else -3.0
        return aggregator.step({"w": np.full((2, 2), value, np.float32)})["w"]

    raised = group(3, lambda t: infinite(t, "raise"))
    assert [type(error) for error in raised] == [MismatchError, NonFiniteGradient, MismatchError]
    assert all("the gradient of key 'w' at step 0" in str(error) for error in raised)
    for weights in group(3, lambda t: infinite(t, "skip")):
        assert (weights == 3.0).all()
    assert all("nonfinite must be" in str(error) for error in group(2, lambda t: infinite(t, "ignore")))

    def shape(t: Transport) -> Any:
        aggregator = WeightAggregator(t, {"w": np.zeros((2, 2), np.float32)})
        return aggregator.step({"w": np.zeros((2, 2 + t.rank), np.float32)})

    found = group(2, shape)
    assert [type(error) for error in found] == [MismatchError, ValueError]
    assert "must be float32 of (2, 2), not float32 of (2, 3)" in str(found[0])


def test_trains_as_well_as_whole_weights(threads: Group) -> None:
    """200 steps of digits, A2DTWP against fp32 and against one byte for the whole training."""

    def run(t: Transport, precision: Any) -> float:
        weights = MODEL.initial()
        optimizer = MomentumSGD(0.02, 0.9, 1e-3)
        aggregator = WeightAggregator(t, weights, optimizer, precision=precision)
        share = batches(t)
        for step in range(200):
            weights = aggregator.step(MODEL.gradients(weights, share.at(step)))
        return MODEL.accuracy(weights, DATA.test)

    def accuracy(make: Callable[[], Any]) -> float:
        found = threads(2, lambda t: run(t, make()))
        assert found[0] == found[1]
        return float(found[0])

    whole = accuracy(lambda: None)
    adaptive = accuracy(lambda: AWP(weight_keys(MODEL.initial()), threshold=1e-2, interval=40))
    assert whole > 0.92
    assert adaptive > whole - 0.02
    assert accuracy(lambda: Oracle(1)) < adaptive


@pytest.mark.skipif(host_to_device.missing() is None, reason="there is a GPU")
def test_without_a_gpu() -> None:
    """One line that says what is missing."""
    lacking = host_to_device.missing()
    assert lacking is not None
    assert "torch" in lacking
    for call in (lambda: host_to_device.DeviceCopy(10), lambda: host_to_device.speed(10)):
        with pytest.raises(RuntimeError, match="weights cannot be copied to a GPU: torch"):
            call()
