# SPDX-License-Identifier: BSD-2-Clause
"""A rank of ``inceptionn bench torch``: ``-m`` this module with PLAN and torchrun's variables."""

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


OPTIMIZERS: dict[str, Callable[[Any, Task], torch.optim.Optimizer]] = {
    "sgd": lambda parameters, task: torch.optim.SGD(parameters, lr=task.rate, momentum=0.9),
    "adam": lambda parameters, task: torch.optim.Adam(parameters, lr=0.002),
}


def state_of(system: str, bound: float) -> CompressState:
    """Return the state of a system of `HOOKS`: `CompressState`'s defaults, but for what the name says."""
    scale: Any = "tensor" if system == "tensor" else "auto"
    feedback = False if system == "no-feedback" else None
    return CompressState(codec=Codec(bound, *HOOKS[system]), scale=scale, error_feedback=feedback)


def wrapped(
    module: torch.nn.Module, system: str, bound: float, start: int
) -> tuple[DistributedDataParallel, CompressState | None]:
    """Wrap the module in DDP with one of the systems; return the state of `compress_hook`, too.

    ``start``: PowerSGD's first compressed step.
    """
    hook_state = None
    group = dist.new_group(backend="inceptionn") if system == "backend" else None
    if group is not None:
        compressed(group, Codec(bound, *PLANES))
    # PowerSGD starts all-reduces from callbacks: those of two buckets cross between ranks, and gloo aborts.
    bucket = {"bucket_cap_mb": 1024} if system == "powersgd" else {}
    ddp = DistributedDataParallel(module, process_group=group, **bucket)
    if system == "fp16":
        ddp.register_comm_hook(None, fp16_compress_hook)
    elif system == "bf16":
        ddp.register_comm_hook(None, bf16_hook)
    elif system == "powersgd":
        state = PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=start)
        ddp.register_comm_hook(state, powerSGD_hook)
    elif system in HOOKS:
        hook_state = state_of(system, bound)
        ddp.register_comm_hook(hook_state, compress_hook)
    return ddp, hook_state


def stepper(ddp: DistributedDataParallel, trained: Task, optimizer: str) -> Callable[[int], None]:
    """Return a function that runs one step of the training. It shows every second that it goes on."""
    steps = OPTIMIZERS[optimizer](ddp.parameters(), trained)
    said = time.monotonic()

    def run(step: int) -> None:
        nonlocal said
        if dist.get_rank() == 0 and time.monotonic() - said > 1:
            said = time.monotonic()
            print(".", flush=True)
        steps.zero_grad()
        trained.loss(ddp, trained.batch(step)).backward()
        steps.step()

    return run


def task_of(case: dict[str, Any]) -> Task:
    """Return this rank's part of a case."""
    return task(case["model"], case["batch"], dist.get_rank(), dist.get_world_size(), case["seed"])


def timed(case: dict[str, Any]) -> dict[str, Any]:
    """Measure seconds of each step, with communication and without (``no_sync``), in turn."""
    trained = task_of(case)
    ddp, _ = wrapped(trained.model, case["system"], case["bound"], 2)
    run = stepper(ddp, trained, case["optimizer"])
    seconds: dict[str, list[float]] = {"step": [], "computation": []}
    sent = 0
    for step in range(WARM_UP + case["steps"]):
        before = bytes_sent()
        for kind in seconds:
            dist.barrier()
            begin = time.perf_counter()
            if kind == "step":
                run(step)
            else:
                with ddp.no_sync():
                    run(step)
            if step >= WARM_UP:
                seconds[kind].append(time.perf_counter() - begin)
        sent = bytes_sent() - before
    values = sum(p.numel() for p in ddp.parameters())
    return {**case, "seconds": seconds, "values": values, "sent": sent}


def bytes_sent() -> int:
    """Count the bytes that this host has sent to others so far. All packets with their headers count."""
    devices = Path("/proc/net/dev").read_text().splitlines()[2:]
    counters = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in devices)}
    return sum(int(rest[8]) for name, rest in counters.items() if name != "lo")


def accuracy(case: dict[str, Any]) -> dict[str, Any]:
    """Train to the end; return the result, and whether all ranks have the same bits."""
    trained = task_of(case)
    ddp, state = wrapped(trained.model, case["system"], case["bound"], max(2, case["steps"] // 10))
    run = stepper(ddp, trained, case["optimizer"])
    for step in range(case["steps"]):
        run(step)
    with torch.no_grad():
        weights = torch.cat([p.reshape(-1) for p in ddp.parameters()])
    first = weights.clone()
    dist.broadcast(first, 0)
    same = torch.tensor(int(torch.equal(first, weights)))
    dist.all_reduce(same, op=dist.ReduceOp.MIN)
    score = trained.score(trained.model)
    ratio = None if state is None else state.statistics().ratio
    return {**case, "score": score, "final": trained.final, "ratio": ratio, "same_bits": bool(same)}


def overhead(case: dict[str, Any]) -> dict[str, Any]:
    """Measure seconds of one bucket's mean.

    It is by gloo's all-reduce, the backend's, and the hook's through DDP. DDP's own cost is measured by plain
    DDP with the same one parameter.
    """
    count, found = case["values"], {}
    raw, group = dist.new_group(backend="gloo"), dist.new_group(backend="inceptionn")
    compressed(group, Codec(case["bound"], "planes"))
    source = torch.Generator().manual_seed(case["seed"] + dist.get_rank())
    tensor = torch.randn(count, generator=source) * 0.01

    class One(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(count))

        def forward(self) -> torch.Tensor:
            return self.weight @ tensor

    def backward(hooked: bool) -> Callable[[], None]:
        ddp = DistributedDataParallel(One(), process_group=raw, bucket_cap_mb=1024)
        if hooked:
            ddp.register_comm_hook(CompressState(raw, codec=Codec(case["bound"], "planes")), compress_hook)
        return lambda: ddp().backward()

    ways: dict[str, Callable[[], Any]] = {
        "gloo": lambda: dist.all_reduce(tensor.clone(), group=raw),
        "backend": lambda: dist.all_reduce(tensor.clone(), group=group),
        "plain DDP": backward(False),
        "DDP with hook": backward(True),
    }
    for name, way in ways.items():
        times = []
        for _ in range(WARM_UP + case["steps"]):
            dist.barrier()
            begin = time.perf_counter()
            way()
            times.append(time.perf_counter() - begin)
        found[name] = times[WARM_UP:]
    return {**case, "seconds": found}


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
