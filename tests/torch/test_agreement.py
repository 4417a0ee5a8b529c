# SPDX-License-Identifier: BSD-2-Clause
"""Ranks that would send a bucket in different ways are told so, and wrong settings are refused early."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch_ranks import ALL_GATHER, SMALL_BUCKETS, Ranks, digest, hooked, model, said, sgd, steps

from inceptionn import Codec
from inceptionn.torch import (
    CompressedReduceScatter,
    CompressState,
    all_reduce_hook,
    compressed,
    fsdp_hook,
)


def trained(state: CompressState, count: int = 2) -> str:
    ddp = hooked(model(), state, **SMALL_BUCKETS)
    steps(ddp, sgd(ddp), range(count))
    return digest(ddp.module)


def resumed(step: int, residuals: dict[int, torch.Tensor], **settings: Any) -> CompressState:
    """Return a state that goes on from a checkpoint."""
    state = CompressState(**settings)
    state.load_state_dict({"step": step, "codec": None, "residuals": residuals})
    return state


def differing() -> dict[str, str]:
    """Return what is said of a setting that differs, by what it should be."""
    rank, group = dist.get_rank(), dist.new_group(backend="inceptionn")
    calls: dict[str, Callable[[], Any]] = {
        "step differs: rank 0 has 6, rank 1 has 2": lambda: trained(resumed(6 - 4 * rank, {}, warm_up=4)),
        "step differs: rank 0 has 6, rank 1 has 5": lambda: trained(resumed(6 - rank, {}, warm_up=1)),
        "warm_up differs: rank 0 has 0, rank 1 has 1": lambda: trained(CompressState(warm_up=rank)),
        "smallest differs: rank 0 has 1, rank 1 has 1073741824": lambda: trained(
            CompressState(smallest=1 << 30 * rank)
        ),
        "warm_up differs: rank 0 has 0, rank 1 has 2": lambda: compressed(group, warm_up=2 * rank),
        "codec differs: rank 0 has 'planes 0.25 (E0 125)', rank 1 has 'planes 0.125 (E0 124)'": (
            lambda: trained(CompressState(codec=Codec(0.25 / 2**rank, "planes")))
        ),
    }
    return {text: said(call) for text, call in calls.items()}


def test_what_decides_on_raw_buckets_is_agreed_on(gloo: Ranks) -> None:
    for found in gloo(differing):
        for text, heard in found.items():
            assert heard.endswith(f"MismatchError: {text}")  # in DDP's words, where DDP raises it


def schedule(step: int) -> Codec:
    """Fails at one rank, in its second step."""
    if step == 1 and dist.get_rank() == 1:
        raise LookupError(f"no bound for step {step}")
    return Codec()


def failing_at_rank_1() -> list[str]:
    """Train with a residual of another module, and with a schedule that fails."""
    odd = {0: torch.zeros(5)} if dist.get_rank() else {}
    states = resumed(0, odd, error_feedback=True), CompressState(codec=schedule)
    return [said(lambda state=state: trained(state)) for state in states]


OTHER_SIZE = "ValueError: the residual of parameter 0 has 5 values, the parameter has "
NO_BOUND = "LookupError: no bound for step 1"


def test_an_error_of_one_rank_is_raised_at_all(gloo: Ranks) -> None:
    zero, one = gloo(failing_at_rank_1)
    for text, theirs, own in zip((OTHER_SIZE, NO_BOUND), zero, one, strict=True):
        assert text in own
        assert f"MismatchError: rank 1 cannot take part: {text}" in theirs


def wrong_residuals() -> list[str]:
    """Residuals of another module where the module's parameters are known, and some of another form."""
    state = CompressState(error_feedback=True)
    trained(state)
    kept = state.state_dict()
    texts = [
        said(lambda wrong=wrong: state.load_state_dict({**kept, "residuals": {0: wrong}}))
        for wrong in (torch.zeros(5), [1.0], torch.zeros(5, 2))
    ]
    again = state.state_dict()["residuals"]
    assert all(torch.equal(again[number], values) for number, values in kept["residuals"].items())
    return texts


def test_wrong_residuals_are_refused_and_change_nothing(gloo: Ranks) -> None:
    for other_size, no_tensor, not_flat in gloo(wrong_residuals):
        assert other_size.startswith(OTHER_SIZE)
        assert no_tensor == "ValueError: the residual of parameter 0 must be a tensor, not [1.0]"
        assert not_flat == "ValueError: the residual of parameter 0 must be flat, not of shape (5, 2)"


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


def test_an_error_of_a_schedule_is_raised_by_every_interface(gloo: Ranks) -> None:
    """In the second of three steps; the ranks then go on."""
    other = f"MismatchError: rank 1 cannot take part: {NO_BOUND}"
    for found, text in zip(gloo(schedules), (other, NO_BOUND), strict=True):
        assert found == dict.fromkeys(found, ["nothing", text, "nothing"])
        assert len(found) == 7


def shared() -> tuple[str, int, str]:
    """One state at two modules, in turn and in one backward pass; a module of its own goes on."""
    state = CompressState()
    first, second = (hooked(model(), state, **SMALL_BUCKETS) for _ in range(2))
    optimizer = sgd(first)
    steps(first, optimizer, range(2))
    in_turn = said(lambda: steps(second, sgd(second), range(1)))
    steps(first, optimizer, range(2, 4))
    both = CompressState()
    pair = [hooked(model(), both, **SMALL_BUCKETS) for _ in range(2)]
    inputs = torch.ones(4, 32)
    at_once = said(lambda: sum(ddp(inputs).square().sum() for ddp in pair).backward())
    return in_turn, state.step, at_once


def test_a_state_serves_one_module(gloo: Ranks) -> None:
    text = "ValueError: this CompressState serves another module, whose step is "
    for in_turn, step, at_once in gloo(shared):
        assert text + "2: a DDP module needs a state of its own" in in_turn
        assert text in at_once
        assert step == 4


def refused_at_construction() -> list[str]:
    wrong: list[dict[str, Any]] = [
        {"algorithm": "tree"}, {"algorithm": "paper_baseline"}, {"path": "fast"}, {"group_size": 3},
        {"group_size": 0}, {"group_size": 1.5}, {"scale": 200},
    ]  # fmt: skip
    group = dist.new_group(backend="inceptionn")
    return [
        *(said(lambda settings=settings: CompressState(**settings)) for settings in wrong),
        said(lambda: compressed(group, algorithm="worker_aggregator")),
    ]


def test_wrong_settings_are_refused_at_construction(gloo: Ranks) -> None:
    algorithms = "ValueError: algorithm must be one of ring, hierarchical, worker_aggregator, not "
    for found in gloo(refused_at_construction):
        assert found == [
            algorithms + "'tree'",
            algorithms + "'paper_baseline'",
            "ValueError: path must be one of auto, nic, software, off, not 'fast'",
            "ValueError: group_size must be 1..2 of the 2 ranks, not 3",
            "ValueError: group_size must be 1..2 of the 2 ranks, not 0",
            "TypeError: group_size must be an integer, not 1.5",
            "ValueError: scale must be None, 'auto', 'tensor', 'rms' or -126..126, not 200",
            "ValueError: algorithm must be one of ring, hierarchical, not 'worker_aggregator'",
        ]


def going_on() -> tuple[str, bool]:
    state = CompressState()
    return trained(state, 3), state.compressed > 0


def test_the_group_goes_on(gloo: Ranks) -> None:
    first, second = gloo(going_on)
    assert first == second
    assert first[1]
