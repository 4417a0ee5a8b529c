# SPDX-License-Identifier: BSD-2-Clause
"""A rank of ``inceptionn bench slow-links``: ``-m`` this module with PLAN and torchrun's variables."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from .....torch import CompressState, DiLoCo, compress_hook
from ..ranks import Case, Step, Steps, alone, bytes_sent, in_turns, run_cases, wrapped
from .language import SIZES, TESTED, Text, loss_of
from .systems import System

RATE, RISE = 2e-3, 32
"""Of AdamW, and the steps in which the rate rises to it."""
START = 2
"""Steps in which PowerSGD sends raw values: the fewest with its error feedback."""
PART = 64
"""Windows of the test set that are evaluated at a time."""
ROUND = 16
"""Most inner steps before a timed exchange: what they change is compressed, as in a training."""


class Training:
    """This rank's part of a training by a `System`; ``every``: inner steps in place of the system's."""

    def __init__(self, case: Case, every: int | None = None) -> None:
        self.system, size, seed = System.of(case["system"]), SIZES[case["size"]], case["seed"]
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.text = Text(Path(case["text"]), size.context, self.rank, self.ranks)
        torch.manual_seed(seed)
        self.model: torch.nn.Module = size.model()
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self.rising = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / RISE, 1.0, RISE)
        self.diloco = self.ddp = None
        if self.system.every:
            every = every or self.system.every
            self.diloco = DiLoCo(self.model, optimizer, every, **self.system.settings)
        else:
            self.ddp = wrapped(self.model, *self._hook())
        trained = self.ddp or self.model
        self.steps = Steps(lambda step: loss_of(trained, self.text.batch(seed, step, size.batch)), optimizer)

    def _hook(self) -> tuple[Any, Any]:
        """Return the state and the hook of the system."""
        if self.system.powersgd:
            return PowerSGDState(None, self.system.powersgd, START), powerSGD_hook
        if "codec" in self.system.settings:
            return CompressState(**self.system.settings), compress_hook
        return None, fp16_compress_hook if self.system.word == "ddp:fp16" else None

    def inner(self) -> None:
        """Take a step of the optimizer."""
        self.steps.take()
        self.rising.step()

    def step(self) -> None:
        """Take an inner step, and the outer one if it is time."""
        self.inner()
        if self.diloco is not None:
            self.diloco.step()

    @torch.no_grad()
    def loss(self) -> float:
        """Return the loss of the test set, of which each rank evaluates a part."""
        parts = self.text.test.split(PART)[self.rank :: self.ranks]
        return sum_of_ranks(sum(len(part) * loss_of(self.model, part).item() for part in parts)) / TESTED


def trained(case: Case) -> dict[str, Any]:
    """Train to the end; return the curve: steps, loss, and bytes that a rank has sent by then."""
    training, steps = Training(case), case["steps"]
    sent, curve = 0.0, [(0, training.loss(), 0.0)]
    before = bytes_sent()
    for done in range(1, steps + 1):
        training.step()
        if done == steps and training.diloco is not None:
            training.diloco.synchronize()
        together = done % max(1, training.system.every) == 0
        if done == steps or (together and done >= curve[-1][0] * case["spread"]):
            dist.barrier()  # all has been sent
            sent += bytes_sent() - before
            curve.append((done, training.loss(), sum_of_ranks(sent) / training.ranks))
            before = bytes_sent()
    values = sum(each.numel() for each in training.model.parameters())
    return {"curve": curve, "values": values, "final": curve[-1][1], "sent": curve[-1][2]}


def sum_of_ranks(value: float) -> float:
    """Return the sum of all ranks' values."""
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return total.item()


def timed(case: Case) -> dict[str, Any]:
    """Measure an inner step and the exchange in it or after several: seconds at the slowest rank, bytes."""
    training = Training(case, every=1)
    inner = training.inner

    def before() -> None:
        for _ in range(min(training.system.every, ROUND) - 1):
            inner()

    calls: dict[str, Step]
    if training.diloco is not None:
        exchange: Step = training.diloco.step
        calls = {"before": before, "computation": inner, "exchange": exchange}
    else:
        assert training.ddp is not None
        exchange = inner
        calls = {"step": inner, "computation": alone(training.ddp, inner)}
    ranks: list[Any] = [None] * training.ranks
    dist.all_gather_object(ranks, in_turns(calls, case["steps"]))
    seconds = {
        name: [max(turn) for turn in zip(*(each[name] for each in ranks), strict=True)]
        for name in calls
        if name != "before"
    }
    before()
    dist.barrier()
    sent = bytes_sent()
    exchange()
    dist.barrier()
    return {"seconds": seconds, "sent": sum_of_ranks(bytes_sent() - sent) / training.ranks}


if __name__ == "__main__":
    run_cases("gloo", {"loss": trained, "time": timed})
