# SPDX-License-Identifier: BSD-2-Clause
"""States at modules that do not fit, copies of states, reports that fail, in processes of torch."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch_ranks import SMALL_BUCKETS, Ranks, digest, hooked, model, said, sgd, steps

from inceptionn.torch import CompressState, GradiVeQState, compress_hook, gradiveq_hook


def trained(module: torch.nn.Module, state: CompressState, which: range = range(2), **options: Any) -> str:
    ddp = hooked(module, state, **options)
    steps(ddp, sgd(ddp), which)
    return digest(module)


def leaving_out(module: torch.nn.Module, **options: Any) -> CompressState:
    return CompressState(module=module, leave_out=("0.bias", "4"), **options)


def replaced(**options: Any) -> str:
    module = model()
    state = leaving_out(module, **options)
    module[0] = torch.nn.Linear(32, 192)
    return said(lambda: trained(module, state))


def not_the_wrapped_one() -> list[str]:
    """Return what is said of modules that DDP does not wrap, after the first step; in the end after two.

    No module is wrapped twice: an older DDP, which the garbage collector frees in a backward pass, has hooks
    on the same parameters.
    """
    one, two, three = model(), model(), model()
    frozen = copy.deepcopy(two).requires_grad_(False)
    other = hooked(three, leaving_out(copy.deepcopy(three)))
    return [
        said(lambda: trained(one, leaving_out(copy.deepcopy(one)))),
        said(lambda: trained(two, leaving_out(frozen))),
        replaced(),
        replaced(warm_up=4),
        [said(lambda: steps(other, sgd(other), range(1))) for _ in range(2)][1],
    ]


def test_a_module_that_is_not_the_wrapped_one_is_named(gloo: Ranks) -> None:
    text = "leave_out: 0.bias was in no bucket of the first step; module must be the one that DDP wraps"
    for found in gloo(not_the_wrapped_one):
        assert all(text in each for each in found)


def at_one_rank() -> str:
    module = model()
    mine = copy.deepcopy(module) if dist.get_rank() else module
    return said(lambda: trained(module, leaving_out(mine, smallest=20_000), **SMALL_BUCKETS))


def test_another_module_at_one_rank_ends_all_ranks(gloo: Ranks) -> None:
    text = "ValueError: leave_out: 0.bias was in no bucket"
    zero, one = gloo(at_one_rank)
    assert text in one
    assert f"MismatchError: rank 1 cannot take part: {text}" in zero


def partly_frozen() -> None:
    module = model()
    module[0].bias.requires_grad_(False)
    trained(module, leaving_out(module))


def test_frozen_parameters_may_be_left_out(gloo: Ranks) -> None:
    gloo(partly_frozen)


class Words(torch.nn.Module):
    """A table of sparse gradients before a dense layer."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = torch.nn.Embedding(500, 16, sparse=sparse)
        self.dense = torch.nn.Linear(16, 512)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.dense(self.table(words))


def sparse_gradients() -> str:
    """Train with dense and with sparse gradients, and look at what the second sent; return the weights."""
    words, weights = torch.tensor([7, 1 + dist.get_rank()]), set()
    for sparse in (False, True):
        module = Words(sparse)
        state = CompressState(smallest=0, module=module, leave_out=("table",))
        ddp = hooked(module, state)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            ddp(words).square().mean().backward()
            optimizer.step()
        weights.add(digest(module))
    assert sorted(values.numel() for values in state.state_dict()["residuals"].values()) == [512, 512 * 16]
    sent = sum(part.bytes_sent for part in state.statistics().parts if part.path == "torch")
    assert sent == 3 * 2 * (16 * 4 + 8)  # in each step two rows and their numbers, once
    ddp = hooked(Words(True), GradiVeQState(), gradiveq_hook)
    heard = said(lambda: ddp(words).sum().backward())
    assert heard.startswith("TypeError: GradiVeQ takes dense gradients alone")
    (one,) = weights
    return one


def test_sparse_gradients_travel_raw(gloo: Ranks) -> None:
    assert len(set(gloo(sparse_gradients))) == 1


