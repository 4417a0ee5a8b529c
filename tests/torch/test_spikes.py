# SPDX-License-Identifier: BSD-2-Clause
"""Error feedback of `compress_hook` after steps that a program has skipped."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch_ranks import SMALL_BUCKETS, Ranks, digest, hooked, loss_of, model, saved_and_loaded, sgd

from inceptionn.torch import CompressState

SPIKES = (3, 5)


class Training:
    """A module whose last rank has a loss of so many times its own in some steps. They are not applied."""

    def __init__(self, state: CompressState, factor: float, **options: Any) -> None:
        self.module, self.state, self.factor = model(), state, factor
        self.ddp = hooked(self.module, state, **options)
        self.optimizer = sgd(self.ddp)

    def step(self, step: int) -> float:
        """Make one step, and return the norm of its gradient."""
        self.ddp.zero_grad()
        loss = loss_of(self.ddp, step)
        spike = step in SPIKES
        if spike and dist.get_rank() == dist.get_world_size() - 1:
            loss = loss * self.factor
        loss.backward()
        if not spike:
            self.optimizer.step()
        return float(torch.nn.utils.get_total_norm([p.grad for p in self.ddp.parameters()]))


def norms(factor: float, **options: Any) -> list[float]:
    training = Training(CompressState(**options), factor, **SMALL_BUCKETS)
    return [training.step(step) for step in range(7)]


def spikes() -> dict[str, list[float]]:
    return {
        "ordinary": norms(1.0),
        **{f"{factor:g}": norms(factor) for factor in (1e3, 1e6)},
        "by tensor": norms(1e6, scale="tensor"),
        "paper": norms(1e6, codec="paper", error_feedback=True),
    }


def infinity() -> float:
    """Under a loss scaler, an infinity of the last rank in the first weights beside values of 1e6 times.

    Return the norm of the next step.
    """
    training = Training(CompressState(), 1e6)

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clone().index_fill_(1, torch.tensor([3]), torch.inf)

    for step in range(3):
        training.step(step)
    last = dist.get_rank() == dist.get_world_size() - 1
    spoiling = training.module[0].weight.register_hook(spoil if last else torch.clone)
    training.step(3)
    assert not any(values.any() for values in training.state.state_dict()["residuals"].values())
    spoiling.remove()
    return training.step(4)


def test_the_step_after_a_spike_or_an_infinity_is_an_ordinary_one(gloo: Ranks) -> None:
    ordinary, *others = gloo(spikes)[0].values()
    assert len(others) == 4
    for found in others:
        assert found[3] > 400 * ordinary[3]
        for step in (4, 6):
            assert found[step] == pytest.approx(ordinary[step], rel=0.1)
    assert gloo(infinity) == pytest.approx([ordinary[4]] * 2, rel=0.1)


def reset() -> None:
    """Look at how much a state keeps before and after a reset, in two steps."""
    training = Training(CompressState(), 1e6, **SMALL_BUCKETS)
    for step in range(2):
        training.step(step)
        assert len(training.state.state_dict()["residuals"]) == 6
        training.state.reset_residuals()
        kept = training.state.state_dict()
        assert kept["residuals"] == kept["scales"] == {}
    CompressState(error_feedback=False).reset_residuals()


def test_residuals_can_be_forgotten(gloo: Ranks) -> None:
    gloo(reset)


def resumed(change: Callable[[dict[str, Any]], Any] | None, scale: Any) -> str:
    """Train, and before the first spike begin anew from what was saved and changed; None: go on."""
    training = Training(CompressState(scale=scale), 1e4)
    for step in range(3):
        training.step(step)
    if change is not None:
        saved = saved_and_loaded(training.state.state_dict())
        before, training = training, Training(CompressState(scale=scale), 1e4)
        training.module.load_state_dict(before.module.state_dict())
        training.optimizer.load_state_dict(before.optimizer.state_dict())
        training.state.load_state_dict(change(saved))
    for step in range(3, 6):
        training.step(step)
    return digest(training.module)


def resumes(scale: Any) -> None:
    going_on = resumed(None, scale)
    assert resumed(dict, scale) == going_on
    assert resumed(lambda state: {**state, "scales": {}}, scale) != going_on


@pytest.mark.parametrize("scale", ["auto", "tensor"])
def test_a_saved_state_knows_what_a_spike_is(gloo: Ranks, scale: str) -> None:
    """So a resumed run has the bits of an uninterrupted one, also if its first step is a spike."""
    gloo(resumes, scale)
