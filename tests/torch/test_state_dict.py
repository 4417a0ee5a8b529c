# SPDX-License-Identifier: BSD-2-Clause
"""What `CompressState.load_state_dict` refuses, and how a state is copied."""

import copy
import logging
import pickle
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from torch_ranks import saved_and_loaded

from inceptionn import Codec
from inceptionn.collectives import Deflated
from inceptionn.torch import CompressState, GradiVeQState, TorchOptimizer, gradients_of, parameters_of

VALUES = torch.ones(4)
CODEC = {"error_bound": 2.0**-10, "codec": "planes", "mode": None}
GOOD: dict[str, Any] = {
    "step": 3, "parameters": 2, "codec": CODEC, "residuals": {0: VALUES, 1: VALUES}, "scales": {0: 3, 1: -4},
}  # fmt: skip

NUMBERS: list[Any] = [-1, 1.5, float("nan"), "3", True, None, [], {}, 1 << 63, torch.ones(2).int()]
RESIDUALS: list[Any] = [
    None, 1.0, [1.0], "ones", np.ones(4, np.float32), VALUES.double(), VALUES.bfloat16(), VALUES.int(),
    VALUES.reshape(2, 2), torch.tensor(1.0), VALUES / 0, VALUES * float("nan"), VALUES.to_sparse(),
    torch.empty(4, device="meta"), torch.ones(4, dtype=torch.complex64),
]  # fmt: skip
BOUNDS: list[Any] = [0, -1.0, float("nan"), float("inf"), 0.3, 1 << 2000, "small", None, VALUES, [], 2.0**40]
NAMES: list[Any] = ["fast", "", b"planes", 3, VALUES, np.array(["planes", "x"]), ["planes"], {}, 0]
NO_STATES: list[Any] = [None, 3, "state", [], [("step", 3)], {"step", "codec"}, VALUES, object(), CODEC]


def without(state: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != key}


GARBAGE: dict[str, Any] = {
    **{f"state {number}": value for number, value in enumerate(NO_STATES)},
    **{f"no {key}": without(GOOD, key) for key in ("step", "codec", "residuals")},
    "an extra key": {**GOOD, "steps": 3},
    "a key that is no text": {**GOOD, 3: 3, None: None},
    **{f"{key} {number}": {**GOOD, key: value} for key in ("step", "parameters") for number, value in
       enumerate(NUMBERS)},
    **{f"scales {number}": {**GOOD, "scales": value} for number, value in
       enumerate([None, 3, [0], "scales", {0: 1.0}, {0: True}, {0: None}, {0: 127}, {0: -127}, {"0": 3}])},
    "too few parameters": {**GOOD, "parameters": 1},
    **{f"residuals {number}": {**GOOD, "residuals": value} for number, value in
       enumerate([None, 3, [VALUES], "0", VALUES, (VALUES,)])},
    **{f"residual {number}": {**GOOD, "residuals": {0: value}} for number, value in enumerate(RESIDUALS)},
    **{f"residual of {key!r}": {**GOOD, "residuals": {key: VALUES}} for key in
       ("0", -1, 0.0, None, True, (0, 4), 1 << 70, 2, float("nan"))},
    **{f"codec {number}": {**GOOD, "codec": value} for number, value in
       enumerate([3, "planes", Codec(), [], ["error_bound"], {}, VALUES])},
    **{f"codec without {key}": {**GOOD, "codec": without(CODEC, key)} for key in ("error_bound", "mode")},
    "codec with an extra key": {**GOOD, "codec": {**CODEC, "threads": 3}},
    **{f"bound {number}": {**GOOD, "codec": {**CODEC, "error_bound": value}} for number, value in
       enumerate(BOUNDS)},
    **{f"{key} {number} of the codec": {**GOOD, "codec": {**CODEC, key: value}} for key in ("codec", "mode")
       for number, value in enumerate(NAMES)},
    **{f"deflated {number}": {**GOOD, "codec": {**CODEC, "deflated": value}} for number, value in
       enumerate([1, None, "True"])},
    "another codec's mode": {**GOOD, "codec": {**CODEC, "mode": "literal"}},
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_and_changes_nothing(name: str) -> None:
    state = CompressState(codec="paper")
    state.load_state_dict({**GOOD, "step": 1, "codec": None})
    before = state.state_dict()
    refused(ValueError, r"^[^\n]+$", state.load_state_dict, GARBAGE[name])
    assert repr(state.state_dict()) == repr(before)
    assert state.codec == Codec()


def test_random_garbage_is_loaded_or_refused() -> None:
    """States of which one to three parts, at any depth, were replaced."""
    drawn = random.Random(1)
    pool: list[Any] = [*NUMBERS, *RESIDUALS, *BOUNDS, *NAMES, *NO_STATES, GOOD, VALUES]
    keys = [each for each in pool if isinstance(each, str | int | float | None)]
    loaded = 0
    for _ in range(2000):
        state: dict[Any, Any] = copy.deepcopy(GOOD)
        for _ in range(drawn.randint(1, 3)):
            part = state
            while isinstance(inner := drawn.choice([*part.values(), None]), dict) and drawn.random() < 0.6:
                part = inner
            key = drawn.choice([*part, *part, *keys])
            if drawn.random() < 0.2:
                part.pop(key, None)
            else:
                part[key] = copy.deepcopy(drawn.choice(pool))
        try:
            CompressState().load_state_dict(state)
            loaded += 1
        except ValueError:
            pass
    assert 0 < loaded < 1000


def test_what_is_saved_is_loaded() -> None:
    state = CompressState()
    state.load_state_dict(GOOD)
    again = CompressState()
    again.load_state_dict(state.state_dict())
    for each in (state, again):
        assert (each.step, each.codec) == (3, Codec(2**-10, "planes"))
        assert repr(each.state_dict()) == repr(GOOD)
    older = without(without(GOOD, "parameters"), "scales")
    state.load_state_dict({**older, "codec": None})
    assert state.step == 3


def test_an_assigned_codec_stays_deflated() -> None:
    state, again = CompressState(), CompressState()
    state.codec = Deflated(Codec(2**-8, "planes"))
    saved = state.state_dict()
    assert saved["codec"] == {"error_bound": 2**-8, "codec": "planes", "mode": None, "deflated": True}
    again.load_state_dict(saved)
    assert again.codec is not None
    assert again.codec.name == state.codec.name == "planes 0.00390625 (E0 119), deflated"
    assert again.state_dict() == saved


def test_gradients_by_name_are_dense() -> None:
    table = torch.nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1, 3, 1])).sum().backward()
    found = gradients_of(table)["weight"]
    assert found.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]
    assert parameters_of(table)["weight"].ctypes.data == table.weight.data_ptr()


