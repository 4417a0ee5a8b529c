# SPDX-License-Identifier: BSD-2-Clause
"""Checkpoints: files that are whole or not there; damaged ones, and such of other content, are named."""

import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from full_disk import largest_file
from outcomes import Group, messages, outcomes, returned

from inceptionn.layers import checkpoint
from inceptionn.layers.a2dtwp import AWP, AdtEncoding, Oracle
from inceptionn.layers.parameter_server import MomentumSGD, ParameterServer
from inceptionn.transport import Transport

WEIGHTS = {"a": np.linspace(0, 1, 600, dtype=np.float32), "b": np.ones(3, np.float32)}
AWP_SETTINGS: dict[str, Any] = {"threshold": 1.0, "interval": 4}


def a_state() -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {
        "step": 3,
        "random": np.random.default_rng(2).bit_generator.state,
        "weights": {
            "fc 1/weight": random.normal(size=(3, 4)).astype(np.float32),
            "": np.float64([1, np.nan]),
        },
        "history": [["warm-up", 0], [None, True, 0.1]],
        "samples": [np.arange(5, dtype=np.int64), np.zeros((0, 2), np.float32)],
    }


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal, to the bits of arrays."""
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_a_state_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    checkpoint.save(path, a_state())
    assert same(checkpoint.load(path), a_state())
    with np.load(path) as archive:  # NumPy alone reads it, too
        assert archive["array0"].tobytes() == a_state()["weights"]["fc 1/weight"].tobytes()
    assert [found.name for found in tmp_path.iterdir()] == ["state.npz"]


def test_flipped_bits_anywhere_are_found(tmp_path: Path) -> None:
    path, random = tmp_path / "state.npz", np.random.default_rng(3)
    checkpoint.save(path, a_state())
    whole = path.read_bytes()
    for trial in range(300):
        data = np.frombuffer(whole, np.uint8).copy()
        for place in random.integers(0, 8 * len(whole), 1 + trial % 3):
            data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        if data.tobytes() == whole:
            continue
        with pytest.raises(ValueError, match=r"state\.npz is not a checkpoint, or damaged: its checksum"):
            checkpoint.load(path)
    for length in (*range(0, 100), len(whole) // 2, len(whole) - 10, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"state\.npz is not a checkpoint, or damaged"):
            checkpoint.load(path)


def test_what_a_file_cannot_hold(tmp_path: Path) -> None:
    for state in ({1: 2}, {"a": np.array([None])}, {"a": {2, 3}}):
        with pytest.raises(TypeError):
            checkpoint.save(tmp_path / "state.npz", state)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    checkpoint.save(path, {"step": 1})
    with largest_file(10_000), pytest.raises(OSError, match="File too large") as caught:
        checkpoint.save(path, {"weights": np.zeros(100_000)})
    assert caught.value.filename == str(path)
    assert checkpoint.load(path) == {"step": 1}
    assert [found.name for found in tmp_path.iterdir()] == ["state.npz"]


# The files of a parameter server.


def run(transport: Transport, steps: int, **settings: Any) -> tuple[int, np.ndarray]:
    """Weights after some steps; AWP on the pull leg."""
    rule = settings.pop("optimizer", None) or MomentumSGD(0.1)
    encoding = settings.pop("encoding", None) or AdtEncoding(AWP(["a"], **AWP_SETTINGS))
    with ParameterServer(transport, WEIGHTS, rule, encoding=encoding, **settings) as group:
        assert group.worker is not None
        weights = group.worker.pull()
        while group.worker.step < steps:
            group.worker.push({key: value * (1 + transport.rank) for key, value in weights.items()})
            weights = group.worker.pull()
        return group.start_step, np.concatenate([weights["a"], weights["b"]])


def test_a_full_disk_is_named_at_every_rank(threads: Group, tmp_path: Path) -> None:
    threads(2, lambda t: run(t, 4, checkpoints=tmp_path, every=2))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with largest_file(2000):
        found = threads(2, lambda t: run(t, 6, checkpoints=tmp_path, every=2, restore=tmp_path))
    for error in found:
        assert "File too large" in str(error)
        assert "-step6.npz" in str(error)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert [start for start, _ in threads(2, lambda t: run(t, 5, restore=tmp_path))] == [4, 4]


def at(state: Any, *path: str) -> Any:
    for name in path:
        state = state[name]
    return state


def put(*path: str, **fields: Any) -> Callable[[Any], None]:
    """Return an edit of the dictionary at a path of a state."""
    return lambda state: at(state, *path).update(fields)


def weight(value: Any) -> Callable[[Any], None]:
    """Return an edit of the weights of partition 1."""
    return put("weights", **{"1": value})


ZEROS = np.zeros(296, np.float32)
"""As many as partition 1 has."""
precision = partial(put, "pull", "state", "precision", "a")
EDITS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no format": (lambda s: s.pop("format"), "format is None there, 3 here"),
    "old format": (lambda s: s.update(format=2), "format is 2 there, 3 here"),
    "other server": (lambda s: s.update(index=0), "index is 0 there, 1 here"),
    "other step": (lambda s: s.update(step=2), "step is 2 there, 4 here"),
    "no weights": (lambda s: s.pop("weights"), "weights is missing"),
    "unknown": (lambda s: s.update(more=1), "more is unknown"),
    "list": (lambda s: s.update(weights=[1]), "weights must be a dictionary, not list"),
    "no partition": (lambda s: s["weights"].pop("1"), "weights/1 is missing"),
    "two": (lambda s: s["weights"].update({"9": np.zeros(1, np.float32)}), "weights/9 is unknown"),
    "one element": (weight(ZEROS[:1]), "weights/1 must be float32 of (296,), not float32 of (1,)"),
    "shape": (weight(ZEROS.reshape(2, -1)), "weights/1 must be float32 of (296,), not float32 of (2, 148)"),
    "float64": (weight(np.zeros(296)), "weights/1 must be float32 of (296,), not float64 of (296,)"),
    "text": (weight("ab"), "weights/1 must be float32 of (296,), not 'ab'"),
    "NaN": (lambda s: np.put(s["weights"]["1"], 7, np.nan), "weights/1 has values that are not finite"),
    "no momentum": (lambda s: s["state"].pop("momentum1"), "state/momentum1 is missing"),
    "momentum's shape": (
        put("state", momentum1=ZEROS[:1]), "state/momentum1 must be float32 of (296,), not float32 of (1,)"
    ),
    "infinite momentum": (
        lambda s: np.put(s["state"]["momentum1"], 0, np.inf), "state/momentum1 has values that are not finite"
    ),
    "version": (lambda s: s["versions"].update({"1": 3}), "versions/1 is 3 there, 4 here"),
    "version's type": (lambda s: s["versions"].update({"1": "4"}), "versions/1 is '4' there, 4 here"),
    "no leg": (lambda s: s.update(pull=None), "pull must be a dictionary, not NoneType"),
    "bits": (precision(bits=64), "pull/state: precision: a/bits must be an integer within 1..32, not 64"),
    "counter": (
        precision(counter=-1), "pull/state: precision: a/counter must be an integer within 0..4, not -1"
    ),
    "norm": (
        precision(norm=float("nan")), "pull/state: precision: a/norm must be a number of at least 0, not nan"
    ),
    "number beyond every float": (
        precision(norm=10**400),
        f"pull/state: precision: a/norm must be a number of at least 0, not 1{'0' * 199}...",
    ),
    "squares": (precision(squares={"z": 1.0}), "pull/state: precision: a/squares/z is unknown"),
    "seen": (put("pull", "state", "seen", a=[1]), "pull/state: seen must hold two finite numbers by key"),
}  # fmt: skip


@pytest.fixture
def written(threads: Group, tmp_path: Path) -> Path:
    """Return a directory with the checkpoints of two servers at step 4."""
    threads(2, lambda t: run(t, 4, checkpoints=tmp_path, every=4))
    return tmp_path


@pytest.mark.parametrize("edit", EDITS)
def test_one_wrong_field_is_named_at_every_rank_and_nothing_is_restored(
    threads: Group, written: Path, edit: str
) -> None:
    """The file is whole, its checksum right: what it says is wrong. Both servers' optimizers stay as made."""
    change, text = EDITS[edit]
    path = written / "server1-step4.npz"
    state = checkpoint.load(path)
    change(state)
    checkpoint.save(path, state)
    rules = [MomentumSGD(0.1) for _ in range(2)]
    encodings = [AdtEncoding(AWP(["a"], **AWP_SETTINGS)) for _ in range(2)]
    fresh = AdtEncoding(AWP(["a"], **AWP_SETTINGS)).state_dict()
    for error in threads(
        2, lambda t: run(t, 5, restore=written, optimizer=rules[t.rank], encoding=encodings[t.rank])
    ):
        assert isinstance(error, ValueError)
        assert f"{path}: {text}" in str(error)
    assert [rule.state_dict() for rule in rules] == [{}, {}]
    assert [encoding.state_dict() for encoding in encodings] == [fresh, fresh]


