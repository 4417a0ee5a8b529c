# SPDX-License-Identifier: BSD-2-Clause
"""The parameter server over transports: modes, roles, legs, errors, checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages

from inceptionn import Codec
from inceptionn.collectives import MismatchError
from inceptionn.evaluate.training import MLP, Batches, digits, flatten, unflatten
from inceptionn.layers.parameter_server import MomentumSGD, ParameterServer
from inceptionn.transport import Transport

MODEL = MLP(64, (24,), 10)
DATA = digits()
STEPS = 12


def train(transport: Transport, steps: int = STEPS, stop: int | None = None, **settings: Any) -> Any:
    """Train; return the final weights as one vector, or None for a separate server, and the group.

    At the step ``stop`` the power is cut.
    """
    rule = settings.pop("optimizer", None) or MomentumSGD(0.1)
    with ParameterServer(transport, MODEL.initial(), rule, **settings) as group:
        if group.worker is None:
            group.serve()
            return None, group
        worker = group.worker
        batches = Batches(DATA.train, 8, worker.index, worker.count)
        weights = worker.pull()
        for step in range(worker.step, steps):
            if step == stop:
                raise RuntimeError("power cut")
            worker.push(MODEL.gradients(weights, batches.at(step)))
            weights = worker.pull()
        assert worker.step == max(steps, group.start_step)
        return flatten(weights), group


def by_hand(workers: int, lossy: Any = None) -> np.ndarray:
    """Do the same training in one loop, with the mean of all workers' gradients."""
    weights = MODEL.initial()
    momentum = np.zeros_like(flatten(weights))
    batches = [Batches(DATA.train, 8, worker, workers) for worker in range(workers)]
    for step in range(STEPS):
        gradients = [flatten(MODEL.gradients(weights, b.at(step))) for b in batches]
        if lossy is not None:
            gradients = [lossy(g) for g in gradients]
        mean = sum(gradients[1:], gradients[0].copy()) * np.float32(1 / workers)
        momentum = np.float32(0.9) * momentum - np.float32(0.1) * mean
        weights = unflatten(flatten(weights) + momentum, weights)
    return flatten(weights)


@pytest.mark.parametrize(
    ("size", "roles"),
    [
        (1, {}),
        (2, {}),
        (4, {}),
        (3, {"servers": [0], "workers": [1, 2]}),
        (4, {"servers": [0, 2], "workers": [1, 2, 3]}),
        (3, {"servers": [1]}),
    ],
    ids=str,
)
def test_synchronous_training_is_that_of_one_machine(group: Group, size: int, roles: dict[str, Any]) -> None:
    found = group(size, lambda t: train(t, **roles)[0])
    workers = len(roles.get("workers", range(size)))
    weights = [w for w in found if w is not None]
    assert len(weights) == workers
    assert len({w.tobytes() for w in weights}) == 1
    np.testing.assert_allclose(weights[0], by_hand(workers), rtol=0, atol=1e-5)


def test_the_same_bits_in_every_run(threads: Group) -> None:
    runs = {threads(4, lambda t: train(t)[0])[0].tobytes() for _ in range(3)}
    assert len(runs) == 1


def test_asynchronous_training_learns_and_every_gradient_is_an_update(group: Group) -> None:
    def rank(t: Transport) -> Any:
        weights, g = train(t, 120, mode="async", optimizer=MomentumSGD(0.05, 0.5))
        return MODEL.accuracy(unflatten(weights, MODEL.initial()), DATA.test), g.server

    found = group(3, rank)
    assert max(accuracy for accuracy, _ in found) > 0.85
    for _, server in found:
        assert set(server.versions.values()) == {3 * 120}
        assert sum(server.delays.values()) == 3 * 120 * len(server.versions)


def test_gradients_through_the_codec(group: Group) -> None:
    """Apart from the server every worker compresses, so one loop with a lossy gradient gives the weights."""
    codec = Codec(2**-12)
    settings = {"servers": [0], "workers": [1, 2], "codec": codec, "path": "software", "scale": None}
    found = group(3, lambda t: train(t, **settings))
    weights = found[1][0]
    np.testing.assert_allclose(weights, by_hand(2, lossy=codec.lossy), rtol=0, atol=1e-5)
    sent = found[1][1].traffic
    assert 0 < sent.sent["push"] < sent.raw["push"] == 4 * weights.size * STEPS
    assert found[0][1].traffic.sent["pull"] == 2 * 4 * weights.size * (STEPS + 1)


