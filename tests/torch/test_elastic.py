# SPDX-License-Identifier: BSD-2-Clause
"""A rank is killed in mid-step, torchrun starts all again, and the training ends with the same bits."""

import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch_ranks import same

from inceptionn.torch.transport import _rendezvous
from inceptionn.transport import TransportError

EXAMPLE = Path(__file__).parents[2] / "examples" / "elastic.py"
RANKS, STEPS = 3, 20


def said_by(folder: Path, *arguments: str) -> str:
    # The agent looks every 2 s, so that the ranks that are left can say what they have seen.
    launch = f"--standalone --nproc-per-node {RANKS} --max-restarts 1 --monitor-interval 2".split()
    program = [str(EXAMPLE), "--folder", str(folder), "--steps", str(STEPS), *arguments]
    own = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    started = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *launch, *program],
        env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        said, _ = started.communicate(timeout=240)
    except BaseException:
        started.terminate()
        started.communicate()
        raise
    assert started.returncode == 0, said
    return said


def saved_by(folder: Path, rank: int) -> Any:
    return torch.load(folder / f"rank-{rank}-step-{STEPS:06d}.pt", weights_only=True)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the checkpoints of a run in which no rank is lost, and what it said."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    return folder, said_by(folder)


@pytest.mark.slow
def test_a_restarted_run_ends_with_the_bits_of_an_uninterrupted_one(
    uninterrupted: tuple[Path, str], tmp_path: Path
) -> None:
    folder, whole = uninterrupted
    lost = said_by(tmp_path / "lost", "--fail-rank", "1", "--fail-step", "12")
    for rank in (0, 2):
        assert re.search(rf"rank {rank}, step 12: .*PeerLost: rank 1 is lost", lost)
    for rank in range(RANKS):
        assert f"rank {rank}, restart 1: begins at step 10" in lost
        assert "restart 1" not in whole
        after = saved_by(tmp_path / "lost", rank)
        assert after["hook"]["step"] == STEPS
        assert sum(values.abs().sum() for values in after["hook"]["residuals"].values()) > 0
        assert same(after, saved_by(folder, rank))
    assert len(set(re.findall(r"weights ([0-9a-f]+)", lost + whole))) == 1


@pytest.mark.slow
def test_a_checkpoint_that_some_ranks_lack_is_passed_over(
    uninterrupted: tuple[Path, str], tmp_path: Path
) -> None:
    """What `load` chooses where the loss came while the newest checkpoint was being saved."""
    folder = shutil.copytree(uninterrupted[0], tmp_path / "kept")
    (folder / f"rank-2-step-{STEPS:06d}.pt").unlink()
    assert len(re.findall("restart 0: begins at step 15", said_by(folder))) == RANKS


@pytest.fixture
def checkpoints(alone: None, tmp_path: Path) -> Any:
    """Return the example's `Checkpoints`, with those of steps 5 and 10."""
    made = run_path(str(EXAMPLE))["Checkpoints"](tmp_path)
    for step in (5, 10):
        made.save(step, {"part": Part(step)})
    return made


class Part:
    """Something with a state."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]


@pytest.mark.parametrize("kept", [0, 3, 0.5, 0.99])
def test_a_cut_checkpoint_is_passed_over(
    checkpoints: Any, kept: float, capfd: pytest.CaptureFixture[str]
) -> None:
    newest, older = checkpoints._path(10), checkpoints._path(5)
    os.truncate(newest, int(kept if kept > 1 else kept * newest.stat().st_size))
    part = Part()
    assert checkpoints.load({"part": part}) == part.value == 5
    assert f"rank 0: {newest} is passed over: " in capfd.readouterr().out
    os.truncate(older, 100)
    assert checkpoints.load({"part": part}) == 0
    checkpoints.save(10, {"part": Part(10)})
    assert checkpoints.load({"part": part}) == part.value == 10


def test_files_of_others_are_refused(checkpoints: Any) -> None:
    (checkpoints.folder / "rank-0-step-old.pt").touch()
    (checkpoints.folder / "notes.txt").touch()
    assert checkpoints.load({"part": Part()}) == 10
    theirs = torch.load(checkpoints._path(10)) | {"about": {"program": "elastic.py", "ranks": 4}}
    for other in ([1, 2], {"weights": torch.ones(3)}, theirs):
        torch.save(other, checkpoints._path(20))
        with pytest.raises(ValueError, match=r"step-000020\.pt is no checkpoint of .*: remove it$"):
            checkpoints.load({"part": Part()})
    checkpoints._path(10).rename(checkpoints._path(20))  # not what its name says
    with pytest.raises(ValueError, match=r"'step': 20} but of .*'step': 10}"):
        checkpoints.load({"part": Part()})


def test_a_checkpoint_gets_its_name_after_its_content_is_on_the_disk(
    checkpoints: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, before, path = [], os.fsync, checkpoints._path(15)
    monkeypatch.setattr(
        os, "fsync", lambda file: (before(file), synced.append((os.fstat(file).st_ino, path.exists())))
    )
    checkpoints.save(15, {"part": Part(15)})
    assert synced == [(path.stat().st_ino, False)]
    assert checkpoints._steps() == [10, 15]


def test_a_store_kept_over_a_restart_is_named() -> None:
    """By default torchrun's rendezvous shares its store; the ranks would wait for one that has ended."""
    store = dist.HashStore()
    listener, _, _ = _rendezvous(store, 0, 2, 5.0, "127.0.0.1")
    assert listener is not None
    listener.close()
    store.set_timeout(timedelta(seconds=5))
    with pytest.raises(TransportError, match="TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        _rendezvous(store, 0, 2, 5.0, "127.0.0.1")
