# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_complex`: gradients of complex parameters, and what else is no plain array."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from inceptionn.torch import (
    CompressedReduceScatter,
    CompressState,
    GradiVeQState,
    all_reduce_hook,
    compress_hook,
    compressed,
    gradiveq_hook,
)

LONG = 8192
MODULES: dict[str, tuple[list[tuple[int, torch.dtype]], dict[str, Any]]] = {
    "one": ([(LONG, torch.complex64)], {}),
    "two": ([(LONG, torch.complex64)] * 2, {}),
    "warm-up": ([(LONG, torch.complex64)], {"warm_up": 5}),
    "complex32": ([(LONG, torch.complex32)] * 2, {}),
    "complex128": ([(LONG, torch.complex128)] * 2, {}),
    "mixed": (
        [(LONG, torch.complex64), (LONG, torch.float32), (LONG, torch.float64), (0, torch.complex64)], {}
    ),
    "left out": ([(LONG, torch.complex64), (100, torch.complex64), (LONG, torch.complex64)],
                 {"leave_out": ("parts.1",)}),
    "by tensor": ([(LONG, torch.complex64), (0, torch.complex64), (LONG, torch.complex64)],
                  {"scale": "tensor"}),
}  # fmt: skip


class Squares(torch.nn.Module):
    """Parameters of some lengths and types; the loss is a factor times the sum of their parts' squares."""

    def __init__(self, kinds: list[tuple[int, torch.dtype]]) -> None:
        super().__init__()
        self.parts = torch.nn.ParameterList([self.start(*kind) for kind in kinds])

    @staticmethod
    def start(count: int, dtype: torch.dtype) -> torch.Tensor:
        values = torch.linspace(1, 2, count)
        return (torch.complex(values, -values) if dtype.is_complex else values).to(dtype)

    def forward(self, factor: torch.Tensor) -> torch.Tensor:
        return sum((factor * lanes_of(part).double().square().sum() for part in self.parts), torch.zeros(()))


def lanes_of(values: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(values) if values.is_complex() else values


def hooked(module: torch.nn.Module, state: Any, hook: Any = compress_hook) -> DistributedDataParallel:
    ddp = DistributedDataParallel(module)
    ddp.register_comm_hook(state, hook)
    return ddp


def error_of(part: torch.Tensor, factor: float, gradient: torch.Tensor | None = None) -> float:
    """Return how far a gradient is from the mean of all ranks' ones."""
    found = lanes_of(part.grad if gradient is None else gradient).double()
    return difference(found, 2 * factor * lanes_of(part.detach()).double())


def of_ddp(kinds: list[tuple[int, torch.dtype]], settings: dict[str, Any]) -> dict[str, Any]:
    """Two backward passes at a module whose gradients differ at the ranks by a factor."""
    module = Squares(kinds)
    state = CompressState(module=module, **settings)
    ddp = hooked(module, state)
    for _ in range(2):
        ddp.zero_grad()
        ddp(torch.tensor(1.0 + dist.get_rank())).backward()
    kept = state.state_dict()["residuals"]
    CompressState(module=module, **settings).load_state_dict(state.state_dict())
    return {
        "errors": [error_of(part, 1.5) for part in module.parts],
        "residuals": sorted(values.numel() for values in kept.values()),
        "values": state.statistics().values,
        "compressed": state.compressed,
    }


def of_gradiveq() -> list[float]:
    module = Squares([(LONG, torch.complex64)] * 2)
    module.parts.append(torch.ones(8, 4, 3, 3))  # something for GradiVeQ to compress
    ddp = hooked(module, GradiVeQState(), gradiveq_hook)
    ddp(torch.tensor(1.0 + dist.get_rank())).backward()
    return [error_of(part, 1.5) for part in module.parts][:2]


def of_fsdp2() -> dict[str, Any]:
    module = fully_shard(Squares([(LONG, torch.complex64)]))
    state = CompressState()
    module.set_custom_reduce_scatter(CompressedReduceScatter(state))
    module(torch.tensor(1.0 + dist.get_rank())).backward()
    (part,) = module.parts
    shard = part.grad.to_local()
    own = Squares.start(LONG, torch.complex64).chunk(dist.get_world_size())[dist.get_rank()]
    return {"error": error_of(own, 1.5, shard), "compressed": state.compressed}


def of_collectives() -> dict[str, float]:
    """Return how far results in a compressed group are from the sum, by how their memory lies."""
    group = dist.new_group(backend="inceptionn")
    state = compressed(group, smallest=0)
    rank = dist.get_rank()
    values = torch.linspace(1, 2, 4096)
    pair = torch.complex(values, -values)
    given: dict[str, torch.Tensor] = {
        "complex": pair.clone(),
        "complex128": pair.to(torch.complex128),
        "transposed": pair.reshape(64, 64).clone().t(),
        "every second": torch.stack([pair, pair], 1)[:, 0],
        "negated": torch._neg_view(values.clone()),
        "empty": torch.zeros(0),
        "complex, empty": torch.zeros(3, 0, dtype=torch.complex64),
    }
    found = {}
    for name, tensor in given.items():
        expected = 3 * tensor.resolve_neg()
        tensor *= 1 + rank
        dist.all_reduce(tensor, group=group)
        found[name] = difference(tensor, expected)
    blocks = {
        "block": lambda out, into: dist.reduce_scatter_tensor(out, into, group=group),
        "block of lists": lambda out, into: dist.reduce_scatter(out, list(into.chunk(2)), group=group),
        "block of conjugates": lambda out, into: dist.reduce_scatter_tensor(
            out.conj(), into.conj(), group=group
        ),
    }
    for name, call in blocks.items():
        out = torch.zeros(2048, dtype=torch.complex64)
        call(out, pair * (1 + rank))
        found[name] = difference(out, 3 * pair.chunk(2)[rank])
    hook = all_reduce_hook(CompressState(smallest=0))
    replicas = pair * (1 + rank)
    hook(replicas)
    found["replicas"] = difference(replicas, 1.5 * pair)
    return {**found, "compressed": state.compressed}


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max()) if found.numel() else 0.0


def cut(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Lose a bucket's last value before the hook sees it."""
    bucket.set_buffer(bucket.buffer()[:-1])
    return (gradiveq_hook if isinstance(state, GradiVeQState) else compress_hook)(state, bucket)


def said(call: Callable[[], Any]) -> str:
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "nothing"


def of_wrong_sizes() -> list[str]:
    found = []
    for state in (CompressState(), CompressState(warm_up=3), GradiVeQState()):
        ddp = hooked(Squares([(LONG, torch.float32)]), state, cut)
        found.append(said(lambda ddp=ddp: ddp(torch.ones(())).backward()))
    return found


def main() -> dict[str, Any]:
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    found: dict[str, Any] = {name: of_ddp(*arguments) for name, arguments in MODULES.items()}
    found["gradiveq"] = of_gradiveq()
    found["fsdp2"] = of_fsdp2()
    found["collectives"] = of_collectives()
    found["wrong sizes"] = of_wrong_sizes()
    return found
