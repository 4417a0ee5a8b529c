# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ as DDP's communication hook, with the codec after it."""

from concurrent.futures import Future as Result
from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist

from ..collectives.ledger import Ledger, Statistics, counted
from ..layers.gradiveq import GradiVeQ
from ..layers.parameters import Parameters
from .hook_checks import check_call, check_size
from .host_copy import HostCopy, future_of, lanes_of
from .link import link_of


class GradiVeQState:
    """The state of `gradiveq_hook`: an `inceptionn.layers.gradiveq.GradiVeQ` for all gradients of a step.

    ``settings`` are GradiVeQ's. ``codec`` compresses the compressed slices further, and ``rest_codec`` the
    keys that are not convolutions. The all-reduce begins with DDP's last bucket, since GradiVeQ works on
    layers, not on buckets. Attributes: ``exchange``, the `GradiVeQ`, made in the first step;
    ``process_group``, ``ledger``. `statistics` tells what the exchange costs.
    """

    def __init__(self, process_group: dist.ProcessGroup | None = None, **settings: Any) -> None:
        self.process_group, self.settings = process_group, settings
        self.exchange: GradiVeQ | None = None
        self._saved: dict[str, Any] | None = None
        """What a copy of another state begins with."""
        self.ledger = Ledger()
        self._numbers: dict[int, int] = {}
        self._seen: list[Any] = []
        self._copies: dict[str, HostCopy] = {}
        """The gradients of the current step so far."""
        self._result: Result[None] = Result()
        """Completed by the current step's exchange."""

    def __getstate__(self) -> dict[str, Any]:
        """Return settings, statistics and what the exchange keeps, for pickle and copies between two steps.

        A copy has the default group, unless its ``process_group`` is set, and serves a module wrapped anew.
        """
        saved = self._saved if self.exchange is None else self.exchange.state_dict()
        return {"settings": self.settings, "ledger": self.ledger, "saved": deepcopy(saved)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["settings"])  # type: ignore[misc]
        self.ledger, self._saved = state["ledger"], state["saved"]

    def key(self, parameter: torch.Tensor) -> str:
        """Return the key of a parameter, by the order of parameters in DDP's first step."""
        if id(parameter) not in self._numbers:
            self._numbers[id(parameter)] = len(self._seen)
            self._seen.append(parameter)
        return f"{self._numbers[id(parameter)]:04d}"

    def statistics(self) -> Statistics:
        """Return what the gradients of this state have cost this rank so far, by phase and in all."""
        return self.ledger.statistics()

    def reduce(self, copies: dict[str, HostCopy]) -> None:
        """Replace a step's gradients by their means. Runs in the group's thread."""
        gradients: Parameters = {key: copies[key].array for key in sorted(copies)}
        transport = link_of(self.process_group).transport
        if self.exchange is None:
            exchange = GradiVeQ(transport, gradients, **self.settings)
            if self._saved is not None:
                exchange.load_state_dict(self._saved)
            self.exchange = exchange
        with counted(transport, self.ledger):
            means = self.exchange.all_reduce(gradients)
        for key, mean in means.items():
            copies[key].array[...] = mean
            copies[key].store()


def gradiveq_hook(
    state: GradiVeQState, bucket: dist.GradBucket, *outputs: Any
) -> torch.futures.Future[torch.Tensor]:
    """Average gradients as DDP's communication hook, with GradiVeQ.

    Register it with ``ddp.register_comm_hook(GradiVeQState(codec=...), gradiveq_hook)``. Raises ``TypeError``
    for another state, for sparse gradients, and if it is FSDP's hook.
    """
    check_call(gradiveq_hook, GradiVeQState, state, bucket)
    link, buffer = link_of(state.process_group), bucket.buffer()
    if buffer.layout is not torch.strided:
        raise TypeError("GradiVeQ takes dense gradients alone; compress_hook sends those of sparse=True raw")
    check_size(bucket)
    parameters, gradients = bucket.parameters(), bucket.gradients()
    if any(parameter.is_complex() for parameter in parameters):
        # Torch's own views of a complex bucket, whose buffer is real, have half of its values.
        gradients = list(buffer.split(list(map(lanes_of, parameters))))
    pairs = zip(parameters, gradients, strict=True)
    copies = {state.key(parameter): HostCopy(gradient, wide=True) for parameter, gradient in pairs}
    state._copies |= copies
    future = future_of(state._result, list(copies.values()), lambda: buffer)
    if bucket.is_last():
        step, result = state._copies, state._result
        state._copies, state._result = {}, Result()

        def run() -> None:
            try:
                state.reduce(step)
            except BaseException as error:
                result.set_exception(error)
            else:
                result.set_result(None)

        link.submit(run)
    return future
