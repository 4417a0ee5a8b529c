# SPDX-License-Identifier: BSD-2-Clause
"""The backend "inceptionn", in processes of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch_ranks import ALL_GATHER, Ranks, said, trained

from inceptionn import Codec
from inceptionn.torch import CompressState, compressed
from inceptionn.torch.backend import InceptionnProcessGroup
from inceptionn.torch.fsdp import REDUCE_SCATTER
from inceptionn.torch.link import link_of

Found = list[dict[str, Any]]
# The second one is its name before torch 2.13.
FUNCTIONAL = getattr(functional, "reduce_scatter_single", None) or functional.reduce_scatter_tensor
N = 40_000
BOUND = 2**-10


def values(rank: int, count: int = N) -> torch.Tensor:
    random = torch.Generator().manual_seed(rank)
    return torch.randn(count, generator=random) * 0.01


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max())


def exact(group: Any) -> dict[str, Any]:
    """Errors of what must not be changed, in any group."""
    rank, size = dist.get_rank(), dist.get_world_size()
    loss, counted, sent = torch.tensor(rank + 0.1), torch.full((N,), rank), values(0)
    largest = values(rank)
    dist.all_reduce(loss, group=group)
    dist.all_reduce(counted, group=group)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    if rank:
        sent.zero_()
    dist.broadcast(sent, 0, group=group)
    parts = [torch.empty(N) for _ in range(size)]
    dist.all_gather(parts, values(rank), group=group)
    dist.barrier(group=group)
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank}, group=group)
    return {
        "loss": error(loss, torch.tensor(sum(r + 0.1 for r in range(size)))),
        "integers": error(counted, torch.full((N,), sum(range(size)))),
        "maximum": error(largest, torch.stack([values(r) for r in range(size)]).amax(dim=0)),
        "broadcast": error(sent, values(0)),
        "gathered": error(torch.cat(parts), torch.cat([values(r) for r in range(size)])),
        "objects": [said["rank"] for said in objects] == list(range(size)),
    }


def reductions(group: Any) -> dict[str, float]:
    """Largest errors of sums and means of all kinds."""
    rank, size = dist.get_rank(), dist.get_world_size()
    total = sum((values(r) for r in range(size)), torch.zeros(N))
    block = slice(rank * N // size, (rank + 1) * N // size)
    found = {}
    tensor = values(rank)
    dist.all_reduce(tensor, group=group)
    found["sum"] = error(tensor, total)
    moved = values((rank + 1) % size)
    dist.all_reduce(moved, group=group)
    found["of other ranks"] = error(moved, tensor)
    mean = values(rank)
    work = dist.all_reduce(mean, op=dist.ReduceOp.AVG, group=group, async_op=True)
    work.wait()
    found["mean"] = error(mean, total / size)
    found["mean, not of the sum"] = error(mean, tensor / size)
    out = torch.empty(N // size)
    REDUCE_SCATTER(out, values(rank), group=group)
    found["block"] = error(out, total[block])
    dist.reduce_scatter(out, list(values(rank).chunk(size)), op=dist.ReduceOp.AVG, group=group)
    found["block of lists"] = error(out, (total / size)[block])
    whole = torch.empty(N * size)
    ALL_GATHER(whole, values(rank), group=group)
    found["gathered"] = error(whole, torch.cat([values(r) for r in range(size)]))
    for dtype in (torch.bfloat16, torch.float16):
        half = values(rank).to(dtype)
        dist.all_reduce(half, group=group)
        found[str(half.dtype)] = error(half.float(), total)
    found["functional"] = error(functional.all_reduce(values(rank), "sum", group) + 0, total)
    scattered = FUNCTIONAL(values(rank), "avg", 0, group) + 0
    found["functional block"] = error(scattered, (total / size)[block])
    return found


def findings() -> dict[str, Any]:
    group = dist.new_group(backend="inceptionn")
    found: dict[str, Any] = {
        "backend": dist.get_backend(),
        "exact": exact(dist.group.WORLD),
        "reductions, exact": reductions(dist.group.WORLD),
        "plain": trained(),
    }
    found["gloo"] = said(lambda: compressed(dist.new_group(backend="gloo")))
    state = compressed(group, Codec(BOUND))
    transport = link_of(group).transport
    found["reductions"] = reductions(group)
    found["compressed"] = state.compressed
    found["exact in it"] = exact(group)
    found["exact calls"] = state.compressed - found["compressed"]
    sent = transport.bytes_sent
    found["ddp"] = trained(process_group=group)
    found["sent"] = transport.bytes_sent - sent
    compressed(group, all_gather=True)
    found["gathered"] = reductions(group)["gathered"]
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    compressed(mesh.get_group("dp"))
    found["mesh"] = reductions(mesh.get_group("dp"))
    return found


SUMMED = ["sum", "mean", "block", "block of lists", "functional", "functional block"]
HALVES = ["torch.bfloat16", "torch.float16"]
ERROR = 2 * 2**-10 / 2**3
"""Two compressions at 2**-10; the values, below 2**-4, and their sum below 2**-3 are scaled by 2**3."""


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., Ranks]) -> Found:
    return ranks_of(2, "cpu:inceptionn,cuda:nccl")(findings)


@pytest.mark.parametrize("group", ["exact", "exact in it"])
def test_what_is_no_gradient_stays_exact(ranks: Found, group: str) -> None:
    """Broadcasts, integers, maxima, gathers and small tensors, in a compressed group too."""
    for rank in ranks:
        found = dict(rank[group])
        assert found.pop("objects") is True
        assert not any(found.values()), found
        assert rank["exact calls"] == 0


def test_nothing_is_compressed_unless_asked_for(ranks: Found) -> None:
    for rank in ranks:
        assert rank["backend"] == "cpu:inceptionn,cuda:nccl"
        assert not any(rank["reductions, exact"][name] for name in [*SUMMED, "gathered"])


@pytest.mark.parametrize("group", ["reductions", "mesh"])
def test_sums_and_means_in_a_compressed_group(ranks: Found, group: str) -> None:
    for rank in ranks:
        for name in SUMMED:
            assert 0 < rank[group][name] <= ERROR, name
        assert rank[group]["mean, not of the sum"] == 0
        for half in HALVES:
            assert 0 < rank[group][half] <= 2 * ERROR, half
        assert rank[group]["gathered"] == 0
        assert rank["compressed"] == len([*SUMMED, "of other ranks", *HALVES])


def test_sums_with_planes_do_not_depend_on_who_has_which_values(ranks: Found) -> None:
    """Those of the paper's codec do: the group of the first test has it, the mesh has the default."""
    for rank in ranks:
        assert rank["mesh"]["of other ranks"] == 0
        assert rank["reductions"]["of other ranks"] > 0


