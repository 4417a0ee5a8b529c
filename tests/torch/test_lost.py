# SPDX-License-Identifier: BSD-2-Clause
"""A rank that dies or falls silent is an exception at all others, in time: no crash, no hang."""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_ranks import Ranks, model, said, sgd, steps

from inceptionn.torch import CompressState, compress_hook, compressed

RANKS, VICTIM, TIMEOUT = 3, 1, 4


def losing(way: str, fate: str) -> str:
    """Train and lose a rank; return what this one says.

    ``way`` is what carries the gradients ("hook", "backend", or "work": calls without DDP), ``fate`` what
    becomes of the victim ("killed", "silent").
    """
    patience = TIMEOUT if fate == "silent" else 120
    dist.init_process_group("inceptionn", timeout=timedelta(seconds=120))
    group = dist.new_group(timeout=timedelta(seconds=patience))
    ddp = DistributedDataParallel(model(), process_group=group)
    if way == "hook":
        ddp.register_comm_hook(CompressState(group), compress_hook)
    else:
        compressed(group)
    optimizer, tensor = sgd(ddp), torch.ones(100_000)

    def work(which: range) -> None:
        for _ in which if way == "work" else ():
            dist.all_reduce(tensor, group=group)
        if way != "work":
            steps(ddp, optimizer, which)

    work(range(3))
    dist.barrier()  # the others have what the victim sent
    if dist.get_rank() == VICTIM:
        if fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(30)
    return said(lambda: work(range(3, 10)))


def heard(ranks_of: Callable[..., Ranks], way: str, fate: str) -> list[str]:
    ranks = ranks_of(RANKS)
    found: list[str] = ranks(losing, way, fate, victim=VICTIM)
    ranks.kill()  # type: ignore[attr-defined]  # no farewell: the group is broken
    return found


@pytest.mark.parametrize("way", ["hook", "backend", "work"])
def test_a_killed_rank_is_named(ranks_of: Callable[..., Ranks], way: str) -> None:
    for text in heard(ranks_of, way, "killed"):
        assert "PeerLost" in text
        assert f"rank {VICTIM} is lost" in text
        assert text.startswith("PeerLost: " if way == "work" else "RuntimeError: ")


def test_a_silent_rank_is_named_in_torchs_time(ranks_of: Callable[..., Ranks]) -> None:
    for text in heard(ranks_of, "hook", "silent"):
        assert f"nothing from rank {VICTIM} for 4 s" in text
