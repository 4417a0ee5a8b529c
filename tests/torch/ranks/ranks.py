# SPDX-License-Identifier: BSD-2-Clause
"""What the programs of this folder share: data, a model, a training, and where to leave what they found."""

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

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


def steps(module: Any, optimizer: torch.optim.Optimizer, which: range) -> float:
    """Trains; the loss of the last step."""
    loss = torch.zeros(())
    device = next(module.parameters()).device
    for step in which:
        inputs, labels = (part.to(device) for part in batch(step))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(inputs), labels)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def sgd(module: Any) -> torch.optim.Optimizer:
    """Return the optimizer of all trainings."""
    return torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)


def trained(
    register: Callable[[DistributedDataParallel], None],
    which: range = range(30),
    device: str = "cpu",
    **options: Any,
) -> dict[str, Any]:
    """Train with DDP from the beginning; return the mean loss over the ranks, and the weights' digest."""
    module = model().to(device)
    ddp = DistributedDataParallel(module, **options)
    register(ddp)
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


def leave(found: dict[str, Any]) -> None:
    """Leaves what this rank has found for the test."""
    (Path(os.environ["REPORT"]) / f"{os.environ['RANK']}.json").write_text(json.dumps(found))
