# SPDX-License-Identifier: BSD-2-Clause
"""Compressed gradients for FSDP: a communication hook for FSDP1, and replacements for FSDP2's collectives."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ..collectives import MEAN
from .hook import CompressState
from .work import all_reduced, operation, reduce_scattered

REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
"""Torch's own function. Its name was the second one before torch 2.13."""


def fsdp_hook(state: CompressState, gradient: torch.Tensor, output: torch.Tensor | None = None) -> None:
    """Average gradients as FSDP1's communication hook: ``model.register_comm_hook(state, fsdp_hook)``.

    It computes the mean of all ranks' gradients. For a sharded module, ``output`` gets this rank's part. For
    one that is not sharded (``NO_SHARD``), the mean is in place, the same bits at all ranks.
    """
    _usable(state)
    group = state.process_group
    settings = state.chosen(gradient, group, legs=1 if output is not None else 2)
    if settings is None:
        # Not every backend has AVG, so this divides, like torch's own hooks.
        if output is None:
            dist.all_reduce(gradient, group=group)
        else:
            REDUCE_SCATTER(output, gradient, group=group)
        (gradient if output is None else output).div_(dist.get_world_size(group))
    elif output is None:
        all_reduced(group, [gradient], MEAN, settings, state.ledger).wait()
    else:
        reduce_scattered(group, [output], [gradient], MEAN, settings, state.ledger).wait()


class CompressedReduceScatter:
    """FSDP2's reduce-scatter: ``module.set_custom_reduce_scatter(CompressedReduceScatter(state))``.

    One object serves all modules of a model, each over its own mesh. Sums and means go through the codec.
    Small gradients, warm-up steps and other reductions go to the mesh's own backend. Call ``state.advance()``
    after each step if the state has a warm-up or a schedule.
    """

    def __init__(self, state: CompressState) -> None:
        self.state = _usable(state)

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:  # fmt: skip
        """Return memory for FSDP's buffers."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Return this rank's block of the sum or mean of all ranks' inputs."""
        wanted = operation(op)
        settings = None if wanted is None else self.state.chosen(input_tensor, group, legs=1)
        if wanted is None or settings is None:
            return REDUCE_SCATTER(output_tensor, input_tensor, op=op, group=group, async_op=async_op)
        work = reduce_scattered(group, [output_tensor], [input_tensor], wanted, settings, self.state.ledger)
        if async_op:
            return work
        work.wait()
        return None


def all_reduce_hook(state: CompressState) -> Callable[[torch.Tensor], None]:
    """Make FSDP2's all-reduce between replicas: ``module.set_all_reduce_hook(all_reduce_hook(state))``.

    It is for a model that FSDP2 shards inside a host and replicates between hosts. After the reduce-scatter,
    it takes the compressed mean over ``state.process_group``, the replicas of a shard.
    """
    _usable(state)

    def hook(gradient: torch.Tensor) -> None:
        settings = state.chosen(gradient, state.process_group)
        if settings is None:
            dist.all_reduce(gradient, group=state.process_group)
            gradient.div_(dist.get_world_size(state.process_group))
        else:
            all_reduced(state.process_group, [gradient], MEAN, settings, state.ledger).wait()

    return hook


def _usable(state: CompressState) -> CompressState:
    if state.feeds_back_by_default:
        state.residuals = None
    if state.residuals is not None:
        raise ValueError("error_feedback needs DDP's hook, since FSDP's ranks do not keep whole gradients")
    if state.by_tensor:
        raise ValueError("scale 'tensor' needs DDP's hook: FSDP passes a module's gradients as one tensor")
    if state.left_out.names:
        raise ValueError("leave_out needs DDP's hook: FSDP passes a module's gradients without their names")
    return state
