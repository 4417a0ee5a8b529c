# SPDX-License-Identifier: BSD-2-Clause
"""Reports on compression while a training runs: log lines and TensorBoard scalars."""

import logging
from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any, Protocol, runtime_checkable

from ..collectives.ledger import Ledger
from ..system.integers import integer

LOGGER = logging.getLogger("inceptionn.torch")
_SCALARS = ("ratio", "bytes_before", "bytes_sent", "dropped", "scale")
_TIMES = ("seconds", "codec", "waiting", "sending", "agreeing")


@runtime_checkable
class ScalarWriter(Protocol):
    """The writer of scalars, such as ``torch.utils.tensorboard.SummaryWriter``."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any:
        """Add a number of a step to a curve."""


class Reporter:
    """Reports every few steps what a ledger has counted since the last report. Only rank 0 does.

    ``every`` is the number of steps between two log lines (level INFO of the logger ``inceptionn.torch``);
    0 is off. ``tensorboard`` is a `ScalarWriter`, or a folder for torch's, and gets scalars as often, or
    after each step if ``every`` is 0. Raises ``ValueError`` or ``TypeError`` for other values, and
    ``ModuleNotFoundError`` for a folder where TensorBoard is not installed.
    """

    def __init__(
        self, ledger: Ledger, every: int, tensorboard: ScalarWriter | str | PathLike[str] | None
    ) -> None:
        self._ledger, self._every = ledger, integer("log_every", every, 0)
        self._made: ScalarWriter | None = None
        self._make = None if tensorboard is None else _maker(tensorboard)
        self._before = ledger.statistics()
        self._begun = False

    @property
    def idle(self) -> bool:
        """True if there is nothing to report to."""
        return not self._every and self._make is None

    def step(self, step: int, rank: int) -> None:
        """Report if a report is due after this many steps."""
        if self.idle or rank != 0:
            return
        self._begun = True
        if step % (self._every or 1):
            return
        now = self._ledger.statistics()
        new, self._before = now.since(self._before), now
        if self._every:
            LOGGER.info("step %d: %s", step, new.line())
        if self._make is None:
            return
        if self._made is None:
            self._made = self._make()
        for part in (new, *new.parts):
            if not part.calls:
                continue
            place = "inceptionn" if part is new else f"inceptionn/{part.name}"
            timed = part.calls - part.torch_calls
            values = {name: getattr(part, name) for name in _SCALARS}
            if timed:
                values |= {f"{name}_ms": 1e3 * getattr(part, name) / timed for name in _TIMES}
            for name, value in values.items():
                if value is not None:
                    self._made.add_scalar(f"{place}/{name}", value, step)

    def end(self) -> None:
        """Log the line for the whole training, where lines are logged."""
        if self._every and self._begun:
            LOGGER.info("in all: %s", self._ledger.statistics().line())


def _maker(tensorboard: Any) -> Callable[[], ScalarWriter]:
    """Check the setting at every rank; rank 0 alone makes the writer, which makes a file."""
    if isinstance(tensorboard, ScalarWriter):
        return lambda: tensorboard
    if not isinstance(tensorboard, str | PathLike):
        raise TypeError(f"tensorboard must be a folder or have add_scalar, not {tensorboard!r}")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ModuleNotFoundError(
            f"tensorboard={str(tensorboard)!r} needs TensorBoard: pip install tensorboard", name="tensorboard"
        ) from error
    return partial(SummaryWriter, str(tensorboard))
