# SPDX-License-Identifier: BSD-2-Clause
"""Complex parameters and tensors: every lane is averaged, in processes of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch_ranks import Ranks, hooked, said

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


def error_of(part: torch.Tensor, factor: float, gradient: torch.Tensor | None = None) -> float:
    """Return how far a gradient is from the mean of all ranks' ones."""
    found = lanes_of(part.grad if gradient is None else gradient).double()
    return difference(found, 2 * factor * lanes_of(part.detach()).double())


def of_ddp(name: str) -> None:
    """Two backward passes at a module whose gradients differ at the ranks by a factor."""
    kinds, settings = MODULES[name]
    module = Squares(kinds)
    state = CompressState(module=module, **settings)
    ddp = hooked(module, state)
    for _ in range(2):
        ddp.zero_grad()
        ddp(torch.tensor(1.0 + dist.get_rank())).backward()
    assert max(error_of(part, 1.5) for part in module.parts) < 0.02
    assert (state.compressed > 0) == (name != "warm-up")
    kept = state.state_dict()["residuals"]
    CompressState(module=module, **settings).load_state_dict(state.state_dict())
    lanes = [count * (2 if kind.is_complex else 1) for count, kind in kinds]
    assert state.statistics().values == 2 * sum(lanes)
    sizes = [] if name == "warm-up" else [each for each in lanes if each != 200]
    assert sorted(values.numel() for values in kept.values()) == sorted(sizes)


def of_gradiveq() -> None:
    module = Squares([(LONG, torch.complex64)] * 2)
    module.parts.append(torch.ones(8, 4, 3, 3))  # something for GradiVeQ to compress
    ddp = hooked(module, GradiVeQState(), gradiveq_hook)
    ddp(torch.tensor(1.0 + dist.get_rank())).backward()
    assert max(error_of(part, 1.5) for part in list(module.parts)[:2]) < 0.02


def of_fsdp2() -> None:
    module = fully_shard(Squares([(LONG, torch.complex64)]))
    state = CompressState()
    module.set_custom_reduce_scatter(CompressedReduceScatter(state))
    module(torch.tensor(1.0 + dist.get_rank())).backward()
    (part,) = module.parts
    shard = part.grad.to_local()
    own = Squares.start(LONG, torch.complex64).chunk(dist.get_world_size())[dist.get_rank()]
    assert error_of(own, 1.5, shard) < 0.02
    assert state.compressed == 1


def of_collectives() -> None:
    """Sum values in a compressed group, however their memory lies."""
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
    assert max(found.values()) < 0.02, found
    assert state.compressed == len(found) - len(["empty", "complex, empty", "replicas"])


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max()) if found.numel() else 0.0


def cut(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Lose a bucket's last value before the hook sees it."""
    bucket.set_buffer(bucket.buffer()[:-1])
    return (gradiveq_hook if isinstance(state, GradiVeQState) else compress_hook)(state, bucket)


def of_wrong_sizes() -> None:
    for state in (CompressState(), CompressState(warm_up=3), GradiVeQState()):
        ddp = hooked(Squares([(LONG, torch.float32)]), state, cut)
        text = said(lambda ddp=ddp: ddp(torch.ones(())).backward())
        assert f"bucket 0 has {LONG - 1} values, its parameters have {LONG}" in text


@pytest.mark.parametrize("name", MODULES)
def test_every_value_of_a_complex_parameter_is_averaged_and_counted(gloo: Ranks, name: str) -> None:
    gloo(of_ddp, name)


@pytest.mark.parametrize("found", [of_gradiveq, of_fsdp2, of_collectives, of_wrong_sizes])
def test_values_that_are_complex_or_lie_elsewhere(gloo: Ranks, found: Callable[[], None]) -> None:
    """In GradiVeQ, FSDP2 and groups; buckets of another size than their parameters are refused."""
    gloo(found)
