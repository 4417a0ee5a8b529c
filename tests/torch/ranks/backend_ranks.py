# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_backend`: process groups of the backend, exact and compressed."""

from typing import Any

import torch
import torch.distributed as dist
from ranks import trained
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

from inceptionn import Codec
from inceptionn.torch import compressed
from inceptionn.torch.fsdp import REDUCE_SCATTER
from inceptionn.torch.link import link_of

# The second ones are their names before torch 2.13.
ALL_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
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


def main() -> dict[str, Any]:
    dist.init_process_group("cpu:inceptionn,cuda:nccl")
    group = dist.new_group(backend="inceptionn")
    found: dict[str, Any] = {
        "backend": dist.get_backend(),
        "exact": exact(dist.group.WORLD),
        "reductions, exact": reductions(dist.group.WORLD),
        "plain": trained(lambda ddp: None),
    }
    try:
        compressed(dist.new_group(backend="gloo"))
    except TypeError as problem:
        found["gloo"] = str(problem)
    state = compressed(group, Codec(BOUND))
    transport = link_of(group).transport
    found["reductions"] = reductions(group)
    found["compressed"] = state.compressed
    found["exact in it"] = exact(group)
    found["exact calls"] = state.compressed - found["compressed"]
    sent = transport.bytes_sent
    found["ddp"] = trained(lambda ddp: None, process_group=group)
    found["sent"] = transport.bytes_sent - sent
    compressed(group, all_gather=True)
    found["gathered"] = reductions(group)["gathered"]
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    compressed(mesh.get_group("dp"))
    found["mesh"] = reductions(mesh.get_group("dp"))
    return found
