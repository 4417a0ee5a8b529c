# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_spikes`: steps that a program does not apply, and the steps after them."""

import io
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from ranks import batch, digest, model, sgd
from torch.nn.parallel import DistributedDataParallel

from inceptionn.torch import CompressState, compress_hook

SMALL = {"bucket_cap_mb": 0.05}
SPIKES = (3, 5)


class Training:
    """A module whose last rank has a loss of so many times its own in some steps. They are not applied."""

    def __init__(self, state: CompressState, factor: float, **options: Any) -> None:
        self.module, self.state, self.factor = model(), state, factor
        self.ddp = DistributedDataParallel(self.module, **options)
        self.ddp.register_comm_hook(state, compress_hook)
        self.optimizer = sgd(self.ddp)

    def step(self, step: int) -> float:
        """Make one step, and return the norm of its gradient."""
        self.ddp.zero_grad()
        inputs, labels = batch(step)
        loss = torch.nn.functional.cross_entropy(self.ddp(inputs), labels)
        spike = step in SPIKES
        if spike and dist.get_rank() == dist.get_world_size() - 1:
            loss = loss * self.factor
        loss.backward()
        if not spike:
            self.optimizer.step()
        return float(torch.nn.utils.get_total_norm([p.grad for p in self.ddp.parameters()]))


def norms(factor: float, **options: Any) -> list[float]:
    training = Training(CompressState(**options), factor, **SMALL)
    return [training.step(step) for step in range(7)]


def scaled() -> dict[str, Any]:
    """Under a loss scaler, an infinity of the last rank in the first weights beside values of 1e6 times."""
    training = Training(CompressState(), 1e6)

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clone().index_fill_(1, torch.tensor([3]), torch.inf)

    found = [training.step(step) for step in range(3)]
    last = dist.get_rank() == dist.get_world_size() - 1
    spoiling = training.module[0].weight.register_hook(spoil if last else torch.clone)
    training.step(3)
    kept = any(values.any() for values in training.state.state_dict()["residuals"].values())
    spoiling.remove()
    return {"norms": [*found, training.step(4)], "kept": kept}


def reset() -> dict[str, Any]:
    """Return how much a state keeps before and after a reset, in two steps."""
    training, found = Training(CompressState(), 1e6, **SMALL), []
    for step in range(2):
        training.step(step)
        found.append(len(training.state.state_dict()["residuals"]))
        training.state.reset_residuals()
        kept = training.state.state_dict()
        found.append(len(kept["residuals"]) + len(kept["scales"]))
    return {"found": found}


def resumed(change: Callable[[dict[str, Any]], Any] | None, scale: Any) -> str:
    """Train, and before the first spike begin anew from what was saved and changed; None: go on."""
    training = Training(CompressState(scale=scale), 1e4)
    for step in range(3):
        training.step(step)
    if change is not None:
        file = io.BytesIO()
        torch.save(training.state.state_dict(), file)
        file.seek(0)
        before, training = training, Training(CompressState(scale=scale), 1e4)
        training.module.load_state_dict(before.module.state_dict())
        training.optimizer.load_state_dict(before.optimizer.state_dict())
        training.state.load_state_dict(change(torch.load(file)))
    for step in range(3, 6):
        training.step(step)
    return digest(training.module)


def main() -> dict[str, Any]:
    dist.init_process_group("gloo")
    found: dict[str, Any] = {
        "ordinary": norms(1.0),
        **{f"{factor:g}": norms(factor) for factor in (1e3, 1e6)},
        "by tensor": norms(1e6, scale="tensor"),
        "paper": norms(1e6, codec="paper", error_feedback=True),
        "scaled": scaled(),
        "reset": reset(),
    }
    CompressState(error_feedback=False).reset_residuals()
    for scale in ("auto", "tensor"):
        found[f"resumed, {scale}"] = {
            "going on": resumed(None, scale),
            "resumed": resumed(dict, scale),
            "without scales": resumed(lambda state: {**state, "scales": {}}, scale),
        }
    return found
