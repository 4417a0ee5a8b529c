# SPDX-License-Identifier: BSD-2-Clause
"""A rank of ``inceptionn bench slow-links``: ``-m`` this module with PLAN and torchrun's variables."""

import ctypes
import json
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from .....torch import CompressState, DiLoCo, compress_hook
from ..rank import bytes_sent, in_turns
from .language import SIZES, TESTED, Text, Transformer, loss_of
from .systems import System

_PR_SET_PDEATHSIG = 1
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

    def __init__(self, case: dict[str, Any], every: int | None = None) -> None:
        self.system, size = System.of(case["system"]), SIZES[case["size"]]
        self.seed, self.batch = case["seed"], size.batch
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.text = Text(Path(case["text"]), size.context, self.rank, self.ranks)
        torch.manual_seed(self.seed)
        self.model = Transformer(size)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self.rising = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1 / RISE, 1.0, RISE)
        self.steps, self._said = 0, time.monotonic()
        self.diloco = self.ddp = None
        if self.system.every:
            every = every or self.system.every
            self.diloco = DiLoCo(self.model, self.optimizer, every, **self.system.settings)
        else:
            self.ddp = self._wrapped()

    def _wrapped(self) -> DistributedDataParallel:
        """Wrap the model in DDP with the system's hook."""
        # PowerSGD starts all-reduces from callbacks; those of two buckets would cross, and gloo would abort.
        bucket = {"bucket_cap_mb": 1024} if self.system.powersgd else {}
        ddp = DistributedDataParallel(self.model, **bucket)
        if self.system.powersgd:
            ddp.register_comm_hook(PowerSGDState(None, self.system.powersgd, START), powerSGD_hook)
        elif self.system.k or self.system.integers:
            ddp.register_comm_hook(CompressState(**self.system.settings), compress_hook)
        elif self.system.word == "ddp:fp16":
            ddp.register_comm_hook(None, fp16_compress_hook)
        return ddp

    def inner(self) -> None:
        """Take a step of the optimizer. Rank 0 shows every second that it goes on."""
        if self.rank == 0 and time.monotonic() - self._said > 1:
            self._said = time.monotonic()
            print(".", flush=True)
        windows = self.text.batch(self.seed, self.steps, self.batch)
        self.optimizer.zero_grad()
        loss_of(self.ddp or self.model, windows).backward()
        self.optimizer.step()
        self.rising.step()
        self.steps += 1

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


def trained(case: dict[str, Any]) -> dict[str, Any]:
    """Train to the end; return the curve: steps, loss, and bytes that a rank has sent by then."""
    training, steps = Training(case), case["steps"]
    sent, curve = 0.0, [(0, training.loss(), 0.0)]
    before = bytes_sent()
    while training.steps < steps:
        training.step()
        if training.steps == steps and training.diloco is not None:
            training.diloco.synchronize()
        together = training.steps % max(1, training.system.every) == 0
        if training.steps == steps or (together and training.steps >= curve[-1][0] * case["spread"]):
            dist.barrier()  # all has been sent
            sent += bytes_sent() - before
            curve.append((training.steps, training.loss(), sum_of_ranks(sent) / training.ranks))
            before = bytes_sent()
    values = sum(each.numel() for each in training.model.parameters())
    return {**case, "curve": curve, "values": values, "final": curve[-1][1], "sent": curve[-1][2]}


def sum_of_ranks(value: float) -> float:
    """Return the sum of all ranks' values."""
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return total.item()


def timed(case: dict[str, Any]) -> dict[str, Any]:
    """Measure an inner step and the exchange in it or after several: seconds at the slowest rank, bytes."""
    training = Training(case, every=1)
    inner, ddp = training.inner, training.ddp
    if training.diloco is not None:
        exchange: Callable[[], Any] = training.diloco.step

        def before() -> None:
            for _ in range(min(training.system.every, ROUND) - 1):
                inner()

        calls = {"before": before, "computation": inner, "exchange": exchange}
    else:
        assert ddp is not None
        exchange = inner

        def alone() -> None:
            with ddp.no_sync():
                inner()

        calls = {"step": inner, "computation": alone}
    ranks: list[Any] = [None] * training.ranks
    dist.all_gather_object(ranks, in_turns(calls, case["steps"]))
    seconds = {
        name: [max(turn) for turn in zip(*(each[name] for each in ranks), strict=True)]
        for name in calls
        if name != "before"
    }
    if "before" in calls:
        calls["before"]()
    dist.barrier()
    sent = bytes_sent()
    exchange()
    dist.barrier()
    return {**case, "seconds": seconds, "sent": sum_of_ranks(bytes_sent() - sent) / training.ranks}


def main() -> None:
    """Run the plan's cases one after the other; rank 0 prints a line of JSON for each."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no orphans of a bench that is killed
    plan = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=plan["timeout"]))
    for case in plan["cases"]:
        line = {"loss": trained, "time": timed}[case["what"]](case)
        if dist.get_rank() == 0:
            print(json.dumps(line), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
