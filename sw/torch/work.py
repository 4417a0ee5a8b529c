# SPDX-License-Identifier: BSD-2-Clause
"""Compressed collectives on tensors, as torch's `Work`. Those of a group run one after the other."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future as Result
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from numpy.typing import NDArray

from ..codec import Codec
from ..collectives import MEAN, SUM, Op, allgather_comp, allreduce_comp, reduce_scatter_comp
from ..collectives.ledger import Ledger, counted
from ..collectives.settings import Settings
from ..transport import Transport, TransportTimeout
from .host_copy import HostCopy, future_of
from .link import Link, link_of

Tensors = Sequence[torch.Tensor]
Copies = Sequence[HostCopy]

DEFAULT_CODEC = Codec(2**-10, "planes")
"""The codec if no NIC is used. It rounds to nearest, and needs half the bytes of ``bounded`` at the same
bound.
"""


class CompressedWork(dist.Work):
    """A compressed collective in flight."""

    def __init__(self, link: Link, result: Result[None], copies: Copies, outputs: Tensors) -> None:
        super().__init__()
        self._link, self._result, self._copies, self._outputs = link, result, copies, outputs
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the collective; raise its error, such as `PeerLost`.

        With CUDA, the current stream waits too.
        """
        seconds = timeout.total_seconds() if timeout else 0.0
        if seconds <= 0:
            self._link.run_until(self._result)
        try:
            self._result.result(seconds if seconds > 0 else None)
        except TimeoutError as error:
            raise TransportTimeout(f"a compressed collective took longer than {seconds:g} s") from error
        for copy in self._copies:
            copy.join()
        return True

    def is_completed(self) -> bool:
        """Tell whether `wait` returns or raises at once."""
        return self._result.done()

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Return a future that completes with the outputs."""
        if self._future is None:
            self._future = future_of(self._result, self._copies, lambda: list(self._outputs))
        return self._future


def operation(op: Any) -> Op | None:
    """Return this package's name of a torch reduction. None for other reductions."""
    # ReduceOp objects have an equality, but no hash that agrees with it.
    if op == dist.ReduceOp.SUM:
        return SUM
    return MEAN if op == dist.ReduceOp.AVG else None


def all_reduce(
    transport: Transport, lanes: NDArray[Any], op: Op, settings: Settings, feedback: Any = None
) -> None:
    """Call `allreduce_comp` in place. uint16 holds bfloat16 patterns."""
    allreduce_comp(transport, None, lanes, feedback=feedback, **_arguments(transport, settings, op))


def _arguments(transport: Transport, settings: Settings, op: Op = SUM) -> dict[str, Any]:
    """Return a collective's arguments, with `DEFAULT_CODEC` if neither settings nor NIC have a codec."""
    if settings.codec is None and not (transport.nic and settings.path in ("auto", "nic")):
        settings = replace(settings, codec=DEFAULT_CODEC)
    return {**vars(settings), "op": op, "dtype": "bfloat16"}


def all_reduced(
    group: Any, tensors: Tensors, op: Op, settings: Settings, ledger: Ledger
) -> CompressedWork:  # fmt: skip
    """Apply `all_reduce` to each tensor, in place, among the ranks of a group."""

    def call(transport: Transport, sources: Copies, results: Copies) -> None:
        for copy in results:
            all_reduce(transport, copy.array, op, settings)

    return _submitted(group, call, (), tensors, ledger)


def reduce_scattered(
    group: Any, outputs: Tensors, inputs: Tensors, op: Op, settings: Settings, ledger: Ledger
) -> CompressedWork:
    """Apply `reduce_scatter_comp` to each pair of tensors."""
    return _pairwise(reduce_scatter_comp, group, outputs, inputs, op, settings, ledger)


def all_gathered(
    group: Any, outputs: Tensors, inputs: Tensors, settings: Settings, ledger: Ledger
) -> CompressedWork:  # fmt: skip
    """Apply `allgather_comp` to each pair of tensors."""
    return _pairwise(allgather_comp, group, outputs, inputs, SUM, settings, ledger)


def _pairwise(
    collective: Callable[..., None],
    group: Any,
    outputs: Tensors,
    inputs: Tensors,
    op: Op,
    settings: Settings,
    ledger: Ledger,
) -> CompressedWork:
    def call(transport: Transport, sources: Copies, results: Copies) -> None:
        for source, result in zip(sources, results, strict=True):
            collective(transport, source.array, result.array, **_arguments(transport, settings, op))

    return _submitted(group, call, inputs, outputs, ledger)


def _submitted(
    group: Any,
    call: Callable[[Transport, Copies, Copies], None],
    inputs: Tensors,
    outputs: Tensors,
    ledger: Ledger,
) -> CompressedWork:
    """Submit a call on the inputs' and the outputs' values; without inputs it works in place."""
    link = link_of(group)
    sources = [HostCopy(tensor) for tensor in inputs]
    results = [HostCopy(tensor, filled=not inputs) for tensor in outputs]

    def run() -> None:
        with counted(link.transport, ledger):
            call(link.transport, sources, results)
        for copy in results:
            copy.store()

    return CompressedWork(link, link.submit(run), results, outputs)