def test_all_gather_is_compressed_on_request(ranks: Found) -> None:
    for rank in ranks:
        assert 0 < rank["gathered"] <= ERROR


def test_ddp_without_a_hook_in_a_compressed_group(ranks: Found) -> None:
    plain, found = ranks[0]["plain"], ranks[0]["ddp"]
    assert len({rank["ddp"]["weights"] for rank in ranks}) == 1
    assert found["weights"] != plain["weights"]
    assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)
    assert 0 < ranks[0]["sent"] < 30 * 37_896 * 4 / 2


def test_groups_of_other_backends_are_refused(ranks: Found) -> None:
    assert ranks[0]["gloo"] == "TypeError: the group must be made with backend='inceptionn', not ProcessGroup"


def test_calls_to_gloo_release_the_interpreters_lock() -> None:
    """Those that C++ would make itself, with the lock held, which gloo's threads may be waiting for."""
    names = "allgather allreduce allreduce_coalesced all_gather_single_coalesced all_to_all_single barrier"
    names += " broadcast recv reduce_scatter reduce_scatter_single_coalesced send"
    assert not [name for name in names.split() if name not in vars(InceptionnProcessGroup)]


def alone() -> None:
    """Use hook and compressed group in a job of one rank, which needs nobody to meet."""
    plain, state = trained(), CompressState(codec=Codec(2**-14), error_feedback=True)
    assert trained(state)["loss"] == pytest.approx(plain["loss"], rel=0.05)
    assert state.compressed > 0
    group = dist.new_group(backend="inceptionn")
    compressed(group, Codec(2**-14))
    values = torch.linspace(-1, 1, 5000)
    dist.all_reduce(values, group=group)
    assert torch.allclose(values, torch.linspace(-1, 1, 5000), atol=2**-13)


def test_one_rank(ranks_of: Callable[..., Ranks]) -> None:
    ranks_of(1, "inceptionn")(alone)
