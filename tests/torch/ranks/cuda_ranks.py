# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_cuda`: collectives and trainings of tensors on a device, the same one for all ranks.

Gloo carries what is not compressed: NCCL takes one rank for each GPU.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from fsdp_ranks import HALF, fsdp1, fsdp2
from layers_ranks import gradiveq
from ranks import model, trained
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import ShardingStrategy

from inceptionn import Codec
from inceptionn.torch import (
    CompressedReduceScatter,
    CompressState,
    compress_hook,
    compressed,
    gradients_of,
    parameters_of,
    set_parameters,
)
from inceptionn.torch.host_copy import SUMMED

N = 1 << 18
SMALL_BUCKETS = {"bucket_cap_mb": 0.05}
Reduction = Callable[[torch.Tensor], torch.Tensor]


def values(dtype: torch.dtype) -> torch.Tensor:
    random = torch.Generator().manual_seed(dist.get_rank())
    return (torch.randn(N, generator=random) * 0.01).to(dtype)


def synchronised(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def reduced(group: Any, tensor: torch.Tensor, op: Any) -> torch.Tensor:
    dist.all_reduce(tensor, op=op, group=group)
    return tensor


def scattered(state: CompressState, tensor: torch.Tensor, op: Any) -> torch.Tensor:
    """Reduce and scatter as FSDP2 does."""
    block = torch.empty(N // dist.get_world_size(), dtype=tensor.dtype, device=tensor.device)
    CompressedReduceScatter(state)(block, tensor, dist.group.WORLD, op)
    return block


def same_bits(device: str, reduction: Reduction) -> bool:
    """Whether a device's tensors of all types become what the CPU's become."""
    return all(
        torch.equal(
            *(reduction(values(dtype).to(place)).cpu().view(torch.uint8) for place in (device, "cpu"))
        )
        for dtype in SUMMED
    )


def in_order(device: str, group: Any) -> bool:
    """Reduce what is still being computed, and compute with the sum at once, on the device's own stream."""
    square = values(torch.float32).reshape(512, 512).to(device)
    for _ in range(1 if device == "cpu" else 200):  # a GPU is still busy when the sum is asked for
        square = square @ square
        square = square / square.norm()
    before = square.clone()
    work = dist.all_reduce(square, group=group, async_op=True)
    work.wait()
    twice = square * 2
    return torch.equal(twice.cpu(), reduced(group, before.cpu(), dist.ReduceOp.SUM) * 2)


def computes_meanwhile(device: str, group: Any) -> float:
    """Let rank 0's device finish later work while its sum still lacks the other ranks'."""
    found = torch.zeros(())
    if dist.get_rank():
        dist.barrier()
    work = dist.all_reduce(values(torch.float32).to(device), group=group, async_op=True)
    if not dist.get_rank():
        found = torch.ones(N, device=device).sum()
        synchronised(device)
        assert not work.is_completed()
        dist.barrier()
    work.wait()
    return float(found)


def hooked(device: str, hook: Any = compress_hook, state: Any = None, **options: Any) -> dict[str, Any]:
    state = CompressState() if state is None else state
    return trained(lambda ddp: ddp.register_comm_hook(state, hook), device=device, **options)


def trainings(device: str) -> dict[str, Any]:
    return {
        "plain": trained(lambda ddp: None, device=device),
        "hook": hooked(device),
        "buckets": hooked(device, state=CompressState(warm_up=3), **SMALL_BUCKETS),
        "tensor": hooked(device, state=CompressState(scale="tensor")),
        "hierarchical": hooked(device, state=CompressState(algorithm="hierarchical", group_size=2)),
        "paper": hooked(device, state=CompressState(codec=Codec(2**-12))),
        "fp16": hooked(device, fp16_compress_wrapper(compress_hook)),
    }


def fsdp(device: str) -> dict[str, Any]:
    mesh, found = init_device_mesh(device, (dist.get_world_size(),)), {}
    found["1"] = fsdp1(ShardingStrategy.FULL_SHARD, CompressState(smallest=2048), device)
    found["2 plain"] = fsdp2(mesh, lambda part: None, None)
    for name, policy in {"2": {}, "2 bf16": HALF}.items():
        state = CompressState(smallest=2048)
        scatter = CompressedReduceScatter(state)
        found[name] = fsdp2(
            mesh, lambda part, scatter=scatter: part.set_custom_reduce_scatter(scatter), state, **policy
        )
    return found


def by_name(device: str) -> float:
    """Return the largest error of a module's values that came to the host and went back."""
    module, other = model().to(device), model().to(device)
    set_parameters(other, {name: 2 * value for name, value in parameters_of(module).items()})
    sum(parameter.sum() for parameter in other.parameters()).backward()
    assert all((gradient == 1).all() for gradient in gradients_of(other).values())
    pairs = zip(module.parameters(), other.parameters(), strict=True)
    return max(float((2 * one - two).abs().max()) for one, two in pairs)


def main() -> dict[str, Any]:
    device = sys.argv[1]
    dist.init_process_group("gloo")
    group = dist.new_group(backend="inceptionn")
    state, scattering = compressed(group, Codec(2**-12, "planes")), CompressState()
    return {
        "same bits": {
            f"{name}, {op}": same_bits(device, reduction)
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG)
            for name, reduction in {
                "all-reduce": lambda tensor, op=op: reduced(group, tensor, op),
                "reduce-scatter": lambda tensor, op=op: scattered(scattering, tensor, op),
            }.items()
        },
        "in order": in_order(device, group),
        "meanwhile": computes_meanwhile(device, group),
        "compressed": state.compressed,
        "trained": trainings(device),
        "fsdp": fsdp(device),
        "by name": by_name(device),
        "gradiveq": gradiveq(device),
    }
