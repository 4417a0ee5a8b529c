# SPDX-License-Identifier: BSD-2-Clause
"""Tensors of a GPU, where there is one, and of the CPU: copies, collectives and trainings of two ranks.

Gloo carries what is not compressed: NCCL takes one rank for each GPU.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from refusals import refused
from test_fsdp import HALF, fsdp1, fsdp2
from test_layers import gradiveq
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import ShardingStrategy
from torch_ranks import SMALL_BUCKETS, Ranks, model, trained

from inceptionn import Codec
from inceptionn.codec import converted
from inceptionn.torch import (
    CompressedReduceScatter,
    CompressState,
    compress_hook,
    compressed,
    gradients_of,
    host_copy,
    parameters_of,
    set_parameters,
)
from inceptionn.torch.host_copy import SUMMED

N = 1 << 18
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


def trainings(device: str) -> dict[str, Any]:
    states = {
        "hook": CompressState(),
        "tensor": CompressState(scale="tensor"),
        "hierarchical": CompressState(algorithm="hierarchical", group_size=2),
        "paper": CompressState(codec=Codec(2**-12)),
    }
    return {
        "plain": trained(device=device),
        **{name: trained(state, device=device) for name, state in states.items()},
        "buckets": trained(CompressState(warm_up=3), device=device, **SMALL_BUCKETS),
        "fp16": trained(CompressState(), fp16_compress_wrapper(compress_hook), device=device),
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


def findings(device: str) -> dict[str, Any]:
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
    }


Found = list[dict[str, Any]]
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_values_come_and_go(device: str, dtype: str) -> None:
    tensor = torch.arange(1000, device=device).to(getattr(torch, dtype)).reshape(10, 100)
    copy = host_copy.HostCopy(tensor)
    expected = tensor.float().cpu().clone()
    found = copy.array
    patterns = found.dtype == np.uint16  # bfloat16
    assert (converted(found, patterns=patterns) == expected.numpy()).all()
    after = (expected + 1).to(tensor.dtype)
    found[:] = after.view(torch.int16).numpy().view(np.uint16) if patterns else after.numpy()
    copy.store()
    copy.join()
    assert torch.equal(tensor.cpu(), after)


def test_a_float32_tensor_of_the_cpu_is_not_copied() -> None:
    tensor = torch.zeros(8)
    host_copy.HostCopy(tensor).array[:] = 1
    assert tensor.sum() == 8


def test_a_part_of_a_tensor_comes_back() -> None:
    tensor = torch.zeros(4, 6)
    copy = host_copy.HostCopy(tensor[:, ::2])
    copy.array[:] = 1
    copy.store()
    assert tensor.sum() == 12
    assert tensor[:, 1::2].sum() == 0


@pytest.mark.parametrize("device", DEVICES)
def test_a_future_has_the_result_or_raises(device: str) -> None:
    tensor = torch.ones(1000, device=device)
    assert not (tensor == 7).all()  # a kernel's first launch may wait for the device
    copy = host_copy.HostCopy(tensor)
    result: Future[Any] = Future()
    future = host_copy.future_of(result, [copy], lambda: tensor)
    copy.array[:] = 7
    if device == "cuda":  # the result arrives half a second later than it is known
        with torch.cuda.stream(host_copy._stream(tensor.device, True)):
            torch.cuda._sleep(1 << 30)
    copy.store()
    result.set_result(None)
    assert (future.wait() == 7).all()
    failed: Future[Any] = Future()
    future = host_copy.future_of(failed, [copy], lambda: tensor)
    failed.set_exception(ConnectionError("rank 3 is lost"))
    refused(RuntimeError, "ConnectionError: rank 3 is lost", future.wait)


def test_integers_are_refused() -> None:
    said = r"must be dense and of a floating-point or complex type, not torch\.int64"
    refused(TypeError, said, host_copy.HostCopy, torch.zeros(3, dtype=torch.int64))


@pytest.fixture(scope="module", params=DEVICES)
def ranks(request: pytest.FixtureRequest, gloo: Ranks) -> Found:
    return gloo(findings, request.param)


def test_tensors_of_a_device_get_the_bits_of_the_cpus(ranks: Found) -> None:
    for rank in ranks:
        assert len(rank["same bits"]) == 4
        assert all(rank["same bits"].values())


def test_a_sum_is_in_the_order_of_the_callers_stream(ranks: Found) -> None:
    assert all(rank["in order"] for rank in ranks)


def test_a_device_computes_while_a_sum_lacks_a_rank(ranks: Found) -> None:
    assert [rank["meanwhile"] for rank in ranks] == [1 << 18, 0]


@pytest.mark.parametrize("name", ["hook", "buckets", "tensor", "hierarchical", "paper", "fp16"])
def test_trains_on_a_device_as_plain_ddp(ranks: Found, name: str) -> None:
    plain, found = ranks[0]["trained"]["plain"], ranks[0]["trained"][name]
    assert len({rank["trained"][name]["weights"] for rank in ranks}) == 1
    assert found["weights"] != plain["weights"]
    assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)


@pytest.mark.parametrize("name", ["1", "2", "2 bf16"])
def test_fsdp_trains_on_a_device_as_without_compression(ranks: Found, name: str) -> None:
    for rank in ranks:
        assert rank["fsdp"][name]["compressed"] >= 20
        assert rank["fsdp"][name]["loss"] == pytest.approx(rank["fsdp"]["2 plain"]["loss"], rel=0.02)


@pytest.mark.parametrize("device", DEVICES)
def test_gradiveq_takes_a_devices_gradients(gloo: Ranks, device: str) -> None:
    gloo(gradiveq, device)


def test_a_modules_values_come_and_go_by_name(ranks: Found) -> None:
    assert [rank["by name"] for rank in ranks] == [0, 0]
