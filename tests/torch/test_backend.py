# SPDX-License-Identifier: BSD-2-Clause
"""The backend "inceptionn", in processes of torch."""

from collections.abc import Callable
from typing import Any

import pytest

Ranks = list[dict[str, Any]]
SUMMED = ["sum", "mean", "block", "block of lists", "functional", "functional block"]
HALVES = ["torch.bfloat16", "torch.float16"]
ERROR = 2 * 2**-10 / 2**3
"""Two compressions at 2**-10; the values, below 2**-4, and their sum below 2**-3 are scaled by 2**3."""


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., Ranks]) -> Ranks:
    return ranks_of("backend_ranks.py", 2)


@pytest.mark.parametrize("group", ["exact", "exact in it"])
def test_what_is_no_gradient_stays_exact(ranks: Ranks, group: str) -> None:
    """Broadcasts, integers, maxima, gathers and small tensors, in a compressed group too."""
    for rank in ranks:
        found = dict(rank[group])
        assert found.pop("objects") is True
        assert not any(found.values()), found
        assert rank["exact calls"] == 0


def test_nothing_is_compressed_unless_asked_for(ranks: Ranks) -> None:
    for rank in ranks:
        assert rank["backend"] == "cpu:inceptionn,cuda:nccl"
        assert not any(rank["reductions, exact"][name] for name in [*SUMMED, "gathered"])


@pytest.mark.parametrize("group", ["reductions", "mesh"])
def test_sums_and_means_in_a_compressed_group(ranks: Ranks, group: str) -> None:
    for rank in ranks:
        for name in SUMMED:
            assert 0 < rank[group][name] <= ERROR, name
        assert rank[group]["mean, not of the sum"] == 0
        for half in HALVES:
            assert 0 < rank[group][half] <= 2 * ERROR, half
        assert rank[group]["gathered"] == 0
        assert rank["compressed"] == len([*SUMMED, "of other ranks", *HALVES])


def test_sums_with_planes_do_not_depend_on_who_has_which_values(ranks: Ranks) -> None:
    """Those of the paper's codec do: the group of the first test has it, the mesh has the default."""
    for rank in ranks:
        assert rank["mesh"]["of other ranks"] == 0
        assert rank["reductions"]["of other ranks"] > 0


def test_all_gather_is_compressed_on_request(ranks: Ranks) -> None:
    for rank in ranks:
        assert 0 < rank["gathered"] <= ERROR


def test_ddp_without_a_hook_in_a_compressed_group(ranks: Ranks) -> None:
    plain, found = ranks[0]["plain"], ranks[0]["ddp"]
    assert len({rank["ddp"]["weights"] for rank in ranks}) == 1
    assert found["weights"] != plain["weights"]
    assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)
    assert 0 < ranks[0]["sent"] < 30 * 37_896 * 4 / 2


def test_groups_of_other_backends_are_refused(ranks: Ranks) -> None:
    assert ranks[0]["gloo"] == "the group must be made with backend='inceptionn', not ProcessGroup"


def test_calls_to_gloo_release_the_interpreters_lock() -> None:
    """Those that C++ would make itself, with the lock held, which gloo's threads may be waiting for."""
    backend = pytest.importorskip("inceptionn.torch.backend")
    names = "allgather allreduce allreduce_coalesced all_gather_single_coalesced all_to_all_single barrier"
    names += " broadcast recv reduce_scatter reduce_scatter_single_coalesced send"
    assert not [name for name in names.split() if name not in vars(backend.InceptionnProcessGroup)]
