# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback of `compress_hook` after steps that a program has skipped."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return ranks_of("spikes_ranks.py", 2)


@pytest.mark.parametrize("name", ["1000", "1e+06", "by tensor", "paper"])
def test_the_step_after_a_spike_is_an_ordinary_one(ranks: list[dict[str, Any]], name: str) -> None:
    found, ordinary = ranks[0][name], ranks[0]["ordinary"]
    assert found[3] > 400 * ordinary[3]
    for step in (4, 6):
        assert found[step] == pytest.approx(ordinary[step], rel=0.1)


def test_so_is_the_one_after_an_infinity(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert not rank["scaled"]["kept"]
        assert rank["scaled"]["norms"][-1] == pytest.approx(ranks[0]["ordinary"][4], rel=0.1)


def test_residuals_can_be_forgotten(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["reset"]["found"] == [6, 0, 6, 0]


@pytest.mark.parametrize("scale", ["auto", "tensor"])
def test_a_saved_state_knows_what_a_spike_is(ranks: list[dict[str, Any]], scale: str) -> None:
    """So a resumed run has the bits of an uninterrupted one, also if its first step is a spike."""
    for rank in ranks:
        found = rank[f"resumed, {scale}"]
        assert found["going on"] == found["resumed"] != found["without scales"]