ONE = np.ones(1, np.float32)
OPTIMIZERS: list[Any] = [
    None, 3, [], "0.started", {3: ONE}, {None: ONE}, {"started": ONE}, {"x.started": ONE}, {"0.step": ONE},
    {"0.started": None}, {"0.started": "yes"}, {"0.started": np.ones(2)}, {"0.started": ONE, "0.step": {}},
    {"0.started": ONE, "0.step": np.array(["x"])}, {"0.started": ONE, "0.step": np.array([None])},
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OPTIMIZERS)))
def test_an_optimizer_refuses_garbage(number: int) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        TorchOptimizer(torch.optim.SGD, lr=0.1).load_state_dict(OPTIMIZERS[number])


WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda state: pickle.loads(pickle.dumps(state)),
    "torch.save": partial(saved_and_loaded, weights_only=False),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_state_is_copied(way: str, caplog: pytest.LogCaptureFixture) -> None:
    """With settings, step, residuals and statistics of its own, but the default group."""
    state = CompressState(codec="planes", error_feedback=0.5, scale="tensor", smallest=7, log_every=9)
    state.load_state_dict(without(GOOD, "codec") | {"codec": None})
    state.ledger.add_torch("bucket 0", 100, 400)
    state.process_group = lambda: None  # is not pickled, as torch's
    with caplog.at_level(logging.WARNING, "inceptionn.torch"):
        again = WAYS[way](state)
    assert "has the default process group" in caplog.text
    assert again.process_group is None
    assert str(again) == str(state)
    assert repr(again.state_dict()) == repr(state.state_dict())
    again.ledger.add_torch("bucket 0", 100, 400)
    again.load_state_dict({**GOOD, "residuals": {}})
    assert state.statistics().calls == 1
    assert len(state.state_dict()["residuals"]) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_leaves_out_is_copied_with_its_module(way: str) -> None:
    module = torch.nn.Linear(3, 3)
    both = {"module": module, "state": CompressState(module=module, leave_out=["bias"])}
    found = WAYS[way](both)
    (left,) = found["state"].left_out.parameters()
    assert left is found["module"].bias


@pytest.mark.parametrize("way", WAYS)
def test_gradiveqs_state_is_copied(way: str) -> None:
    again = WAYS[way](GradiVeQState(codec=Codec(2**-12), warm_up=3))
    assert again.settings == {"codec": Codec(2**-12), "warm_up": 3}


def test_a_copy_has_no_writer() -> None:
    class Writer:
        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            raise AssertionError

    assert pickle.loads(pickle.dumps(CompressState(tensorboard=Writer())))._reporter.idle


def test_a_folder_that_cannot_be_written_is_a_warning_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", ModuleType("tensorboard"))  # as if installed
    (tmp_path / "file").touch()
    with pytest.warns(RuntimeWarning, match="the curves in .*/file of compression end here: FileExistsError"):
        assert CompressState(tensorboard=tmp_path / "file")._reporter.idle
    state = CompressState(tensorboard=tmp_path / "runs" / "1")
    assert not state._reporter.idle
    assert not list((tmp_path / "runs" / "1").iterdir())  # rank 0 makes the file, with the first report
    assert not pickle.loads(pickle.dumps(state))._reporter.idle


def test_a_codec_by_its_name_and_a_schedule_of_names() -> None:
    assert CompressState(codec="planes").codec == Codec(codec="planes")
    assert CompressState(codec=lambda step: "planes").codec == Codec(codec="planes")
    refused(ValueError, "plane", CompressState, codec="plane")
