# SPDX-License-Identifier: BSD-2-Clause
"""The call that compresses one of DDP's buckets, in the thread of the process group's connections."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..collectives import MEAN
from ..collectives.allreduce import all_reduce
from ..collectives.call import Feedback
from ..collectives.ledger import Ledger, counted
from ..collectives.requests import plan
from ..collectives.settings import Settings
from ..transport import Transport
from .host_copy import HostCopy
from .left_out import Lanes, Places
from .residuals import Layout, Residuals


@dataclass(frozen=True)
class BucketCall:
    """The mean of all ranks' gradients of a bucket: of those that are compressed, and of those left out.

    ``residuals`` is None for a call without error feedback. ``after`` is called at the end.
    """

    transport: Transport
    copy: HostCopy
    kept: Places
    left: Places
    settings: Settings
    residuals: tuple[Residuals, Layout] | None
    ledger: Ledger
    label: str
    after: Callable[[], Any]

    def run(self) -> None:
        """Replace the bucket's values by their means."""
        lanes = self.copy.array.reshape(-1)
        raw = replace(self.settings, path="off", scale=None, sections=None)
        feedback = None
        if self.residuals is not None:
            residuals, layout = self.residuals
            feedback = residuals.of_call(self.transport, layout)
        self._reduce(lanes, self.kept, self.label, self.settings, feedback)
        self._reduce(lanes, self.left, f"{self.label}, left out", raw, None)
        self.copy.store()
        self.after()

    def _reduce(
        self, lanes: Lanes, places: Places, label: str, settings: Settings, feedback: Feedback
    ) -> None:
        if not places.count:
            return
        whole = replace(settings, op=MEAN, dtype="bfloat16")
        with counted(self.transport, self.ledger, label):
            values = places.taken(lanes)
            plan(self.transport, None, all_reduce, None, values, whole, feedback).run()
        places.put(values, lanes)
