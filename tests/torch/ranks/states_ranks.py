# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_states`: states at modules that do not fit, copies of states, reports that fail."""

import copy
import pickle
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from ranks import digest, model, sgd, steps
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from inceptionn.torch import CompressState, GradiVeQState, compress_hook, gradiveq_hook

SMALL = {"bucket_cap_mb": 0.05}


def said(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def hooked(module: torch.nn.Module, state: CompressState, **options: Any) -> DistributedDataParallel:
    ddp = DistributedDataParallel(module, **options)
    ddp.register_comm_hook(state, compress_hook)
    return ddp


def trained(module: torch.nn.Module, state: CompressState, which: range = range(2), **options: Any) -> str:
    ddp = hooked(module, state, **options)
    steps(ddp, sgd(ddp), which)
    return digest(module)


def replaced(state_of: Callable[[torch.nn.Module], CompressState]) -> str:
    module = model()
    state = state_of(module)
    module[0] = torch.nn.Linear(32, 192)
    return said(lambda: trained(module, state))


def of_left_out() -> dict[str, str]:
    """Modules that are not the one that DDP wraps, at all ranks or at the last one."""
    found, leave_out = {}, ("0.bias", "4")

    def state_of(module: torch.nn.Module, **options: Any) -> CompressState:
        return CompressState(module=module, leave_out=leave_out, **options)

    module = model()
    found["copy"] = said(lambda: trained(module, state_of(copy.deepcopy(module))))
    frozen = copy.deepcopy(module).requires_grad_(False)
    found["frozen copy"] = said(lambda: trained(module, state_of(frozen)))
    found["replaced"] = replaced(state_of)
    found["raw"] = replaced(lambda module: state_of(module, warm_up=4))
    mine = copy.deepcopy(module) if dist.get_rank() else module
    found["one rank"] = said(lambda: trained(module, state_of(mine, smallest=20_000), **SMALL))
    state, ddp = state_of(copy.deepcopy(module)), None
    ddp = hooked(module, state)
    found["again"] = [said(lambda: steps(ddp, sgd(ddp), range(1))) for _ in range(2)][1]
    module[0].bias.requires_grad_(False)
    found["partly frozen"] = said(lambda: trained(module, state_of(module)))
    return found


class Words(torch.nn.Module):
    """A table of sparse gradients before a dense layer."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = torch.nn.Embedding(500, 16, sparse=sparse)
        self.dense = torch.nn.Linear(16, 512)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.dense(self.table(words))


def of_sparse() -> dict[str, Any]:
    """Return the weights after trainings with dense and with sparse gradients, and what the second sent."""
    words = torch.tensor([7, 1 + dist.get_rank()])
    found: dict[str, Any] = {}
    for sparse in (False, True):
        module = Words(sparse)
        state = CompressState(smallest=0, module=module, leave_out=("table",))
        ddp = hooked(module, state)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            ddp(words).square().mean().backward()
            optimizer.step()
        found[str(sparse)] = digest(module)
        found["kept"] = sorted(values.numel() for values in state.state_dict()["residuals"].values())
        found["parts"] = [(part.path, part.bytes_sent) for part in state.statistics().parts]
    ddp = DistributedDataParallel(Words(True))
    ddp.register_comm_hook(GradiVeQState(), gradiveq_hook)
    found["gradiveq"] = said(lambda: ddp(words).sum().backward())
    return found


def of_wrong_hooks() -> dict[str, str]:
    found = {}
    for name, state, hook in (
        ("compress_hook", CompressState(), compress_hook),
        ("gradiveq_hook", GradiVeQState(), gradiveq_hook),
    ):
        module = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
        module.register_comm_hook(state, hook)
        found[f"{name} at FSDP"] = said(lambda module=module: module(torch.ones(2, 32)).sum().backward())
        ddp = DistributedDataParallel(model())
        ddp.register_comm_hook(None, hook)
        found[f"{name} without a state"] = said(lambda ddp=ddp: ddp(torch.ones(2, 32)).sum().backward())
    return found


def of_copies() -> dict[str, str]:
    """Return the weights after four steps, by what goes on with the last two."""
    ways: dict[str, Callable[[CompressState], CompressState]] = {
        "loaded": lambda state: CompressState(codec="planes"),
        "pickled": lambda state: pickle.loads(pickle.dumps(state)),
        "copied": copy.copy,
        "deeply": copy.deepcopy,
    }
    found = {}
    for name, way in ways.items():
        module, state = model(), CompressState(codec="planes")
        trained(module, state, range(2))
        going_on = way(state)
        if name == "loaded":
            going_on.load_state_dict(state.state_dict())
        found[name] = trained(module, going_on, range(2, 4))
        assert going_on.step == 4
    return found


def of_gradiveq_copies() -> bool:
    """Check that a pickled state begins with the exchange's step."""
    module = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3))
    state = GradiVeQState(sampling=4)
    for count in (2, 4):
        state = pickle.loads(pickle.dumps(state))
        ddp = DistributedDataParallel(module)
        ddp.register_comm_hook(state, gradiveq_hook)
        for _ in range(2):
            ddp(torch.ones(1, 4, 8, 8)).sum().backward()
        assert state.exchange is not None
        assert state.exchange.step == count
    return True


def of_unfrozen() -> dict[str, str]:
    module = model()
    module[0].requires_grad_(False)
    state = CompressState()
    trained(module, state)
    saved = state.state_dict()
    module[0].requires_grad_(True)
    found = {"same state": said(lambda: trained(module, state))}
    again, fresh = CompressState(), CompressState()
    again.load_state_dict(saved)
    found["loaded"] = said(lambda: trained(module, again))
    fresh.load_state_dict({**saved, "residuals": {}})
    found["without residuals"] = said(lambda: trained(module, fresh))
    found["known"] = said(lambda: fresh.load_state_dict(saved))
    return found


class FullDisk:
    """A writer of scalars whose disk is full."""

    calls = 0

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.calls += 1
        with open("/dev/full", "wb", buffering=0) as file:
            file.write(tag.encode())


def of_reports() -> dict[str, Any]:
    """Trainings whose reports fail: warnings, and calls of the writer."""
    found: dict[str, Any] = {}
    for name, options in {"compressed": {}, "raw last": {"smallest": 20_000}}.items():
        writer = FullDisk()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trained(model(), CompressState(tensorboard=writer, **options), range(4), **SMALL)
        texts = [str(each.message) for each in caught if each.category is RuntimeWarning]
        found[name] = {"said": texts, "calls": writer.calls}
    return found


def main() -> dict[str, Any]:
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))  # a rank that waits fails
    return {
        "left out": of_left_out(),
        "sparse": of_sparse(),
        "hooks": of_wrong_hooks(),
        "copies": of_copies(),
        "gradiveq": of_gradiveq_copies(),
        "unfrozen": of_unfrozen(),
        "reports": of_reports(),
    }
