# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback in a compressed group, whose all-reduces are known by their places in a step."""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch_ranks import Ranks, said, trained

from inceptionn import Codec
from inceptionn.collectives import ErrorFeedback, allreduce_comp
from inceptionn.torch import CompressState, compressed, residuals
from inceptionn.torch.link import link_of

CODEC = Codec(2**-5, "planes")
SIZES, STEPS = (5_000, 40_000), 12


def gradients(rank: int, step: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(100 * step + rank)
    return [torch.randn(size, generator=random) for size in SIZES]


def group_with(codec: Codec = CODEC, **settings: Any) -> tuple[dist.ProcessGroup, CompressState]:
    group = dist.new_group(backend="inceptionn")
    return group, compressed(group, codec, **settings)


def run(group: dist.ProcessGroup, state: CompressState, which: range) -> list[torch.Tensor]:
    """Return the sums of each tensor over some steps."""
    totals = [torch.zeros(size) for size in SIZES]
    for step in which:
        for total, tensor in zip(totals, gradients(dist.get_rank(), step), strict=True):
            dist.all_reduce(tensor, group=group)
            total += tensor
        state.advance()
    return totals


def error(totals: list[torch.Tensor], which: range) -> float:
    """Return the energy of what totals lack of the exact sums, over the sums' energy."""
    ranks = range(dist.get_world_size())
    exact = [sum(gradients(rank, step)[place] for rank in ranks for step in which) for place in (0, 1)]
    lost = sum(float((one - other).square().sum()) for one, other in zip(totals, exact, strict=True))
    return lost / sum(float(one.square().sum()) for one in exact)


def errors() -> list[float]:
    return [error(run(*group_with(error_feedback=on), range(STEPS)), range(STEPS)) for on in (False, True)]


def test_later_steps_return_what_compression_took(gloo: Ranks) -> None:
    for without, fed in gloo(errors):
        assert 0 < fed < without / 4


def by_hand() -> bool:
    """Compare with `allreduce_comp`, which has a name for each tensor."""
    group, state = group_with(error_feedback=0.9)
    found = run(group, state, range(3))
    transport, feedback = link_of(group).transport, ErrorFeedback(CODEC, 0.9)
    totals = [np.zeros(size, np.float32) for size in SIZES]
    for step in range(3):
        for place, tensor in enumerate(gradients(dist.get_rank(), step)):
            allreduce_comp(transport, None, tensor.numpy(), codec=CODEC, feedback=(feedback, place))
            totals[place] += tensor.numpy()
    return all(np.array_equal(one, other) for one, other in zip(totals, found, strict=True))


def test_has_the_bits_of_a_feedback_by_name(gloo: Ranks) -> None:
    assert gloo(by_hand) == [True, True]


def resumed() -> list[bool]:
    """Save after three steps and go on in another group, with a coalesced call in place of single ones."""
    group, state = group_with(error_feedback=True)
    run(group, state, range(3))
    saved = state.state_dict()
    other, loaded = group_with(error_feedback=True)
    loaded.load_state_dict(saved)
    whole = run(group, state, range(3, 5))
    found = []
    for step in (3, 4):
        tensors = gradients(dist.get_rank(), step)
        dist.all_reduce_coalesced(tensors, group=other)
        loaded.advance()
        found.append(tensors)
    totals = [one + two for one, two in zip(*found, strict=True)]
    plain = run(*group_with(), range(3, 5))
    same = [torch.equal(one, two) for one, two in zip(totals, whole, strict=True)]
    return [*same, torch.equal(plain[0], whole[0])]


def test_resumes_with_the_same_bits(gloo: Ranks) -> None:
    assert gloo(resumed) == [[True, True, False]] * 2


def another_size() -> list[Any]:
    """Change a place's size: it begins anew, and the other one goes on."""
    group, state = group_with(error_feedback=True)
    run(group, state, range(1))
    first, second = torch.ones(9_000), gradients(dist.get_rank(), 1)[1]
    dist.all_reduce(first, group=group)
    dist.all_reduce(second, group=group)
    sizes = [values.numel() for _, values in sorted(state.state_dict()["residuals"].items())]
    state.reset_residuals()
    return [sizes, state.state_dict()["residuals"]]


def test_a_place_of_another_size_begins_anew(gloo: Ranks) -> None:
    assert gloo(another_size) == [[[9_000, 40_000], {}]] * 2


def in_ddp() -> list[Any]:
    """Train a module in DDP over the group, without a hook; DDP's buckets change after the first step."""
    group, _ = group_with(Codec(2**-9, "planes"), error_feedback=True, smallest=1000)
    return [trained(process_group=group, bucket_cap_mb=0.05), trained()]


def test_trains_in_ddp(gloo: Ranks) -> None:
    one, other = gloo(in_ddp)
    assert one == other
    assert abs(one[0]["loss"] - one[1]["loss"]) < 0.01


def without_advance() -> list[str]:
    residuals.MOST_PLACES = 3
    group, state = group_with(error_feedback=True)
    for _ in range(3):
        dist.all_reduce(torch.ones(5_000), group=group)
    heard = said(lambda: dist.all_reduce(torch.ones(5_000), group=group))
    state.advance()
    dist.all_reduce(torch.ones(5_000), group=group)
    residuals.MOST_PLACES = 4096
    return heard


def test_a_step_that_never_ends_is_an_error(gloo: Ranks) -> None:
    for heard in gloo(without_advance):
        assert heard.startswith("ValueError: 3 all-reduces with error feedback in one step: call advance()")
