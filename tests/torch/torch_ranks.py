# SPDX-License-Identifier: BSD-2-Clause
"""What the ranks of several tests share: data, a model, a training, and what a call says."""

import io
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from inceptionn.torch import compress_hook

Ranks = Callable[..., list[Any]]
"""A fixture that runs a function at all ranks of a group; see `conftest.Ranks`."""
SMALL_BUCKETS = {"bucket_cap_mb": 0.05}
# The second one is its name before torch 2.13.
ALL_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
INPUTS, CLASSES, BATCH = 32, 8, 16
_random = torch.Generator().manual_seed(5)
_TEACHER = torch.randn(INPUTS, CLASSES, generator=_random)


def model() -> torch.nn.Sequential:
    """Return a perceptron of 3 layers, the same at all ranks: 38,504 values."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(INPUTS, 192), torch.nn.ReLU(), torch.nn.Linear(192, 160), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(160, CLASSES))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a rank's samples of a step, each with the class that a fixed linear map prefers."""
    random = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    inputs = torch.randn(BATCH, INPUTS, generator=random)
    return inputs, (inputs @ _TEACHER).argmax(dim=1)


def loss_of(module: Any, step: int = 0) -> torch.Tensor:
    """Return a module's loss of a step's samples, in the module's type and on its device."""
    of = next(module.parameters())
    inputs, labels = batch(step)
    return torch.nn.functional.cross_entropy(
        module(inputs.to(of.device, of.dtype)).float(), labels.to(of.device)
    )


def steps(module: Any, optimizer: torch.optim.Optimizer, which: range) -> float:
    """Trains; the loss of the last step."""
    loss = torch.zeros(())
    for step in which:
        optimizer.zero_grad()
        loss = loss_of(module, step)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def sgd(module: Any) -> torch.optim.Optimizer:
    """Return the optimizer of all trainings."""
    return torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)


def hooked(
    module: torch.nn.Module, state: Any, hook: Any = compress_hook, **options: Any
) -> DistributedDataParallel:
    """Return a module in DDP with a communication hook."""
    ddp = DistributedDataParallel(module, **options)
    ddp.register_comm_hook(state, hook)
    return ddp


def trained(
    state: Any = None,
    hook: Any = compress_hook,
    which: range = range(30),
    device: str = "cpu",
    **options: Any,
) -> dict[str, Any]:
    """Train with DDP from the beginning, without a hook if there is no state.

    Return the mean loss over the ranks, and the weights' digest.
    """
    module = model().to(device)
    ddp = DistributedDataParallel(module, **options)
    if state is not None:
        ddp.register_comm_hook(state, hook)
    loss = steps(ddp, sgd(ddp), which)
    return {"loss": mean_of(loss), "weights": digest(module)}


def mean_of(value: float) -> float:
    """Return the mean of a number over the ranks."""
    number = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(number)
    return float(number / dist.get_world_size())


def digest(module: torch.nn.Module) -> str:
    """Of all bits of a module's parameters."""
    return sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in module.parameters())).hexdigest()


def same(one: Any, other: Any) -> bool:
    """Tell whether two states are equal, bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def saved_and_loaded(state: Any, weights_only: bool = True) -> Any:
    """Return what `torch.load` makes of what `torch.save` wrote."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


def said(call: Callable[[], Any]) -> str:
    """Return the first line of a call's error, with its type, or "nothing"."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "nothing"
