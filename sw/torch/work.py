# SPDX-License-Identifier: BSD-2-Clause
"""Compressed collectives on tensors, as torch's `Work`. Those of a group run one after the other."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future as Result
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..collectives import MEAN, SUM, Op
from ..collectives.allreduce import all_reduce
from ..collectives.blockwise import all_gather, reduce_scatter
from ..collectives.ledger import Ledger, counted
from ..collectives.requests import plan
from ..collectives.settings import Settings
from ..transport import Transport, TransportTimeout
from .host_copy import HostCopy, future_of
from .link import Link, link_of
from .residuals import Layout, Residuals

Tensors = Sequence[torch.Tensor]
Copies = Sequence[HostCopy]
Apply = Callable[[Transport, Settings, Copies, Copies], None]
"""A collective on some inputs and outputs."""


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


def all_reduced(
    group: Any,
    tensors: Tensors,
    op: Op,
    settings: Settings,
    ledger: Ledger,
    residuals: tuple[Residuals, Sequence[Layout]] | None = None,
) -> CompressedWork:
    """Apply `allreduce_comp` to each tensor, in place, among the ranks of a group.

    ``residuals``: of error feedback, and the layout of each tensor.
    """

    def call(transport: Transport, whole: Settings, sources: Copies, results: Copies) -> None:
        for number, copy in enumerate(results):
            fed = None if residuals is None else residuals[0].of_call(transport, residuals[1][number])
            plan(transport, None, all_reduce, None, copy.array.reshape(-1), whole, fed).run()

    return _submitted(group, call, (), tensors, op, settings, ledger)


def reduce_scattered(
    group: Any, outputs: Tensors, inputs: Tensors, op: Op, settings: Settings, ledger: Ledger
) -> CompressedWork:
    """Apply `reduce_scatter_comp` to each pair of tensors."""
    return _submitted(group, _pairwise(reduce_scatter), inputs, outputs, op, settings, ledger)


def all_gathered(
    group: Any, outputs: Tensors, inputs: Tensors, settings: Settings, ledger: Ledger
) -> CompressedWork:  # fmt: skip
    """Apply `allgather_comp` to each pair of tensors."""
    return _submitted(group, _pairwise(all_gather), inputs, outputs, SUM, settings, ledger)


def _pairwise(collective: Callable[..., None]) -> Apply:
    def call(transport: Transport, whole: Settings, sources: Copies, results: Copies) -> None:
        for source, result in zip(sources, results, strict=True):
            plan(transport, None, collective, source.array, result.array, None, whole).run()

    return call


def _submitted(
    group: Any,
    call: Apply,
    inputs: Tensors,
    outputs: Tensors,
    op: Op,
    settings: Settings,
    ledger: Ledger,
) -> CompressedWork:
    """Submit a call on the inputs' and the outputs' values; without inputs it works in place."""
    link = link_of(group)
    sources = [HostCopy(tensor) for tensor in inputs]
    results = [HostCopy(tensor, filled=not inputs) for tensor in outputs]

    def run() -> None:
        with counted(link.transport, ledger):
            call(link.transport, replace(settings, op=op, dtype="bfloat16"), sources, results)
        for copy in results:
            copy.store()

    return CompressedWork(link, link.submit(run), results, outputs)
