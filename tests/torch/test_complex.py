# SPDX-License-Identifier: BSD-2-Clause
"""Complex parameters and tensors: every lane is averaged, in processes of torch."""

from collections.abc import Callable
from typing import Any

import pytest

RANKS, LONG = 2, 8192
LENGTHS = {
    "one": [LONG],
    "two": [LONG, LONG],
    "warm-up": [LONG],
    "complex32": [LONG, LONG],
    "complex128": [LONG, LONG],
    "left out": [LONG, 100, LONG],
    "by tensor": [LONG, 0, LONG],
}
"""Of the complex parameters of each module."""


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return ranks_of("complex_ranks.py", RANKS)


@pytest.mark.parametrize("name", [*LENGTHS, "mixed"])
def test_every_value_of_a_complex_parameter_is_averaged(ranks: list[dict[str, Any]], name: str) -> None:
    for rank in ranks:
        assert max(rank[name]["errors"]) < 0.02
        assert (rank[name]["compressed"] > 0) == (name != "warm-up")


@pytest.mark.parametrize("name", LENGTHS)
def test_statistics_and_residuals_count_both_parts(ranks: list[dict[str, Any]], name: str) -> None:
    lengths = LENGTHS[name]
    kept = [] if name == "warm-up" else [2 * length for length in lengths if length != 100]
    for rank in ranks:
        assert rank[name]["values"] == 2 * 2 * sum(lengths)
        assert rank[name]["residuals"] == sorted(kept)


def test_gradiveq_averages_both_parts(ranks: list[dict[str, Any]]) -> None:
    assert max(max(rank["gradiveq"]) for rank in ranks) < 0.02


def test_fsdp2_compresses_complex_gradients(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["fsdp2"]["error"] < 0.02
        assert rank["fsdp2"]["compressed"] == 1


def test_groups_take_values_wherever_they_lie(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        found = dict(rank["collectives"])
        assert found.pop("compressed") == len(found) - len(["empty", "complex, empty", "replicas"])
        assert max(found.values()) < 0.02, found


def test_a_bucket_of_another_size_than_its_parameters_is_refused(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        for text in rank["wrong sizes"]:
            assert f"bucket 0 has {LONG - 1} values, its parameters have {LONG}" in text
