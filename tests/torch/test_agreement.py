# SPDX-License-Identifier: BSD-2-Clause
"""Ranks that would send a bucket in different ways are told so, and wrong settings are refused early."""

from collections.abc import Callable
from typing import Any

import pytest

RANKS = 2


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return ranks_of("agreement_ranks.py", RANKS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("step", "MismatchError: step differs: rank 0 has 6, rank 1 has 2"),
        ("late step", "MismatchError: step differs: rank 0 has 6, rank 1 has 5"),
        ("warm_up", "MismatchError: warm_up differs: rank 0 has 0, rank 1 has 1"),
        ("smallest", "MismatchError: smallest differs: rank 0 has 1, rank 1 has 1073741824"),
        ("backend", "MismatchError: warm_up differs: rank 0 has 0, rank 1 has 1"),
    ],
)
def test_what_decides_on_raw_buckets_is_agreed_on(ranks: list[dict[str, Any]], name: str, text: str) -> None:
    for rank in ranks:
        assert rank[name].endswith(text)  # in DDP's words, where DDP raises it


def test_a_residual_of_another_module_is_refused_at_all_ranks(ranks: list[dict[str, Any]]) -> None:
    text = "ValueError: the residual of parameter 0 has 5 values, the parameter has "
    assert text in ranks[1]["residual"]
    assert "MismatchError: rank 1 cannot take part: " + text in ranks[0]["residual"]
    for rank in ranks:
        assert rank["loaded again"].startswith(text)
        assert rank["no tensor"] == "ValueError: the residual of parameter 0 must be a tensor, not [1.0]"
        assert rank["not flat"] == "ValueError: the residual of parameter 0 must be flat, not of shape (5, 2)"


def test_an_error_of_a_schedule_is_raised_at_all_ranks(ranks: list[dict[str, Any]]) -> None:
    text = "LookupError: no bound for step 1"
    assert ranks[1]["schedule"].endswith(text)
    assert ranks[0]["schedule"].endswith("MismatchError: rank 1 cannot take part: " + text)


@pytest.mark.parametrize(
    "name",
    [
        "fsdp_hook",
        "fsdp_hook, sharded",
        "reduce-scatter",
        "all-reduce of replicas",
        "backend's all-reduce",
        "backend's reduce-scatter",
        "backend's all-gather",
    ],
)
def test_an_error_of_a_schedule_is_raised_by_every_interface(ranks: list[dict[str, Any]], name: str) -> None:
    """In the second of three steps; the ranks then go on."""
    text = "LookupError: no bound for step 1"
    assert ranks[1]["schedules"][name] == ["nothing", text, "nothing"]
    other = "MismatchError: rank 1 cannot take part: " + text
    assert ranks[0]["schedules"][name] == ["nothing", other, "nothing"]


def test_a_state_serves_one_module(ranks: list[dict[str, Any]]) -> None:
    text = "ValueError: this CompressState serves another module, whose step is "
    for rank in ranks:
        assert text + "2: a DDP module needs a state of its own" in rank["shared"]["in turn"]
        assert text in rank["shared"]["at once"]
        assert rank["shared"]["step"] == 4


def test_wrong_settings_are_refused_at_construction(ranks: list[dict[str, Any]]) -> None:
    algorithms = "ValueError: algorithm must be one of ring, hierarchical, worker_aggregator, not "
    for rank in ranks:
        assert rank["construction"] == [
            algorithms + "'tree'",
            algorithms + "'paper_baseline'",
            "ValueError: path must be one of auto, nic, software, off, not 'fast'",
            "ValueError: group_size must be 1..2 of the 2 ranks, not 3",
            "ValueError: group_size must be 1..2 of the 2 ranks, not 0",
            "TypeError: group_size must be an integer, not 1.5",
            "ValueError: scale must be None, 'auto', 'tensor' or -126..126, not 200",
        ]
        assert rank["backend algorithm"] == (
            "ValueError: algorithm must be one of ring, hierarchical, not 'worker_aggregator'"
        )


def test_the_group_goes_on(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert all(rank["compressed"] > 0 for rank in ranks)
