# SPDX-License-Identifier: BSD-2-Clause
"""A rank that dies or falls silent is an exception at all others, in time: no crash, no hang."""

from collections.abc import Callable
from typing import Any

import pytest

RANKS, VICTIM = 3, 1


@pytest.mark.parametrize("way", ["hook", "backend", "work"])
def test_a_killed_rank_is_named(ranks_of: Callable[..., list[dict[str, Any]]], way: str) -> None:
    for found in ranks_of("lost_ranks.py", RANKS, way, "killed", str(VICTIM), victim=VICTIM):
        assert "PeerLost" in found["said"]
        assert f"rank {VICTIM} is lost" in found["said"]
        assert found["said"].startswith("PeerLost: " if way == "work" else "RuntimeError: ")


def test_a_silent_rank_is_named_in_torchs_time(ranks_of: Callable[..., list[dict[str, Any]]]) -> None:
    for found in ranks_of("lost_ranks.py", RANKS, "hook", "silent", str(VICTIM), victim=VICTIM):
        assert f"nothing from rank {VICTIM} for 4 s" in found["said"]
