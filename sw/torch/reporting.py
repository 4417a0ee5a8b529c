# SPDX-License-Identifier: BSD-2-Clause
"""Reports on compression while a training runs: log lines and TensorBoard scalars."""

import logging
from collections.abc import Callable
from functools import partial
from os import PathLike, makedirs
from tempfile import TemporaryFile
from typing import Any, Protocol, runtime_checkable

from ..collectives.ledger import Ledger, Statistics
from ..system.integers import integer
from ..system.warning import warn

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
    after each step if ``every`` is 0. ``rank`` is None if it is not known yet. Raises ``ValueError`` or
    ``TypeError`` for other values, and ``ModuleNotFoundError`` for a folder where TensorBoard is not
    installed.

    A report that fails, such as at a full disk, becomes a warning and is the last of its kind. So does a
    folder that cannot be written, at once.
    """

    def __init__(
        self,
        ledger: Ledger,
        every: int,
        tensorboard: ScalarWriter | str | PathLike[str] | None,
        rank: int | None = None,
    ) -> None:
        self._ledger, self._every = ledger, integer("log_every", every, 0)
        self._sinks: list[_Lines | _Curves] = [_Lines()] if every else []
        if tensorboard is not None:
            curves = _Curves(tensorboard)
            if rank in (None, 0) and not self._failing(curves, curves.check):
                self._sinks.append(curves)
        self._before = ledger.statistics()
        self._begun = False

    @property
    def idle(self) -> bool:
        """True if there is nothing to report to."""
        return not self._sinks

    def step(self, step: int, rank: int) -> None:
        """Report if a report is due after this many steps."""
        if self.idle or rank != 0:
            return
        self._begun = True
        if step % (self._every or 1):
            return
        now = self._ledger.statistics()
        new, self._before = now.since(self._before), now
        self._report(lambda sink: sink.step(step, new))

    def end(self) -> None:
        """Log the line for the whole training, where lines are logged."""
        if self._begun:
            self._report(lambda sink: sink.end(self._ledger.statistics()))

    def _report(self, call: Callable[[Any], None]) -> None:
        self._sinks = [sink for sink in self._sinks if not self._failing(sink, partial(call, sink))]

    @staticmethod
    def _failing(sink: Any, call: Callable[[], None]) -> bool:
        """Call, and turn an error into a warning; tell whether there was one."""
        try:
            call()
        except Exception as error:
            warn(f"{sink} of compression end here: {type(error).__name__}: {error}", RuntimeWarning)
            return True
        return False

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: no writer, but the folder."""
        return {**vars(self), "_sinks": [sink for sink in self._sinks if sink.copied], "_begun": False}


class _Lines:
    """Lines of a log."""

    copied = True

    def __str__(self) -> str:
        return f"the lines of the logger {LOGGER.name}"

    def step(self, step: int, new: Statistics) -> None:
        LOGGER.info("step %d: %s", step, new.line())

    def end(self, whole: Statistics) -> None:
        LOGGER.info("in all: %s", whole.line())


class _Curves:
    """Scalars for TensorBoard. Every rank checks the setting; rank 0 makes the writer, and so the file."""

    def __init__(self, tensorboard: Any) -> None:
        self._writer: ScalarWriter | None = None
        self._folder: str | None = None
        if isinstance(tensorboard, ScalarWriter):
            self._writer = tensorboard
            return
        if not isinstance(tensorboard, str | PathLike):
            raise TypeError(f"tensorboard must be a folder or have add_scalar, not {tensorboard!r}")
        self._folder = str(tensorboard)
        try:
            import torch.utils.tensorboard  # noqa: F401
        except ImportError as error:
            raise ModuleNotFoundError(
                f"tensorboard={self._folder!r} needs TensorBoard: pip install tensorboard", name="tensorboard"
            ) from error

    @property
    def copied(self) -> bool:
        """True if a copy of a state can have a writer of its own."""
        return self._folder is not None

    def __getstate__(self) -> dict[str, Any]:
        return {"_folder": self._folder, "_writer": None}

    def __str__(self) -> str:
        return f"the curves in {self._folder}" if self._folder else f"the curves of {self._writer!r}"

    def check(self) -> None:
        """Write a file into a local folder, or raise ``OSError``."""
        if self._folder is not None and "://" not in self._folder:
            makedirs(self._folder, exist_ok=True)
            TemporaryFile(dir=self._folder).close()

    def step(self, step: int, new: Statistics) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(self._folder)
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
                    self._writer.add_scalar(f"{place}/{name}", value, step)

    def end(self, whole: Statistics) -> None:
        """Do nothing: the writer closes its file itself."""