def test_versions_of_asynchronous_servers(threads: Group, tmp_path: Path) -> None:
    """Partitions have versions of their own there; such that cannot be are named."""
    settings: dict[str, Any] = {
        "mode": "async", "optimizer": MomentumSGD(0.01), "encoding": AdtEncoding(Oracle(4))
    }  # fmt: skip
    threads(1, lambda t: run(t, 4, checkpoints=tmp_path, every=4, **settings))
    path = tmp_path / "server0-step4.npz"
    state = checkpoint.load(path)
    for wrong in (-1, 4.0, None, True):
        checkpoint.save(path, state | {"versions": state["versions"] | {"1": wrong}})
        (error,) = threads(1, lambda t: run(t, 5, restore=tmp_path, **settings))
        assert f"{path}: versions/1 must be an integer of at least 0, not {wrong!r}" in str(error)
    checkpoint.save(path, state | {"versions": state["versions"] | {"1": 7}})
    ((start, weights),) = threads(1, lambda t: run(t, 4, restore=tmp_path, **settings))
    assert start == 4
    assert weights.tobytes() == b"".join(state["weights"][number].tobytes() for number in ("0", "1"))


def test_flipped_bits_in_a_server_s_file_are_found_at_every_rank(threads: Group, written: Path) -> None:
    random = np.random.default_rng(5)
    for trial in range(10):
        path = written / f"server{trial % 2}-step4.npz"
        whole = path.read_bytes()
        data = bytearray(whole)
        place = int(random.integers(8 * len(data)))
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        for text in messages(threads(2, lambda t: run(t, 5, restore=written)), ValueError):
            assert f"{path} is not a checkpoint, or damaged" in text
        path.write_bytes(whole)