def wrong_hooks() -> None:
    inputs = torch.ones(2, 32)
    for state, hook in ((CompressState(), compress_hook), (GradiVeQState(), gradiveq_hook)):
        module = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
        module.register_comm_hook(state, hook)
        heard = said(lambda module=module: module(inputs).sum().backward())
        name = hook.__name__
        assert heard == f"TypeError: {name} is for DDP: FSDP's register_comm_hook takes fsdp_hook"
        ddp = hooked(model(), None, hook)
        heard = said(lambda ddp=ddp: ddp(inputs).sum().backward())
        assert heard == f"TypeError: {name} needs a {type(state).__name__}, not None"


def test_ddps_hooks_name_that_of_fsdp_and_their_state(gloo: Ranks) -> None:
    gloo(wrong_hooks)


def loaded(state: CompressState) -> CompressState:
    again = CompressState(codec="planes")
    again.load_state_dict(state.state_dict())
    return again


def copies() -> str:
    """Return the weights after four steps, whatever goes on with the last two."""
    ways: list[Callable[[CompressState], CompressState]] = [
        loaded, lambda state: pickle.loads(pickle.dumps(state)), copy.copy, copy.deepcopy
    ]  # fmt: skip
    weights = set()
    for way in ways:
        module, state = model(), CompressState(codec="planes")
        trained(module, state, range(2))
        going_on = way(state)
        weights.add(trained(module, going_on, range(2, 4)))
        assert going_on.step == 4
    (one,) = weights
    return one


def gradiveq_copies() -> None:
    """Check that a pickled state begins with the exchange's step."""
    module = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3))
    state = GradiVeQState(sampling=4)
    for count in (2, 4):
        state = pickle.loads(pickle.dumps(state))
        ddp = hooked(module, state, gradiveq_hook)
        for _ in range(2):
            ddp(torch.ones(1, 4, 8, 8)).sum().backward()
        assert state.exchange is not None
        assert state.exchange.step == count


def test_a_copy_of_a_state_goes_on_as_a_loaded_one(gloo: Ranks) -> None:
    assert len(set(gloo(copies))) == 1
    gloo(gradiveq_copies)


def unfrozen() -> None:
    module = model()
    module[0].requires_grad_(False)
    state, again, fresh = CompressState(), CompressState(), CompressState()
    trained(module, state)
    saved = state.state_dict()
    module[0].requires_grad_(True)
    assert "this CompressState serves another module" in said(lambda: trained(module, state))
    again.load_state_dict(saved)
    text = "the residuals are of a module with 4 trained parameters, this one has 6: load the state with "
    text += "residuals={}"
    assert text in said(lambda: trained(module, again))
    fresh.load_state_dict({**saved, "residuals": {}})
    trained(module, fresh)
    assert said(lambda: fresh.load_state_dict(saved)) == f"ValueError: {text}"


def test_residuals_of_a_module_before_it_was_unfrozen_are_refused(gloo: Ranks) -> None:
    gloo(unfrozen)


class FullDisk:
    """A writer of scalars whose disk is full."""

    calls = 0

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.calls += 1
        with open("/dev/full", "wb", buffering=0) as file:
            file.write(tag.encode())


def reported(**options: Any) -> tuple[list[str], int]:
    """Train with reports that fail; return the warnings, and how often the writer was called."""
    writer = FullDisk()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(model(), CompressState(tensorboard=writer, **options), range(4), **SMALL_BUCKETS)
    return [str(each.message) for each in caught if each.category is RuntimeWarning], writer.calls


def reports() -> list[tuple[list[str], int]]:
    """Where the step's last bucket is compressed, and where it is raw."""
    return [reported(), reported(smallest=20_000)]


def test_a_full_disk_becomes_one_warning(gloo: Ranks) -> None:
    zero, one = gloo(reports)
    for (text,), calls in zero:
        assert text.startswith("the curves of <")
        assert text.endswith("of compression end here: OSError: [Errno 28] No space left on device")
        assert calls == 1
    assert one == [([], 0)] * 2
