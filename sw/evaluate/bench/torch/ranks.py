# SPDX-License-Identifier: BSD-2-Clause
"""What the ranks of both benches of torch do: run a plan's cases, wrap a model in DDP, train, take times."""

import ctypes
import gc
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

Case = dict[str, Any]
Step = Callable[[], Any]
_PR_SET_PDEATHSIG = 1
WARM_UP = 3
"""Steps before those that are timed: DDP deals out its buckets anew after the first."""


def run_cases(backend: str, kinds: Mapping[str, Callable[[Case], dict[str, Any]]]) -> None:
    """Run the cases of the plan, whose file is the argument, by "what" they are.

    Rank 0 prints a line of JSON for each: the case and its result.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no orphans of a bench that is killed
    plan = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    dist.init_process_group(backend, timeout=timedelta(seconds=plan["timeout"]))
    for case in plan["cases"]:
        found = kinds[case["what"]](case)
        if dist.get_rank() == 0:
            print(json.dumps({**case, **found}), flush=True)
        gc.collect()  # a model, its optimizer and hook refer to each other
    dist.barrier()
    dist.destroy_process_group()


def wrapped(
    module: torch.nn.Module, state: Any, hook: Any, group: dist.ProcessGroup | None = None
) -> DistributedDataParallel:
    """Wrap the module in DDP with a hook and its state; None is DDP's own all-reduce."""
    # PowerSGD starts all-reduces from callbacks: those of two buckets cross between ranks, and gloo aborts.
    bucket = {"bucket_cap_mb": 1024} if hook is powerSGD_hook else {}
    ddp = DistributedDataParallel(module, process_group=group, **bucket)
    if hook is not None:
        ddp.register_comm_hook(state, hook)
    return ddp


def alone(ddp: DistributedDataParallel, step: Step) -> Step:
    """Return what takes a step without any communication."""

    def run() -> None:
        with ddp.no_sync():
            step()

    return run


class Steps:
    """The steps of an optimizer, by the loss of each step's number; ``done``: how many were taken."""

    def __init__(self, loss: Callable[[int], torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        self.loss, self.optimizer = loss, optimizer
        self.done, self._said = 0, time.monotonic()

    def take(self) -> None:
        """Take the next one. Rank 0 shows every second that it goes on."""
        if dist.get_rank() == 0 and time.monotonic() - self._said > 1:
            self._said = time.monotonic()
            print(".", flush=True)
        self.optimizer.zero_grad()
        self.loss(self.done).backward()
        self.optimizer.step()
        self.done += 1


def in_turns(calls: Mapping[str, Step], turns: int) -> dict[str, list[float]]:
    """Measure seconds of each call in each turn, after `WARM_UP` turns; all ranks begin a call together."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(WARM_UP + turns):
        for name, call in calls.items():
            dist.barrier()
            begin = time.perf_counter()
            call()
            if turn >= WARM_UP:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def bytes_sent() -> int:
    """Count the bytes that this host has sent to others so far, with one header for each large packet."""
    devices = Path("/proc/net/dev").read_text().splitlines()[2:]
    counters = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in devices)}
    return sum(int(rest[8]) for name, rest in counters.items() if name != "lo")
