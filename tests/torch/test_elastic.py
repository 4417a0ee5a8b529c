# SPDX-License-Identifier: BSD-2-Clause
"""A rank is killed in mid-step, torchrun starts all again, and the training ends with the same bits."""

import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "elastic.py"
RANKS, STEPS = 3, 20


def said_by(folder: Path, *arguments: str) -> str:
    # The agent looks every 2 s, so that the ranks that are left can say what they have seen.
    launch = [
        "--standalone",
        "--nproc-per-node",
        str(RANKS),
        "--max-restarts",
        "1",
        "--monitor-interval",
        "2",
    ]
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
    import torch

    return torch.load(folder / f"rank-{rank}-step-{STEPS:06d}.pt", weights_only=True)


def same(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


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


def test_a_store_kept_over_a_restart_is_named() -> None:
    """By default torchrun's rendezvous shares its store; the ranks would wait for one that has ended."""
    import torch.distributed as dist

    from inceptionn.torch.transport import _rendezvous
    from inceptionn.transport import TransportError

    store = dist.HashStore()
    listener, _, _ = _rendezvous(store, 0, 2, 5.0, "127.0.0.1")
    assert listener is not None
    listener.close()
    store.set_timeout(timedelta(seconds=5))
    with pytest.raises(TransportError, match="TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        _rendezvous(store, 0, 2, 5.0, "127.0.0.1")
