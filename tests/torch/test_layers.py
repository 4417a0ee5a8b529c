# SPDX-License-Identifier: BSD-2-Clause
"""The training layers on torch modules and optimizers, in processes of torch."""

from collections.abc import Callable
from typing import Any

import pytest

Ranks = list[dict[str, Any]]


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., Ranks]) -> Ranks:
    return ranks_of("layers_ranks.py", 2)


def test_a_parameter_server_with_torchs_sgd_trains_as_ddp(ranks: Ranks) -> None:
    assert ranks[0]["ps"]["weights"] == ranks[1]["ps"]["weights"]
    assert ranks[0]["ps"]["loss"] == pytest.approx(ranks[0]["plain"]["loss"], rel=1e-5)


@pytest.mark.parametrize("name", ["ps adam", "a2dtwp", "ssd"])
def test_other_layers_and_optimizers_train(ranks: Ranks, name: str) -> None:
    assert ranks[0][name]["loss"] < 2.079  # ln 8: nothing learnt


def test_a2dtwp_truncates_the_weights(ranks: Ranks) -> None:
    first = ranks[0]["a2dtwp"]["first"]
    assert first == ranks[1]["a2dtwp"]["first"]
    assert (first * 2**20).is_integer()  # 16 bits: 7 of the mantissa


def test_parallax_serves_an_embedding_and_sums_the_rest(ranks: Ranks) -> None:
    one, two = (rank["parallax"] for rank in ranks)
    assert one["weights"] == two["weights"]
    assert one["loss"] < 0.7 * one["first"]
    assert {"dense", "rows", "values", "gradients"} <= {*one["sent"], *two["sent"]}


def test_gradiveq_as_a_hook_goes_through_its_phases(ranks: Ranks) -> None:
    for rank in ranks:
        found = rank["gradiveq"]
        assert found["same"]
        assert found["finite"]
        assert found["step"] == 12
        assert 0 < found["counted"] == found["sent"]
        assert {"compressed", "sampling"} < set(found["phases"])


def test_optimizers_resume_to_the_same_bits(ranks: Ranks) -> None:
    assert ranks[0]["resumed"] == dict.fromkeys(["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"], True)
