# SPDX-License-Identifier: BSD-2-Clause
"""A rank that is lost in an outer step leaves the others as they were, and they go on in a new group."""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from test_diloco import digest, started, steps
from torch_ranks import Ranks, said, same

import inceptionn.collectives.allreduce
from inceptionn.torch.local_updates import exchange

RANKS, VICTIM, TIMEOUT = 3, 1, 4
PLACES = {"before the data": "all_reduce", "in the middle": "ring", "after the data": "agree"}
"""The functions in which the victim is lost."""


def die(*_: Any, **__: Any) -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def losing(place: str, delay: int, folder: str) -> tuple[str, float, bool, list[str], int]:
    """Train until rank 1 is lost in the third outer step, and go on without it.

    Return what is said, the seconds that it took, whether the state is that before, and the weights' digests.
    """
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    patience = timedelta(seconds=TIMEOUT if place == "silent" else 120)
    of = started(2, group=dist.new_group(timeout=patience), delay=delay)
    steps(of, range(5))
    dist.barrier()
    diloco, rank = of[2], dist.get_rank()
    before = diloco.state_dict()
    if rank == VICTIM:
        if place == "silent":
            time.sleep(40)
        where = inceptionn.collectives.allreduce if place == "in the middle" else exchange
        setattr(where, PLACES[place], die)
    begun = time.monotonic()
    text = said(lambda: steps(of, range(5, 6 + delay)))
    took = time.monotonic() - begun
    unchanged = same(diloco.state_dict()["fragments"], before["fragments"])
    dist.destroy_process_group()
    store, left = dist.FileStore(f"{folder}/store", RANKS - 1), min(rank, 1)
    dist.init_process_group("gloo", store=store, rank=left, world_size=RANKS - 1)
    diloco.regroup()
    found = [fragment.digest() for fragment in diloco._fragments]
    steps(of, range(6 + delay, 12))
    diloco.synchronize()
    return text, took, unchanged, [*found, digest(of[0])], diloco.steps


@pytest.mark.parametrize(
    ("place", "delay"), [*((place, 0) for place in PLACES), ("in the middle", 1), ("silent", 0)]
)
def test_the_others_go_on_with_equal_bits(
    ranks_of: Callable[..., Ranks], tmp_path: Path, place: str, delay: int
) -> None:
    ranks = ranks_of(RANKS)
    found = ranks(losing, place, delay, str(tmp_path), victim=VICTIM)
    ranks.kill()  # type: ignore[attr-defined]  # no farewell: the group is broken
    assert len(found) == RANKS - 1
    for text, took, unchanged, _, count in found:
        if place == "silent":
            assert f"nothing from rank {VICTIM} for {TIMEOUT} s" in text
        else:
            assert text.startswith(f"PeerLost: rank {VICTIM} is lost")
        assert took < TIMEOUT + 6
        assert unchanged
        assert count == 12
    assert found[0][3] == found[1][3]
