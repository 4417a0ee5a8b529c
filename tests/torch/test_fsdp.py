# SPDX-License-Identifier: BSD-2-Clause
"""FSDP1 and FSDP2 with compressed gradients, in processes of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch_ranks import Ranks, mean_of, model, said, sgd, steps

from inceptionn.torch import CompressedReduceScatter, CompressState, all_reduce_hook, compressed, fsdp_hook

Found = list[dict[str, Any]]
STEPS = range(20)
HALF = {"reduce_dtype": torch.bfloat16}


def trained(module: Any, state: CompressState | None = None) -> dict[str, Any]:
    loss = steps(module, sgd(module), STEPS)
    found = {"loss": mean_of(loss)}
    if state is not None:
        counted = state.statistics()
        found |= {"compressed": state.compressed, "raw": state.raw}
        found |= {
            "counted": [counted.calls - counted.torch_calls, counted.torch_calls],
            "ratio": counted.ratio,
        }
    return found


def fsdp1(strategy: ShardingStrategy, state: CompressState | None, device: str = "cpu") -> dict[str, Any]:
    where = torch.device("cpu") if device == "cpu" else torch.cuda.current_device()
    module = FullyShardedDataParallel(model().to(device), sharding_strategy=strategy, device_id=where)
    if state is not None:
        module.register_comm_hook(state, fsdp_hook)
    return trained(module, state)


def fsdp2(
    mesh: Any, change: Callable[[Any], None], state: CompressState | None, **policy: torch.dtype
) -> dict[str, Any]:
    module = model().to(mesh.device_type)
    settings = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(**policy)}
    for layer in (module[0], module[2]):
        fully_shard(layer, **settings)
    fully_shard(module, **settings)
    for part in (module[0], module[2], module):
        change(part)
    return trained(module, state)


def reduce_in_16_bits(found: dict[str, Any], mesh: Any) -> None:
    """Train with gradients that FSDP2 reduces in bfloat16: raw, and compressed."""
    seen = set()

    class Seeing(CompressedReduceScatter):
        def __call__(
            self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, *rest: Any, **more: Any
        ) -> Any:
            seen.update((input_tensor.dtype, output_tensor.dtype))
            return super().__call__(output_tensor, input_tensor, *rest, **more)

    found["2 bf16 plain"] = fsdp2(mesh, lambda part: None, None, **HALF)
    state = CompressState(smallest=2048)
    scatter = Seeing(state)
    found["2 bf16"] = fsdp2(mesh, lambda part: part.set_custom_reduce_scatter(scatter), state, **HALF)
    found["2 bf16 types"] = [str(dtype) for dtype in seen]


def findings() -> dict[str, Any]:
    size = dist.get_world_size()
    found: dict[str, Any] = {}
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.NO_SHARD):
        found[f"1 {strategy.name} plain"] = fsdp1(strategy, None)
        found[f"1 {strategy.name}"] = fsdp1(strategy, CompressState(smallest=2048))
    mesh = init_device_mesh("cpu", (size,))
    found["2 plain"] = fsdp2(mesh, lambda part: None, None)
    state = CompressState(smallest=2048)
    found["2"] = fsdp2(
        mesh, lambda part: part.set_custom_reduce_scatter(CompressedReduceScatter(state)), state
    )
    # Each rank a host of its own: nothing is sharded, and replicas are on all ranks.
    alone = init_device_mesh("cpu", (size, 1), mesh_dim_names=("replicate", "shard"))
    state = CompressState(alone.get_group("replicate"), smallest=2048)
    hook = all_reduce_hook(state)
    found["2 replicas"] = fsdp2(alone["shard"], lambda part: part.set_all_reduce_hook(hook), state)
    reduce_in_16_bits(found, mesh)
    # The backend itself, without a hook; from here on, also in the default group.
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("gradients",))
    state = compressed(mesh.get_group(), smallest=2048)
    found["2 backend"] = fsdp2(mesh, lambda part: None, state)
    state = compressed(mesh.get_group(), smallest=2048)
    found["2 bf16 backend"] = fsdp2(mesh, lambda part: None, state, **HALF)
    found["feedback"] = said(lambda: CompressedReduceScatter(CompressState(error_feedback=True)))
    return found


PLAIN = {
    "1 FULL_SHARD": "1 FULL_SHARD plain",
    "1 NO_SHARD": "1 NO_SHARD plain",
    "2": "2 plain",
    "2 replicas": "2 plain",
    "2 backend": "2 plain",
    "2 bf16": "2 bf16 plain",
    "2 bf16 backend": "2 bf16 plain",
}


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., Ranks]) -> Found:
    """Return what is found in a group of its own, whose default group is compressed in the end."""
    return ranks_of(2, "inceptionn")(findings)


@pytest.mark.parametrize("name", PLAIN)
def test_trains_as_without_compression(ranks: Found, name: str) -> None:
    for rank in ranks:
        assert rank[name]["compressed"] >= 20  # at least one for each step
        assert rank[name]["counted"] == [rank[name]["compressed"], rank[name]["raw"]]
        assert rank[name]["ratio"] > 1.5
        assert rank[name]["loss"] != rank[PLAIN[name]]["loss"]
        assert rank[name]["loss"] == pytest.approx(rank[PLAIN[name]]["loss"], rel=0.02)


def test_small_gradients_travel_raw(ranks: Found) -> None:
    assert ranks[0]["2"]["raw"] == 20  # the last layer, in each step


def test_fsdp2_reduces_in_bfloat16(ranks: Found) -> None:
    assert ranks[0]["2 bf16 types"] == ["torch.bfloat16"]
    assert ranks[0]["2 bf16 plain"]["loss"] != ranks[0]["2 plain"]["loss"]


def test_error_feedback_is_refused(ranks: Found) -> None:
    assert ranks[0]["feedback"].startswith("ValueError: error_feedback needs DDP's hook")
