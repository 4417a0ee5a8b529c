# SPDX-License-Identifier: BSD-2-Clause
"""A rank of ``inceptionn bench torch``: ``-m`` this module with PLAN and torchrun's variables."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from .... import BOUNDED, PLANES, Codec
from ....torch import CompressState, compress_hook, compressed
from .models import Task, task
from .ranks import Case, Step, Steps, alone, bytes_sent, in_turns, run_cases, wrapped

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


class Training:
    """This rank's part of a case. PowerSGD compresses from step ``start``."""

    def __init__(self, case: Case, start: int) -> None:
        system, bound = case["system"], case["bound"]
        ranks = dist.get_rank(), dist.get_world_size()
        self.task: Task = task(case["model"], case["batch"], *ranks, case["seed"])
        group = dist.new_group(backend="inceptionn") if system == "backend" else None
        if group is not None:
            compressed(group, Codec(bound, *PLANES))
        hooks: dict[str, tuple[Any, Any]] = {
            "fp16": (None, fp16_compress_hook), "bf16": (None, bf16_hook),
            "powersgd": (PowerSGDState(None, 2, start), powerSGD_hook),
        }  # fmt: skip
        ours = (state_of(system, bound), compress_hook) if system in HOOKS else (None, None)
        self.state, hook = hooks.get(system, ours)
        self.ddp = wrapped(self.task.model, self.state, hook, group)
        optimizer = OPTIMIZERS[case["optimizer"]](self.ddp.parameters())
        self.step = Steps(lambda step: self.task.loss(self.ddp, self.task.batches.at(step)), optimizer).take


def timed(case: Case) -> dict[str, Any]:
    """Measure seconds of each step, with communication and without (``no_sync``), and bytes of one."""
    training = Training(case, 2)
    calls = {"step": training.step, "computation": alone(training.ddp, training.step)}
    seconds = in_turns(calls, case["steps"])
    values, before = sum(p.numel() for p in training.ddp.parameters()), bytes_sent()
    training.step()
    return {"seconds": seconds, "values": values, "sent": bytes_sent() - before}


def accuracy(case: Case) -> dict[str, Any]:
    """Train to the end; return the result, and whether all ranks have the same bits."""
    training = Training(case, max(2, case["steps"] // 10))
    for _ in range(case["steps"]):
        training.step()
    weights = torch.nn.utils.parameters_to_vector(training.ddp.parameters()).detach()
    first = weights.clone()
    dist.broadcast(first, 0)
    same = torch.tensor(int(torch.equal(first, weights)))
    dist.all_reduce(same, op=dist.ReduceOp.MIN)
    trained, state = training.task, training.state
    ratio = state.statistics().ratio if isinstance(state, CompressState) else None
    score = trained.score(trained.model)
    return {"score": score, "final": trained.final, "ratio": ratio, "same_bits": bool(same)}


def overhead(case: Case) -> dict[str, Any]:
    """Measure seconds of one bucket's mean: by gloo, the backend, DDP alone, and DDP with the hook."""
    values, codec = case["values"], Codec(case["bound"], "planes")
    raw, group = dist.new_group(backend="gloo"), dist.new_group(backend="inceptionn")
    compressed(group, codec)
    source = torch.Generator().manual_seed(case["seed"] + dist.get_rank())
    tensor = torch.randn(values, generator=source) * 0.01

    def backward(hooked: bool) -> Step:
        one = torch.nn.Linear(values, 1, bias=False)
        ddp = DistributedDataParallel(one, process_group=raw, bucket_cap_mb=1024)
        if hooked:
            ddp.register_comm_hook(CompressState(raw, codec=codec), compress_hook)
        return lambda: ddp(tensor).sum().backward()

    ways: dict[str, Step] = {
        "gloo": lambda: dist.all_reduce(tensor.clone(), group=raw),
        "backend": lambda: dist.all_reduce(tensor.clone(), group=group),
        "plain DDP": backward(False),
        "DDP with hook": backward(True),
    }
    return {"seconds": in_turns(ways, case["steps"])}


if __name__ == "__main__":
    run_cases("inceptionn", {"time": timed, "accuracy": accuracy, "overhead": overhead})
