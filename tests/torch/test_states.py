# SPDX-License-Identifier: BSD-2-Clause
"""States at modules that do not fit, copies of states, reports that fail, in processes of torch."""

from collections.abc import Callable
from typing import Any

import pytest

Ranks = list[dict[str, Any]]


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., Ranks]) -> Ranks:
    return ranks_of("states_ranks.py", 2)


@pytest.mark.parametrize("name", ["copy", "frozen copy", "replaced", "raw", "again"])
def test_a_module_that_is_not_the_wrapped_one_is_named(ranks: Ranks, name: str) -> None:
    """After the first step, also one that is sent raw; and again after it."""
    for rank in ranks:
        text = "leave_out: 0.bias was in no bucket of the first step; module must be the one that DDP wraps"
        assert text in rank["left out"][name]


def test_another_module_at_one_rank_ends_all_ranks(ranks: Ranks) -> None:
    text = "ValueError: leave_out: 0.bias was in no bucket"
    assert text in ranks[1]["left out"]["one rank"]
    assert f"MismatchError: rank 1 cannot take part: {text}" in ranks[0]["left out"]["one rank"]


def test_frozen_parameters_may_be_left_out(ranks: Ranks) -> None:
    assert {rank["left out"]["partly frozen"] for rank in ranks} == {"nothing"}


def test_sparse_gradients_travel_raw(ranks: Ranks) -> None:
    for rank in ranks:
        found = rank["sparse"]
        assert found["True"] == found["False"] == ranks[0]["sparse"]["True"]
        assert found["kept"] == [512, 512 * 16]
        sent = sum(size for path, size in found["parts"] if path == "torch")
        assert sent == 3 * 2 * (16 * 4 + 8)  # in each step two rows and their numbers, once
        assert found["gradiveq"].startswith("TypeError: GradiVeQ takes dense gradients alone")


def test_ddps_hooks_name_that_of_fsdp_and_their_state(ranks: Ranks) -> None:
    for rank in ranks:
        for hook, state in (("compress_hook", "CompressState"), ("gradiveq_hook", "GradiVeQState")):
            fsdps = f"TypeError: {hook} is for DDP: FSDP's register_comm_hook takes fsdp_hook"
            assert rank["hooks"][f"{hook} at FSDP"] == fsdps
            assert rank["hooks"][f"{hook} without a state"] == f"TypeError: {hook} needs a {state}, not None"


@pytest.mark.parametrize("way", ["pickled", "copied", "deeply"])
def test_a_copy_of_a_state_goes_on_as_a_loaded_one(ranks: Ranks, way: str) -> None:
    assert {rank["copies"][way] for rank in ranks} == {ranks[0]["copies"]["loaded"]}
    assert all(rank["gradiveq"] for rank in ranks)


def test_residuals_of_a_module_before_it_was_unfrozen_are_refused(ranks: Ranks) -> None:
    text = "the residuals are of a module with 4 trained parameters, this one has 6: load the state with "
    text += "residuals={}"
    for rank in ranks:
        found = rank["unfrozen"]
        assert "this CompressState serves another module" in found["same state"]
        assert text in found["loaded"]
        assert found["known"] == f"ValueError: {text}"
        assert found["without residuals"] == "nothing"


@pytest.mark.parametrize("name", ["compressed", "raw last"])
def test_a_full_disk_becomes_one_warning(ranks: Ranks, name: str) -> None:
    (said,) = ranks[0]["reports"][name]["said"]
    assert said.startswith("the curves of <")
    assert said.endswith("of compression end here: OSError: [Errno 28] No space left on device")
    assert ranks[0]["reports"][name]["calls"] == 1
    assert ranks[1]["reports"][name] == {"said": [], "calls": 0}
