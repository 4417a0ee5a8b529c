# SPDX-License-Identifier: BSD-2-Clause
"""Compressed groups and local updates for torchft, which forms a group anew when a replica is lost or joins.

Not imported by `inceptionn.torch`; it needs ``pip install 'torchft==0.2.*'``, some of whose names it uses are
not public.
"""

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torchft import Manager
from torchft.process_group import ProcessGroupWrapper

from ..collectives.settings import GradientKeywords, check_names
from .backend import BACKEND, InceptionnProcessGroup, compressed, state_for
from .hook import CompressState
from .local_updates.diloco import DiLoCo
from .local_updates.fragment import Kept

_KEY = "inceptionn.torch.torchft"


class _ErrorInFuture(dist.Work):
    """A work whose `wait` does not raise its error: torchft's hook for DDP would end its replica then."""

    def __init__(self, work: dist.Work) -> None:
        super().__init__()
        self._work = work

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end; tell whether it was a good one."""
        try:
            return self._work.wait() if timeout is None else self._work.wait(timeout)
        except Exception:  # the future raises it, and torchft reports that
            return False

    def get_future(self) -> torch.futures.Future[Any]:
        """Return a future that completes with the tensors, or raises the error."""
        return self._work.get_future()


class CompressedGroup(ProcessGroupWrapper):
    """The process group of all replicas, for torchft's `Manager` and what uses it, and `FaultTolerantDiLoCo`.

    ::

        manager = Manager(pg=CompressedGroup(timeout=limit), ...)

    ``timeout`` limits every wait; ``codec``, ``smallest`` and the other settings are those of `compressed`.
    torchft's all-reduces of gradients go through the codec, without error feedback. Those of integers and of
    fewer values than ``smallest`` go to gloo, or NCCL for tensors on a GPU.

    Attribute: ``state``, the `CompressState` of the present group, whose statistics begin anew with it.
    Raises ``TypeError`` and ``ValueError`` for wrong settings.
    """

    state: CompressState

    def __init__(
        self, timeout: timedelta = timedelta(seconds=60), codec: Any = None, **settings: Any
    ) -> None:  # fmt: skip
        super().__init__(timeout)
        check_names(type(self).__name__, settings, {*GradientKeywords.__annotations__, "smallest"})
        state_for(None, codec, **settings)  # raises here, and not in torchft, which would log it
        self._codec, self._settings = codec, settings

    def _create_pg(self, store: dist.Store, rank: int, size: int) -> dist.ProcessGroup:
        group = InceptionnProcessGroup(store, rank, size, self._timeout)
        self.state = compressed(group, self._codec, **self._settings)
        return group

    def allreduce(self, tensors: list[torch.Tensor], opts: object) -> dist.Work:
        """Sum or average. An error, such as `PeerLost`, is raised by the future of the work alone."""
        return _ErrorInFuture(super().allreduce(tensors, opts))

    def abort(self, errored: bool = True) -> None:
        """Close the connections of the present group."""
        if isinstance(self._pg, InceptionnProcessGroup):
            self._pg.shutdown()
        super().abort(errored)

    def getBackendName(self) -> str:
        """Return its name, for torch."""
        return BACKEND


class FaultTolerantDiLoCo(DiLoCo):
    """`DiLoCo` over the replicas of a torchft `Manager`: without a lost one, and with one that is back.

    ::

        group = CompressedGroup(timeout=limit)
        manager = Manager(pg=group, use_async_quorum=False, load_state_dict=load, state_dict=save, ...)
        diloco = FaultTolerantDiLoCo(manager, group, model, optimizer, every=16)
        ...
            optimizer.step()
            diloco.step()

    ``load`` and ``save`` are for the model and the inner optimizer. The other arguments and errors are those
    of `DiLoCo`, without fragments and delay. Every ``every`` steps torchft forms a quorum. In a new group all
    replicas get the anchor of the furthest one, as in `DiLoCo.regroup`; so the first outer step of a replica
    that is back adds nothing. One all-reduce of all values follows. A replica moves its anchor if torchft
    commits the step, else anchor, momentum, residual and weights stay, and the next outer step has what this
    one had to send. Replicas that begin with equal weights need ``Manager(init_sync=False)``, or the first
    outer step has the first replica's inner steps alone.
    """

    def __init__(
        self,
        manager: Manager,
        replicas: CompressedGroup,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        every: int = 16,
        **settings: Any,
    ) -> None:
        if manager._use_async_quorum:
            raise ValueError("local updates need Manager(use_async_quorum=False)")
        for name in ("group", "fragments", "delay", "mixing"):
            if name in settings:
                raise TypeError(f"{type(self).__name__} takes no {name}")
        self.manager, self.replicas, self._healed = manager, replicas, False
        super().__init__(model, optimizer, every, **settings)
        manager.register_state_dict_fn(_KEY, self._heal, dict)

    def _join(self, wrong: Exception | None = None) -> None:
        """Do nothing at first: a group is there after the first quorum."""
        if wrong is not None:
            raise wrong
        if self.group is not None:
            super()._join()

    def _heal(self, state: object) -> None:
        """Take note that torchft has loaded another replica's model, after inner steps of that one."""
        self._healed = True

    def step(self) -> bool:
        """Count an inner step, after the optimizer's; tell whether there was an outer step.

        A lost replica, a difference between replicas, and values that are not finite are reported to the
        manager, which logs them and does not commit the step. Raises the manager's own errors.
        """
        self.steps += 1
        return self.steps % self.every == 0 and self._outer_step()

    def _outer_step(self) -> bool:
        """Average what all replicas have done since the last outer step; tell whether that is committed."""
        fragment = self._fragments[0]
        before: Kept | None = None
        self.manager.start_quorum()
        try:
            if self.group is not self.replicas.parent:
                self.regroup(self.replicas.parent)
            if self._healed:
                fragment.put()
                fragment.feedback.reset()
            before = fragment.kept()
            self._begin(0)
            self._flights[0].wait()
            self._healed = False
        except Exception as error:
            self.group = None  # torchft forms another one
            self.manager.report_error(error)
        if self.manager.should_commit():
            self._land(0)
            return True
        self._flights.clear()
        if before is not None:
            fragment.restore(before)
        return False

    def synchronize(self) -> None:
        """Have an outer step now, unless there was one after the last inner step. All replicas call it."""
        if self._fragments[0].together != self.steps:
            self._outer_step()
