# SPDX-License-Identifier: BSD-2-Clause
"""FSDP1 and FSDP2 with compressed gradients, in processes of torch."""

from collections.abc import Callable
from typing import Any

import pytest

Ranks = list[dict[str, Any]]
PLAIN = {
    "1 FULL_SHARD": "1 FULL_SHARD plain",
    "1 NO_SHARD": "1 NO_SHARD plain",
    "2": "2 plain",
    "2 replicas": "2 plain",
    "2 backend": "2 plain",
    "2 bf16": "2 bf16 plain",
    "2 bf16 backend": "2 bf16 plain",
}


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., Ranks]) -> Ranks:
    return ranks_of("fsdp_ranks.py", 2)


@pytest.mark.parametrize("name", PLAIN)
def test_trains_as_without_compression(ranks: Ranks, name: str) -> None:
    for rank in ranks:
        assert rank[name]["compressed"] >= 20  # at least one for each step
        assert rank[name]["counted"] == [rank[name]["compressed"], rank[name]["raw"]]
        assert rank[name]["ratio"] > 1.5
        assert rank[name]["loss"] != rank[PLAIN[name]]["loss"]
        assert rank[name]["loss"] == pytest.approx(rank[PLAIN[name]]["loss"], rel=0.02)


def test_small_gradients_travel_raw(ranks: Ranks) -> None:
    assert ranks[0]["2"]["raw"] == 20  # the last layer, in each step


def test_fsdp2_reduces_in_bfloat16(ranks: Ranks) -> None:
    assert ranks[0]["2 bf16 types"] == ["torch.bfloat16"]
    assert ranks[0]["2 bf16 plain"]["loss"] != ranks[0]["2 plain"]["loss"]


def test_error_feedback_is_refused(ranks: Ranks) -> None:
    assert ranks[0]["feedback"].startswith("error_feedback needs DDP's hook")