def test_servers_without_keys_have_no_files(threads: Group, tmp_path: Path) -> None:
    """Three servers and one small key: two hold nothing, and the group is restored all the same."""

    def rank(t: Transport, **settings: Any) -> int:
        with ParameterServer(t, {"a": np.ones(2, np.float32)}, **settings) as group:
            assert group.worker is not None
            group.worker.push({"a": np.ones(2, np.float32)})
            group.worker.pull()
            return group.start_step

    assert threads(3, lambda t: rank(t, checkpoints=tmp_path, every=1)) == [0, 0, 0]
    assert threads(3, lambda t: rank(t, restore=tmp_path)) == [1, 1, 1]


class _Litter:
    """What the garbage collector alone can end, in Python code, so that another thread may go on."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


def test_threads_read_at_once(tmp_path: Path) -> None:
    """CPython fails now and then to parse in two threads at once; without a lock, most of these reads did."""
    checkpoint.save(tmp_path / "state.npz", a_state())

    def read() -> None:
        for _ in range(20):
            _Litter()
            assert same(checkpoint.load(tmp_path / "state.npz"), checkpoint.load(tmp_path / "state.npz"))

    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(20, 1, 1)
    sys.setswitchinterval(1e-6)
    try:
        returned(outcomes([read] * 4))
    finally:
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
