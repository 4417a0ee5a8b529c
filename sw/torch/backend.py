# SPDX-License-Identifier: BSD-2-Clause
"""The backend ``"inceptionn"`` of torch.distributed: gloo, with the codec in groups for gradients."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..collectives import Op
from ..collectives.ledger import Ledger
from ..collectives.settings import RING_ALGORITHMS, Settings
from .hook import CompressState
from .host_copy import lanes_of, takes
from .link import link_of
from .residuals import Layout, PlacedResiduals
from .work import Tensors, all_gathered, all_reduced, operation, reduce_scattered

BACKEND = "inceptionn"


class InceptionnProcessGroup(dist.ProcessGroup):
    """A process group over gloo, and NCCL for CUDA tensors if torch has it. `compressed` adds the codec.

    Until `compressed` is called, everything goes to gloo and NCCL. After it, sums and means of floating-point
    tensors (all-reduce, reduce-scatter, and optionally all-gather) go through the codec. Small tensors and
    everything else, such as broadcasts and barriers, still go to gloo and NCCL.

    ``init_process_group("cpu:inceptionn,cuda:nccl")`` or ``new_group(backend="inceptionn")`` makes it. It
    replaces the group's other backends, so it has its own NCCL.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.timeout, self.store = timeout, store
        self.state: CompressState | None = None
        self.all_gather = False
        kinds = dist.ProcessGroup.BackendType
        gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout=timeout)
        gloo._set_sequence_number_for_group()
        self._register_backend(torch.device("cpu"), kinds.GLOO, gloo)
        self._set_default_backend(kinds.GLOO)
        if torch.cuda.is_available() and dist.is_nccl_available():
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = timeout
            nccl = dist.ProcessGroupNCCL(dist.PrefixStore("nccl", store), rank, size, options)
            nccl._set_sequence_number_for_group()
            self._register_backend(torch.device("cuda"), kinds.NCCL, nccl)

    def getBackendName(self) -> str:
        """Return the backend's name, for torch."""
        return BACKEND

    def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        """Sum or average over all ranks, in place. Compressed if `compressed` was called and applies."""
        tensors, opts = _listed(tensors), _options(c10d.AllreduceOptions, opts)
        if (how := self._taken(tensors, opts.reduceOp, 2)) is not None:
            return all_reduced(self, tensors, *how, self._residuals(tensors))
        return self._other(tensors).allreduce(tensors, opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> dist.Work:
        """All-reduce several tensors, as `allreduce` does."""
        opts = _options(c10d.AllreduceCoalescedOptions, opts)
        if (how := self._taken(tensors, opts.reduceOp, 2)) is not None:
            return all_reduced(self, tensors, *how, self._residuals(tensors))
        return self._other(tensors).allreduce_coalesced(tensors, opts)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> dist.Work:
        """Give each rank its block of the sum or mean of all inputs.

        Compressed if `compressed` was called and applies.
        """
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        """Reduce-scatter several tensors, as `reduce_scatter_single` does."""
        opts = _options(c10d.ReduceScatterOptions, opts)
        if (how := self._taken(inputs, opts.reduceOp)) is not None:
            return reduce_scattered(self, outputs, inputs, *how)
        return _of_each(self._other(inputs)._reduce_scatter_base, outputs, inputs, opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        """Reduce-scatter lists with one tensor per rank, as `reduce_scatter_single` does."""
        opts = _options(c10d.ReduceScatterOptions, opts)
        outputs, inputs = _listed(outputs), inputs if isinstance(inputs[0], list | tuple) else [inputs]
        joined = [torch.cat([part.reshape(-1) for part in parts]) for parts in inputs]
        even = all(len({part.numel() for part in parts}) == 1 for parts in inputs)
        how = self._taken(joined, opts.reduceOp) if even else None
        if how is not None:
            return reduce_scattered(self, outputs, joined, *how)
        return self._other(outputs).reduce_scatter(outputs, inputs, opts)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> dist.Work:
        """Concatenate all ranks' inputs. Compressed only with ``compressed(all_gather=True)``."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        """All-gather several tensors, as `all_gather_single` does."""
        opts = _options(c10d.AllgatherOptions, opts)
        how = self._taken(inputs, dist.ReduceOp.SUM) if self.all_gather else None
        if how is not None:
            return all_gathered(self, outputs, inputs, *how[1:])
        return _of_each(self._other(inputs)._allgather_base, outputs, inputs, opts)

    # The following methods only call torch's own, but release the interpreter's lock. C++ would call torch's
    # own with that lock held. A gloo thread may wait for it while holding gloo's lock, and both would wait
    # forever.

    def broadcast(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        """Broadcast by torch's own backend."""
        if not isinstance(opts, c10d.BroadcastOptions):
            root, opts = opts or 0, c10d.BroadcastOptions()
            opts.rootRank = root
        return self._other(_listed(tensors)).broadcast(_listed(tensors), opts)

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        """Wait for all ranks, over gloo."""
        return self._get_backend(torch.device("cpu")).barrier(_options(c10d.BarrierOptions, opts))

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        """All-gather lists by torch's own backend."""
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        return self._other(inputs).allgather(outputs, inputs, _options(c10d.AllgatherOptions, opts))

    def all_to_all_single(self, output: Any, input: Any, out: Any, into: Any, opts: Any = None) -> dist.Work:
        """Exchange blocks by torch's own backend."""
        return self._other([input]).alltoall_base(
            output, input, out, into, _options(c10d.AllToAllOptions, opts)
        )

    def send(self, tensors: Any, rank: int, tag: int = 0) -> dist.Work:
        """Send by torch's own backend."""
        return self._other(_listed(tensors)).send(_listed(tensors), rank, tag)

    def recv(self, tensors: Any, rank: int, tag: int = 0) -> dist.Work:
        """Receive by torch's own backend."""
        return self._other(_listed(tensors)).recv(_listed(tensors), rank, tag)

    # Their names before torch 2.13.
    alltoall_base = all_to_all_single
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _taken(self, tensors: Tensors, op: Any, legs: int = 1) -> tuple[Op, Settings, Ledger] | None:
        """Return how to compress these tensors, and where to count; None for gloo and NCCL.

        ``legs`` of a ring are 2 for an all-reduce.
        """
        wanted = operation(op)
        if self.state is None or wanted is None:
            return None
        if not all(map(takes, tensors)):
            return None
        settings = self.state.chosen(max(tensors, key=lanes_of), self, legs)
        return None if settings is None else (wanted, settings, self.state.ledger)

    def _residuals(self, tensors: Tensors) -> tuple[PlacedResiduals, list[Layout]] | None:
        """Return the residuals of an all-reduce, by the places of these tensors; None without feedback."""
        residuals = None if self.state is None else self.state.residuals
        if not isinstance(residuals, PlacedResiduals):
            return None
        return residuals, [residuals.place(lanes_of(tensor)) for tensor in tensors]

    def _other(self, tensors: Tensors) -> Any:
        """Return torch's own backend for these tensors."""
        return self._get_backend(tensors[0].device)

    def shutdown(self) -> None:
        """Close the connections. `torch.distributed.destroy_process_group` calls this."""
        if self.state is not None:
            link_of(self).close()
            self.state = None
        super().shutdown()


def compressed(
    group: dist.ProcessGroup,
    codec: Any = None,
    *,
    all_gather: bool = False,
    error_feedback: bool | float = False,
    **settings: Any,
) -> CompressState:
    """Compress the gradients of a process group from here on. All its ranks must call this.

    Sums and means of floating-point tensors go through the codec, in all-reduce and reduce-scatter. With
    ``all_gather`` that is compressed too; FSDP gathers weights, which should stay exact. ``settings`` are
    those of `CompressState` except ``leave_out`` and scale "tensor"; the algorithm is "ring" or
    "hierarchical".

    With ``error_feedback`` (off by default) an all-reduce adds what compression took from the all-reduce at
    the same place of the last step. `CompressState.advance` ends a step, so call it after each. Every step
    makes the same all-reduces in the same order; one whose number of values changes begins anew.

    Returns the state, which has `CompressState.statistics`. Assign its ``codec`` to change it. Call its
    ``advance`` after each step also if the codec is a function of the step. Raises ``TypeError`` for a group
    of another backend, and `MismatchError` at every rank if ``warm_up`` or ``smallest`` differ.
    """
    if not isinstance(group, InceptionnProcessGroup):
        raise TypeError(f"the group must be made with backend='{BACKEND}', not {type(group).__name__}")
    if all_gather and settings.get("scale") == "rms":
        raise ValueError("scale 'rms' is for sums: leave out all_gather")
    state = state_for(group, codec, error_feedback=error_feedback or False, **settings)
    state.agree(group)
    group.state, group.all_gather = state, all_gather
    return state


def state_for(group: dist.ProcessGroup | None, codec: Any, **settings: Any) -> CompressState:
    """Return the state of `compressed`, or raise its errors for wrong settings, without other ranks."""
    if settings.get("leave_out"):
        raise ValueError("leave_out needs compress_hook, since a group cannot identify tensors")
    if settings.get("scale") == "tensor":
        raise ValueError("scale 'tensor' needs compress_hook: a group's 'auto' is of each call's tensor")
    state = CompressState(group, codec=codec, **settings)
    if state.residuals is not None:
        state.residuals = PlacedResiduals(state.residuals.feedback)
    if (algorithm := state.algorithm) not in RING_ALGORITHMS:
        raise ValueError(f"algorithm must be one of {', '.join(RING_ALGORITHMS)}, not {algorithm!r}")
    return state


class _All(dist.Work):
    """Several works of another backend as one."""

    def __init__(self, works: list[Any]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait()
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)


def _of_each(call: Callable[..., Any], outputs: Tensors, inputs: Tensors, opts: Any) -> Any:
    """Run another backend's work on all pairs of tensors, as one work."""
    works = [call(o, i, opts) for o, i in zip(outputs, inputs, strict=True)]
    return works[0] if len(works) == 1 else _All(works)


def _listed(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _options(kind: Any, opts: Any) -> Any:
    """Return torch's record of options: as given, the default, or that of a reduction."""
    if isinstance(opts, kind):
        return opts
    made = kind()
    if opts is not None:
        made.reduceOp = opts
    return made


def _create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> InceptionnProcessGroup:
    return InceptionnProcessGroup(store, rank, size, timeout)


if not hasattr(dist.Backend, BACKEND.upper()):
    dist.Backend.register_backend(BACKEND, _create, devices=["cpu", "cuda"])