def test_a_spike_is_in_no_later_step(threads: Group) -> None:
    """There is no error feedback: what compression takes from a push is gone."""
    gradient = np.random.default_rng(1).laplace(scale=1e-3, size=600).astype(np.float32)

    def rank(transport: Transport) -> np.ndarray:
        initial = {"w": np.zeros(600, np.float32)}
        optimizer = MomentumSGD(1.0, momentum=0.0)
        with ParameterServer(transport, initial, optimizer, codec=Codec(2**-10, "planes")) as group:
            weights = []
            for factor in (1e6 if transport.rank else 1, 1):
                group.worker.push({"w": gradient * np.float32(factor)})
                weights.append(group.worker.pull()["w"])
        return weights[0] - weights[1]

    for step in threads(2, rank):
        assert np.linalg.norm(step) == pytest.approx(np.linalg.norm(gradient), rel=0.1)


def test_gradients_over_marked_connections(threads: Group) -> None:
    """The loopback's NICs are lossy in three packets of four; raw values stay."""
    codec = Codec(2**-12)
    found = threads(3, lambda t: train(t, codec=codec, servers=[0], workers=[1, 2])[0], nic=codec)
    assert found[1].tobytes() == found[2].tobytes()
    np.testing.assert_allclose(found[1], by_hand(2), rtol=0, atol=0.1)
    assert np.abs(found[1] - by_hand(2)).max() > 1e-5


def test_gradients_over_marked_tcp_connections(tcp: Group) -> None:
    """Without engines on the way what is sent over them comes as it was."""
    codec = Codec(2**-12)
    settings = {"servers": [0], "workers": [1, 2], "codec": codec, "path": "nic", "scale": 3}
    found = tcp(3, lambda t: train(t, **settings), nic=codec)
    np.testing.assert_allclose(found[1][0], by_hand(2), rtol=0, atol=1e-5)
    assert found[1][1].traffic.sent["push"] == 4 * found[1][0].size * STEPS


class Leading:
    """Two leading bytes of each value: an encoding that depends on the key, with its size in the data."""

    name = "leading bytes"

    def encode(self, key: str, values: np.ndarray) -> np.ndarray:
        count = 4 if key.endswith("bias") else 2
        kept = values.astype("<f4").view(np.uint8).reshape(-1, 4)[:, 4 - count :]
        return np.concatenate((np.array([count], np.uint8), kept.reshape(-1)))

    def decode(self, key: str, data: np.ndarray, count: int) -> np.ndarray:
        whole = np.zeros((count, 4), np.uint8)
        whole[:, 4 - data[0] :] = data[1:].reshape(count, data[0])
        return whole.view("<f4").reshape(-1).astype(np.float32)


def test_weights_through_an_encoding_are_the_same_at_all_workers(group: Group) -> None:
    found = group(3, lambda t: train(t, encoding=Leading()))
    assert len({weights.tobytes() for weights, _ in found}) == 1
    weights = unflatten(found[0][0], MODEL.initial())
    assert not np.any(weights["fc1.weight"].view(np.uint32) & 0xFFFF)
    assert np.any(weights["fc1.bias"].view(np.uint32) & 0xFFFF)
    for _, g in found:
        assert g.traffic.sent["pull"] < 0.6 * g.traffic.raw["pull"]


def test_keys_one_by_one_without_waiting(group: Group) -> None:
    def rank(t: Transport) -> Any:
        with ParameterServer(t, MODEL.initial(), MomentumSGD(0.1)) as g:
            batches = Batches(DATA.train, 8, g.worker.index, g.worker.count)
            weights = g.worker.pull()
            for step in range(STEPS):
                gradients = MODEL.gradients(weights, batches.at(step))
                handles = [g.worker.ipush({key: gradients[key]}) for key in reversed(gradients)]
                pulls = {key: g.worker.ipull([key], weights) for key in gradients}
                for handle in [*handles, *pulls.values()]:
                    handle.wait()
                    assert handle.done
            return flatten(weights)

    found = group(2, rank)
    np.testing.assert_allclose(found[0], by_hand(2), rtol=0, atol=1e-5)


def test_bytes_by_class_of_one_step_by_hand(tcp: Group) -> None:
    """Two ranks, one key of 512 values: each holds 256, pushes 256 and sends 256 for each pull."""

    def rank(t: Transport) -> Any:
        with ParameterServer(t, {"a": np.zeros(512, np.float32)}) as g:
            before = dict(g.traffic.sent)
            g.worker.push({"a": np.ones(512, np.float32)})
            g.worker.pull()
        return before, g.traffic.of_all(t).sent

    before, sent = tcp(2, rank)[0]
    assert before == {}
    header = 20 + 8
    assert sent["push"] == sent["pull"] == 2 * 256 * 4
    # A push, a pull, its answer (28 bytes each), a DONE and a BYE (20 each), in both directions.
    assert sent["control"] == 2 * (3 * header + 2 * 20)


