# SPDX-License-Identifier: BSD-2-Clause
"""A rank of ``inceptionn bench torch``: ``-m`` this module with PLAN and torchrun's variables."""

import ctypes
import json
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from .... import BOUNDED, PLANES, Codec
from ....torch import CompressState, compress_hook, compressed
from .models import Task, task

_PR_SET_PDEATHSIG = 1
WARM_UP = 3
"""Steps before those that are timed: DDP deals out its buckets anew after the first."""
HOOKS = {"hook": PLANES, "no-feedback": PLANES, "tensor": PLANES, "bounded": BOUNDED}
"""The codec of `compress_hook`, by system."""


def bf16_hook(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Call torch's own hook under another name: DDP takes that one for NCCL alone."""
    return bf16_compress_hook(state, bucket)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=0.05, momentum=0.9),
    "adam": partial(torch.optim.Adam, lr=0.002),
}


def state_of(system: str, bound: float) -> CompressState:
    """Return the state of a system of `HOOKS`: `CompressState`'s defaults, but for what the name says."""
    scale: Any = "tensor" if system == "tensor" else "auto"
    feedback = False if system == "no-feedback" else None
    return CompressState(codec=Codec(bound, *HOOKS[system]), scale=scale, error_feedback=feedback)


def wrapped(module: torch.nn.Module, system: str, bound: float, start: int) -> tuple[Any, Any]:
    """Wrap the module in DDP with a system; return its hook's state. PowerSGD compresses from ``start``."""
    group = dist.new_group(backend="inceptionn") if system == "backend" else None
    if group is not None:
        compressed(group, Codec(bound, *PLANES))
    # PowerSGD starts all-reduces from callbacks: those of two buckets cross between ranks, and gloo aborts.
    bucket = {"bucket_cap_mb": 1024} if system == "powersgd" else {}
    ddp = DistributedDataParallel(module, process_group=group, **bucket)
    theirs = {
        "fp16": (None, fp16_compress_hook), "bf16": (None, bf16_hook),
        "powersgd": (PowerSGDState(None, 2, start), powerSGD_hook),
    }  # fmt: skip
    ours = system in HOOKS
    state, hook = (state_of(system, bound), compress_hook) if ours else theirs.get(system, (None, None))
    if hook is not None:
        ddp.register_comm_hook(state, hook)
    return ddp, state


def stepper(ddp: DistributedDataParallel, trained: Task, optimizer: str) -> Callable[[], None]:
    """Return a function that runs the next step of the training. It shows every second that it goes on."""
    steps, batches = OPTIMIZERS[optimizer](ddp.parameters()), map(trained.batches.at, count())
    said = time.monotonic()

    def run() -> None:
        nonlocal said
        if dist.get_rank() == 0 and time.monotonic() - said > 1:
            said = time.monotonic()
            print(".", flush=True)
        steps.zero_grad()
        trained.loss(ddp, next(batches)).backward()
        steps.step()

    return run


def in_turns(calls: dict[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
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


def task_of(case: dict[str, Any]) -> Task:
    """Return this rank's part of a case."""
    return task(case["model"], case["batch"], dist.get_rank(), dist.get_world_size(), case["seed"])


def timed(case: dict[str, Any]) -> dict[str, Any]:
    """Measure seconds of each step, with communication and without (``no_sync``), and bytes of one."""
    trained = task_of(case)
    ddp, _ = wrapped(trained.model, case["system"], case["bound"], 2)
    run = stepper(ddp, trained, case["optimizer"])

    def alone() -> None:
        with ddp.no_sync():
            run()

    seconds = in_turns({"step": run, "computation": alone}, case["steps"])
    values, before = sum(p.numel() for p in ddp.parameters()), bytes_sent()
    run()
    return {**case, "seconds": seconds, "values": values, "sent": bytes_sent() - before}


def bytes_sent() -> int:
    """Count the bytes that this host has sent to others so far, with one header for each large packet."""
    devices = Path("/proc/net/dev").read_text().splitlines()[2:]
    counters = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in devices)}
    return sum(int(rest[8]) for name, rest in counters.items() if name != "lo")


def accuracy(case: dict[str, Any]) -> dict[str, Any]:
    """Train to the end; return the result, and whether all ranks have the same bits."""
    trained = task_of(case)
    ddp, state = wrapped(trained.model, case["system"], case["bound"], max(2, case["steps"] // 10))
    run = stepper(ddp, trained, case["optimizer"])
    for _ in range(case["steps"]):
        run()
    with torch.no_grad():
        weights = torch.cat([p.reshape(-1) for p in ddp.parameters()])
    first = weights.clone()
    dist.broadcast(first, 0)
    same = torch.tensor(int(torch.equal(first, weights)))
    dist.all_reduce(same, op=dist.ReduceOp.MIN)
    score = trained.score(trained.model)
    ratio = state.statistics().ratio if isinstance(state, CompressState) else None
    return {**case, "score": score, "final": trained.final, "ratio": ratio, "same_bits": bool(same)}


def overhead(case: dict[str, Any]) -> dict[str, Any]:
    """Measure seconds of one bucket's mean: by gloo, the backend, DDP alone, and DDP with the hook."""
    values, codec = case["values"], Codec(case["bound"], "planes")
    raw, group = dist.new_group(backend="gloo"), dist.new_group(backend="inceptionn")
    compressed(group, codec)
    source = torch.Generator().manual_seed(case["seed"] + dist.get_rank())
    tensor = torch.randn(values, generator=source) * 0.01

    def backward(hooked: bool) -> Callable[[], None]:
        one = torch.nn.Linear(values, 1, bias=False)
        ddp = DistributedDataParallel(one, process_group=raw, bucket_cap_mb=1024)
        if hooked:
            ddp.register_comm_hook(CompressState(raw, codec=codec), compress_hook)
        return lambda: ddp(tensor).sum().backward()

    ways: dict[str, Callable[[], Any]] = {
        "gloo": lambda: dist.all_reduce(tensor.clone(), group=raw),
        "backend": lambda: dist.all_reduce(tensor.clone(), group=group),
        "plain DDP": backward(False),
        "DDP with hook": backward(True),
    }
    return {**case, "seconds": in_turns(ways, case["steps"])}


def main() -> None:
    """Run the plan's cases one after the other; rank 0 prints a line of JSON for each."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no orphans of a bench that is killed
    plan = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    dist.init_process_group("inceptionn", timeout=timedelta(seconds=plan["timeout"]))
    kinds = {"time": timed, "accuracy": accuracy, "overhead": overhead}
    for case in plan["cases"]:
        line = kinds[case["what"]](case)
        if dist.get_rank() == 0:
            print(json.dumps(line), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
