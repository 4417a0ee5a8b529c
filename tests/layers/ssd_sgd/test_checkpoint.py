# SPDX-License-Identifier: BSD-2-Clause
"""SSD-SGD's state: what it takes from the servers' optimizer, and checkpoints that go on to the same bits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages

from inceptionn import Codec
from inceptionn.evaluate.training import MLP, Batches, digits, flatten
from inceptionn.layers import checkpoint
from inceptionn.layers.a2dtwp import AWP, AdtEncoding, weight_keys
from inceptionn.layers.parameter_server import MomentumSGD, Optimizer, ParameterServer, StepDecay
from inceptionn.layers.ssd_sgd import GLU, SSDSGD, DCASGDa, LocalSGD, LocalUpdate
from inceptionn.transport import Transport

MODEL = MLP(64, (8,), 10)
DATA = digits()
UPDATES: dict[str, Callable[[], LocalUpdate]] = {
    "glu": GLU, "glu held": lambda: GLU(held=True), "dc-asgd-a": DCASGDa, "sgd": LocalSGD
}  # fmt: skip
WARM_UP, STEPS = 6, 17


def train(
    t: Transport,
    update: Callable[[], LocalUpdate],
    k: int = 3,
    steps: int = STEPS,
    stop: int | None = None,
    rule: Optimizer | None = None,
    **settings: Any,
) -> Any:
    """Return the first step, this worker's weights after each step, the servers' final ones, and pulls."""
    rule = rule or MomentumSGD(StepDecay(0.05, (9,), 0.5), 0.8, 1e-3)
    with ParameterServer(t, MODEL.initial(), rule, **settings) as group:
        if group.worker is None:
            group.serve()
            return None
        trainer = SSDSGD(group.worker, k, WARM_UP, update=update())
        batches = Batches(DATA.train, 8, group.worker.index, group.worker.count)
        own = []
        for step in range(group.start_step, steps):
            if step == stop:
                raise RuntimeError("power cut")
            own.append(flatten(trainer.step(MODEL.gradients(trainer.weights, batches.at(step)))))
        return group.start_step, own, flatten(trainer.finish()), trainer.pulls


def check(whole: list[Any], again: list[Any], start: int) -> None:
    for one, other in zip(whole, again, strict=True):
        if one is None:
            continue
        assert other[0] == start
        for step, (weights, found) in enumerate(zip(one[1][start:], other[1], strict=True)):
            assert weights.tobytes() == found.tobytes(), f"step {start + step}"
        assert one[2].tobytes() == other[2].tobytes()
        assert one[3] == other[3]


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("every", [5, 6, 7, 8, 9])
def test_a_restart_goes_on_with_the_same_bits(threads: Group, tmp_path: Path, name: str, every: int) -> None:
    """In the warm-up, at its end, after it between pulls, and (step 9) with a pull in flight."""
    whole = threads(2, lambda t: train(t, UPDATES[name]))
    threads(2, lambda t: train(t, UPDATES[name], steps=every, checkpoints=tmp_path, every=every))
    check(whole, threads(2, lambda t: train(t, UPDATES[name], restore=tmp_path)), every)


def test_a_restart_after_a_power_cut(group: Group, tmp_path: Path) -> None:
    """With a server apart, gradients through the codec, and adaptive formats on the way back."""

    def settings() -> dict[str, Any]:
        awp = AWP(weight_keys(MODEL.initial()), threshold=1.0, interval=2)
        roles = {"servers": [0, 1], "workers": [1, 2]}
        return {"encoding": AdtEncoding(awp), "codec": Codec(2**-10, threads=1), "scale": "auto", **roles}

    whole = group(3, lambda t: train(t, GLU, **settings()))
    saving: dict[str, Any] = {"checkpoints": tmp_path, "every": 5}
    broken = group(3, lambda t: train(t, GLU, stop=13, **saving, **settings()))
    assert all(isinstance(error, Exception) for error in broken)
    names = {"server0", "server1", "worker0", "worker1"}
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} == names
    again = group(3, lambda t: train(t, GLU, restore=tmp_path, **saving, **settings()))
    assert again[1][0] in (5, 10)  # the last step that all had reached when one was cut off
    check(whole, again, again[1][0])


def test_rate_momentum_and_decay_are_the_servers(threads: Group) -> None:
    def rank(t: Transport) -> Any:
        rule = MomentumSGD(StepDecay(0.1, (3,)), momentum=0.7, weight_decay=0.01)
        with ParameterServer(t, MODEL.initial(), rule) as group:
            trainer = SSDSGD(group.worker, 2)
            return trainer.rate, repr(trainer.update)

    text = "GLU(momentum=0.7, weight_decay=0.01, alpha=2.0, beta=0.5, factor=4.0, held=False)"
    assert threads(2, rank) == [(StepDecay(0.1, (3,)), text)] * 2


class Plain(Optimizer):
    """An optimizer that says nothing of itself."""

    def update(self, partition: Any, weights: Any, gradient: Any, step: int, rows: Any = None) -> None:
        weights -= gradient

    def __repr__(self) -> str:
        return "Plain()"


@pytest.mark.parametrize(
    ("rule", "more", "text"),
    [
        (MomentumSGD(0.1), {"rate": 0.05}, "SSD-SGD's rate is Constant(rate=0.05), that of the servers'"),
        (MomentumSGD(0.1), {"rate": StepDecay(0.1, ())}, "SSD-SGD's rate is StepDecay(rate=0.1"),
        (MomentumSGD(0.1), {"update": GLU(momentum=0.5)}, "GLU's momentum is 0.5, that of the servers'"),
        (MomentumSGD(0.1, 0.9, 0.1), {"update": GLU(0.9, 0.2)}, "GLU's weight_decay is 0.2, that of"),
        (Plain(), {}, "SSD-SGD needs rate: the servers' Plain() does not define it"),
        (Plain(), {"rate": 0.1}, "GLU needs momentum: the servers' Plain() does not define it"),
    ],
)
def test_what_differs_from_the_servers_is_refused_at_every_rank(
    threads: Group, rule: Optimizer, more: dict[str, Any], text: str
) -> None:
    """At the workers; a rank that only serves hears why they are gone."""

    def rank(t: Transport) -> None:
        with ParameterServer(t, MODEL.initial(), rule, servers=[0], workers=[1, 2]) as group:
            if group.worker is None:
                group.serve()
            else:
                SSDSGD(group.worker, 2, **more)

    found = threads(3, rank)
    assert [isinstance(error, ValueError) for error in found] == [False, True, True]
    for error in found:
        assert text in str(error)


def test_checkpoints_too_close_to_each_other_are_refused(threads: Group, tmp_path: Path) -> None:
    for error in threads(2, lambda t: train(t, GLU, k=4, checkpoints=tmp_path, every=5)):
        assert "every must be at least k + 2 = 6 steps from checkpoint to checkpoint, not 5" in str(error)


def test_a_checkpoint_without_a_worker_s_state_begins_with_the_warm_up(
    threads: Group, tmp_path: Path
) -> None:
    threads(1, lambda t: train(t, GLU, steps=8, checkpoints=tmp_path, every=8))
    (tmp_path / "worker0-step8.npz").unlink()
    missing = "the checkpoint of step 8 has no state of SSD-SGD: its warm-up begins"
    with pytest.warns(RuntimeWarning, match=missing):
        found = threads(1, lambda t: train(t, GLU, steps=10, restore=tmp_path))
    assert found[0][0] == 8


EDITS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "other worker": (lambda s: s.update(index=0), "index is 0 there, 1 here"),
    "more workers": (lambda s: s.update(workers=3), "workers is 3 there, 2 here"),
    "role": (lambda s: s.update(role="server"), "role is 'server' there, 'worker' here"),
    "no state": (lambda s: s.update(state=None), "state: the state must be a dictionary, not NoneType"),
    "k": (lambda s: s["state"].update(k=2), "state: k is 2 there, 3 here"),
    "step": (lambda s: s["state"].update(step=7), "state: step is 7 there, 8 here"),
    "begin": (lambda s: s["state"].update(begin=-1), "state: begin must be an integer of at least 0, not -1"),
    "rate": (lambda s: s["state"].update(rate="x"), "state: rate is 'x' there, 'StepDecay(rate=0.05"),
    "update": (lambda s: s["state"].update(update="GLU()"), "state: update is 'GLU()' there, 'GLU(moment"),
    "no weights": (lambda s: s["state"]["weights"].pop("fc1.bias"), "state: weights/fc1.bias is missing"),
    "one element": (
        lambda s: s["state"]["weights"].update({"fc1.bias": np.ones(1, np.float32)}),
        "state: weights/fc1.bias must be float32 of (8,), not float32 of (1,)",
    ),
    "NaN": (
        lambda s: np.put(s["state"]["kept"]["previous"]["fc2.bias"], 0, np.nan),
        "state: kept: previous/fc2.bias has values that are not finite",
    ),
    "not begun": (lambda s: s["state"].update(kept=None), "state: kept: the state must be a dictionary"),
    "updates": (
        lambda s: s["state"]["kept"].update(updates=1.5),
        "state: kept: updates must be an integer of at least 0, not 1.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_one_wrong_field_is_named_at_every_rank(threads: Group, tmp_path: Path, edit: str) -> None:
    threads(2, lambda t: train(t, GLU, steps=8, checkpoints=tmp_path, every=8))
    path = tmp_path / "worker1-step8.npz"
    state = checkpoint.load(path)
    EDITS[edit][0](state)
    checkpoint.save(path, state)
    for text in messages(threads(2, lambda t: train(t, GLU, restore=tmp_path)), Exception):
        assert f"{path}: {EDITS[edit][1]}" in text


def test_flipped_bits_in_a_worker_s_file_are_found_at_every_rank(threads: Group, tmp_path: Path) -> None:
    threads(2, lambda t: train(t, GLU, steps=8, checkpoints=tmp_path, every=8))
    path, random = tmp_path / "worker1-step8.npz", np.random.default_rng(5)
    whole = path.read_bytes()
    for place in random.integers(8 * len(whole), size=10):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        for text in messages(threads(2, lambda t: train(t, GLU, restore=tmp_path)), ValueError):
            assert f"{path} is not a checkpoint, or damaged" in text