# Errors.


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"servers": [0, 3]}, r"servers must be different ranks of 0\.\.1, not \[0, 3\]"),
        ({"workers": []}, r"workers must be different ranks of 0\.\.1, not \[\]"),
        ({"servers": [0], "workers": [0]}, r"ranks \[1\] are neither workers nor servers"),
        ({"mode": "late"}, "mode must be 'sync' or 'async', not 'late'"),
        ({"nonfinite": "zero"}, "nonfinite must be 'raise' or 'skip', not 'zero'"),
        ({"scale": 1000, "codec": Codec()}, r"scale must be None, 'auto' or -126\.\.126, not 1000"),
        ({"path": "nic"}, "path 'nic': not every rank has a NIC"),
        ({"every": 0, "checkpoints": "."}, "every must be at least 1, not 0"),
    ],
)
def test_settings_out_of_range(threads: Group, settings: dict[str, Any], text: str) -> None:
    for error in threads(2, lambda t: train(t, **settings)):
        assert isinstance(error, ValueError)
        with pytest.raises(ValueError, match=text):
            raise error


@pytest.mark.parametrize("every", [1.5, float("nan"), True])
def test_steps_between_checkpoints_are_whole(threads: Group, tmp_path: Path, every: Any) -> None:
    """A number that is none would write checkpoints at other steps, or never."""
    for text in messages(threads(2, lambda t: train(t, checkpoints=tmp_path, every=every)), TypeError):
        assert text == f"every must be an integer, not {every}"


def test_checkpoints_at_other_steps_differ(threads: Group, tmp_path: Path) -> None:
    """Servers that keep two checkpoints each might have none in common."""
    found = threads(2, lambda t: train(t, checkpoints=tmp_path, every=2 + t.rank))
    assert all("every differs: rank 0 has 2, rank 1 has 3" in text for text in messages(found, MismatchError))


def test_settings_that_differ(threads: Group) -> None:
    found = threads(2, lambda t: train(t, optimizer=MomentumSGD(0.1 + t.rank)))
    for text in messages(found, MismatchError):
        assert "optimizer differs: rank 0 has 'MomentumSGD(Constant(rate=0.1)" in text


# Checkpoints.


def test_a_restart_goes_on_with_the_same_bits(group: Group, tmp_path: Path) -> None:
    settings = {"checkpoints": tmp_path, "every": 4}
    whole = group(3, lambda t: train(t, 14)[0])[0]
    assert all(isinstance(error, Exception) for error in group(3, lambda t: train(t, 14, 9, **settings)))
    found = group(3, lambda t: train(t, 14, restore=tmp_path, **settings))
    for weights, g in found:
        assert g.start_step == 8
        assert weights.tobytes() == whole.tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"server{server}-step{step}.npz" for server in range(3) for step in (12, 8)
    ]


def test_a_checkpoint_is_the_state_between_two_steps_even_if_workers_are_ahead(
    threads: Group, tmp_path: Path
) -> None:
    def rank(t: Transport) -> Any:
        rule = MomentumSGD(0.5, momentum=0)
        with ParameterServer(t, {"a": np.zeros(600, np.float32)}, rule, checkpoints=tmp_path, every=3) as g:
            for _ in range(8):  # without a pull nobody waits for anybody
                g.worker.push({"a": np.ones(600, np.float32)})
        with ParameterServer(t, {"a": np.zeros(600, np.float32)}, rule, restore=tmp_path) as g:
            return g.start_step, set(g.worker.pull()["a"].tolist())

    assert threads(2, rank) == [(6, {-3.0})] * 2


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"optimizer": MomentumSGD(0.2)}, "optimizer is 'MomentumSGD(Constant(rate=0.1)"),
        ({"servers": [0]}, "servers is 2 there, 1 here"),
        ({"mode": "async"}, "mode is 'sync' there, 'async' here"),
    ],
)
def test_a_checkpoint_of_something_else(
    threads: Group, tmp_path: Path, settings: dict[str, Any], text: str
) -> None:
    threads(2, lambda t: train(t, 4, checkpoints=tmp_path, every=2))
    for said in messages(threads(2, lambda t: train(t, 6, restore=tmp_path, **settings)), ValueError):
        assert text in said


def test_no_checkpoint(threads: Group, tmp_path: Path) -> None:
    for error in threads(2, lambda t: train(t, restore=tmp_path)):
        assert "no step of which all servers have a checkpoint" in str(error)
