# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_agreement`: states that do not fit each other, or the module."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from ranks import digest, model, sgd, steps
from torch.nn.parallel import DistributedDataParallel

from inceptionn import Codec
from inceptionn.torch import (
    CompressedReduceScatter,
    CompressState,
    all_reduce_hook,
    compress_hook,
    compressed,
    fsdp_hook,
)

# The second one is its name before torch 2.13.
ALL_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
BUCKETS = {"bucket_cap_mb": 0.05}


def said(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "nothing"


def hooked(state: CompressState, module: torch.nn.Module | None = None) -> DistributedDataParallel:
    ddp = DistributedDataParallel(model() if module is None else module, **BUCKETS)
    ddp.register_comm_hook(state, compress_hook)
    return ddp


def trained(state: CompressState) -> None:
    ddp = hooked(state)
    steps(ddp, sgd(ddp), range(2))


def resumed(step: int, residuals: dict[int, torch.Tensor], **settings: Any) -> CompressState:
    """Return a state that goes on from a checkpoint."""
    state = CompressState(**settings)
    state.load_state_dict({"step": step, "codec": None, "residuals": residuals})
    return state


def loaded_again() -> str:
    """Residuals of another module, where the module's parameters are known."""
    state = CompressState(error_feedback=True)
    trained(state)
    kept = state.state_dict()
    text = said(lambda: state.load_state_dict({**kept, "residuals": {0: torch.zeros(5)}}))
    again = state.state_dict()["residuals"]
    assert all(torch.equal(again[number], values) for number, values in kept["residuals"].items())
    return text


def shared() -> dict[str, Any]:
    """One state at two modules, in turn and in one backward pass; a module of its own goes on."""
    found: dict[str, Any] = {}
    state = CompressState()
    first, second = hooked(state), hooked(state)
    optimizer = sgd(first)
    steps(first, optimizer, range(2))
    found["in turn"] = said(lambda: steps(second, sgd(second), range(1)))
    steps(first, optimizer, range(2, 4))
    found["step"] = state.step
    state = CompressState()
    pair = [hooked(state), hooked(state)]
    inputs = torch.ones(4, 32)
    found["at once"] = said(lambda: sum(ddp(inputs).square().sum() for ddp in pair).backward())
    return found


def schedule(step: int) -> Codec:
    """Fails at one rank, in its second step."""
    if step == 1 and dist.get_rank() == 1:
        raise LookupError(f"no bound for step {step}")
    return Codec()


def schedules() -> dict[str, list[str]]:
    """Return what each other interface says in each of three steps; `schedule` fails in the second."""
    values, block = torch.ones(20_000), torch.empty(10_000)
    state = CompressState(codec=schedule)
    scatter, replicas = CompressedReduceScatter(state), all_reduce_hook(state)
    group = dist.new_group(backend="inceptionn")
    own = compressed(group, codec=schedule, all_gather=True)
    calls: dict[str, tuple[CompressState, Callable[[], Any]]] = {
        "fsdp_hook": (state, lambda: fsdp_hook(state, values)),
        "fsdp_hook, sharded": (state, lambda: fsdp_hook(state, values, block)),
        "reduce-scatter": (state, lambda: scatter(block, values, dist.group.WORLD, dist.ReduceOp.SUM)),
        "all-reduce of replicas": (state, lambda: replicas(values)),
        "backend's all-reduce": (own, lambda: dist.all_reduce(values, group=group)),
        "backend's reduce-scatter": (
            own, lambda: dist.reduce_scatter(block, list(values.chunk(2)), group=group)
        ),
        "backend's all-gather": (own, lambda: ALL_GATHER(values, block, group=group)),
    }  # fmt: skip
    found = {}
    for name, (used, call) in calls.items():
        used.step, found[name] = 0, []
        for _ in range(3):
            found[name].append(said(call))
            used.advance()
    return found


def refused_at_construction() -> list[str]:
    wrong: list[dict[str, Any]] = [
        {"algorithm": "tree"}, {"algorithm": "paper_baseline"}, {"path": "fast"}, {"group_size": 3},
        {"group_size": 0}, {"group_size": 1.5}, {"scale": 200},
    ]  # fmt: skip
    return [said(lambda settings=settings: CompressState(**settings)) for settings in wrong]


def main() -> dict[str, Any]:
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))  # a rank that waits fails
    rank = dist.get_rank()
    found: dict[str, Any] = {}
    found["step"] = said(lambda: trained(resumed(6 - 4 * rank, {}, warm_up=4)))
    found["late step"] = said(lambda: trained(resumed(6 - rank, {}, warm_up=1)))
    found["warm_up"] = said(lambda: trained(CompressState(warm_up=rank)))
    found["smallest"] = said(lambda: trained(CompressState(smallest=1 << 30 * rank)))
    odd = {0: torch.zeros(5)} if rank else {}
    found["residual"] = said(lambda: trained(resumed(0, odd, error_feedback=True)))
    found["no tensor"] = said(lambda: resumed(0, {0: [1.0]}, error_feedback=True))  # type: ignore[dict-item]
    found["not flat"] = said(lambda: resumed(0, {0: torch.zeros(5, 2)}, error_feedback=True))
    found["schedule"] = said(lambda: trained(CompressState(codec=schedule)))
    found["schedules"] = schedules()
    found["loaded again"] = loaded_again()
    found["shared"] = shared()
    found["construction"] = refused_at_construction()
    group = dist.new_group(backend="inceptionn")
    found["backend"] = said(lambda: compressed(group, warm_up=rank))
    found["backend algorithm"] = said(lambda: compressed(group, algorithm="worker_aggregator"))
    state = CompressState()
    ddp = hooked(state)
    steps(ddp, sgd(ddp), range(3))  # the group goes on
    found["weights"], found["compressed"] = digest(ddp.module), state.compressed
    return found
