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
from .language import SIZES, Text, Transformer, loss_of
from .systems import System

_PR_SET_PDEATHSIG = 1
RATE, WARM_UP = 2e-3, 32
"""Of AdamW, and the steps in which the rate rises to it."""


class Training:
    """This rank's part of a training by a `System`."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.system, size = System.of(case["system"]), SIZES[case["size"]]
        self.rank, self.ranks, self.seed, self.batch = (
            dist.get_rank(), dist.get_world_size(), case["seed"], size.batch,
        )  # fmt: skip
        self.text = Text(Path(case["text"]), size.context, self.rank, self.ranks)
        torch.manual_seed(self.seed)
        self.model = Transformer(size)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self.rising = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1 / WARM_UP, 1.0, WARM_UP)
        self.steps, self._said = 0, time.monotonic()
        self.diloco = self.ddp = None
        if self.system.every:
            every = case.get("every", self.system.every)
            self.diloco = DiLoCo(self.model, self.optimizer, every, **self.system.settings)
        else:
            self.ddp = self._wrapped(max(2, case["steps"] // 10))

    def _wrapped(self, start: int) -> DistributedDataParallel:
        """Wrap the model in DDP with the system's hook. PowerSGD compresses from step ``start`` on."""
        # PowerSGD starts all-reduces from callbacks; those of two buckets would cross, and gloo would abort.
        bucket = {"bucket_cap_mb": 1024} if self.system.powersgd else {}
        ddp = DistributedDataParallel(self.model, **bucket)
        if self.system.powersgd:
            ddp.register_comm_hook(PowerSGDState(None, self.system.powersgd, start), powerSGD_hook)
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
        """Return rank 0's loss of the test set; the others wait."""
        found = float(loss_of(self.model, self.text.test)) if self.rank == 0 else 0.0
        dist.barrier()
        return found


def trained(case: dict[str, Any]) -> dict[str, Any]:
    """Train to the end; return the curve: steps, loss, and bytes that a rank has sent by then."""
    training = Training(case)
    sent, curve = 0.0, [(0, training.loss(), 0.0)]
    points = max(1, case["steps"] // case["points"])
    while training.steps < case["steps"]:
        before = bytes_sent()
        training.step()
        if training.diloco is not None and training.steps == case["steps"]:
            training.diloco.synchronize()
        sent += bytes_sent() - before
        together = training.steps % max(1, training.system.every) == 0
        if training.steps == case["steps"] or together and training.steps - curve[-1][0] >= points:
            curve.append((training.steps, training.loss(), mean_of_ranks(sent)))
    return {**case, "curve": curve, "values": sum(each.numel() for each in training.model.parameters())}


def mean_of_ranks(value: float) -> float:
    """Return the mean of all ranks' values."""
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def timed(case: dict[str, Any]) -> dict[str, Any]:
    """Measure seconds of an inner step, and of the exchange that follows it or is part of it."""
    training = Training({**case, "every": 1})
    if training.diloco is not None:
        calls: dict[str, Callable[[], Any]] = {
            "computation": training.inner,
            "exchange": training.diloco.step,
        }
    else:
        assert training.ddp is not None
        ddp = training.ddp

        def alone() -> None:
            with ddp.no_sync():
                training.inner()

        calls = {"step": training.inner, "computation": alone}
    return {**case, "seconds": in_turns(calls, case["steps"])}


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
