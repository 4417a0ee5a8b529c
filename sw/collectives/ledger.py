# SPDX-License-Identifier: BSD-2-Clause
"""The cost of collectives to a rank so far: bytes, time and lost energy, by part and in all.

Every call adds its numbers to the `Ledger` of its transport, without locks and without a pass over values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from ..transport import Transport
from ..transport.mpi import transport_of
from .values.wire_form import Spent, WireForm

MOST_PARTS = 256
"""Parts that a ledger tells apart; calls of any further part are counted as `OTHERS`."""
OTHERS = "others"
_SUMS = (
    "calls", "torch_calls", "raw_steps", "values", "bytes_before", "bytes_sent", "messages", "samples",
    "seconds", "codec", "waiting", "sending", "agreeing",
)  # fmt: skip


@dataclass
class Statistics:
    """The cost of the calls of one part, or of all parts, to this rank.

    Attributes
    ----------
    name
        The part: a bucket, or a collective and its number of values. "all" for the sum of the parts.
    path
        "software", "nic", "off" (raw, over this package's connections) or "torch" (raw, by torch). Several
        are joined by ", ".
    calls, torch_calls
        Calls in all, and those that torch made, since they were raw.
    raw_steps
        Steps of the warm-up, whose gradients were all raw. Counted in "all" alone.
    values
        Values of this rank in all calls.
    bytes_before, bytes_sent
        Size of this rank's messages as float32, and as they were sent. On the path "nic" both are the size
        before the NIC. Calls by torch count as a ring's, in the tensor's own type.
    messages
        Messages sent by this package.
    scale
        Exponent of the last call's scale. None if there was none, or where parts differ.
    dropped, samples
        Share of the energy of this rank's values (the sum of squares) that the codec removed, 0 to 1. It is
        the mean over samples of at most 4096 values, from one call of 17. With error feedback the next call
        returns it. None without a sample.
    seconds
        Time of the calls, of which: ``codec`` to compress, sum and restore; ``waiting`` until data had
        arrived, and to receive them; ``sending`` to hand data to the kernel; ``agreeing`` until all ranks had
        made the call. The rest is copies, and sums of raw values. Those of torch are not timed. Pushes, pulls
        and answers of a parameter server overlap: ``sending`` lasts until all data are handed over,
        ``waiting`` until all weights are here, and both include what the rank does meanwhile.
    parts
        The same for each part, in "all".
    """

    name: str
    path: str = ""
    calls: int = 0
    torch_calls: int = 0
    raw_steps: int = 0
    values: int = 0
    bytes_before: int = 0
    bytes_sent: int = 0
    messages: int = 0
    scale: int | None = None
    dropped: float | None = None
    samples: int = 0
    seconds: float = 0.0
    codec: float = 0.0
    waiting: float = 0.0
    sending: float = 0.0
    agreeing: float = 0.0
    parts: list[Statistics] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """``bytes_before / bytes_sent``. None if nothing was sent, or a NIC compressed it."""
        return self.bytes_before / self.bytes_sent if self.bytes_sent and "nic" not in self.path else None

    def as_dict(self) -> dict[str, Any]:
        """Return all attributes, ``ratio`` and the parts, as JSON values."""
        parts = [part.as_dict() for part in self.parts]
        return {**asdict(replace(self, parts=[])), "ratio": self.ratio, "parts": parts}

    def to_json(self, **options: Any) -> str:
        """Return `as_dict` as text. ``options`` are those of `json.dumps`."""
        return json.dumps(self.as_dict(), **options)

    def since(self, before: Statistics) -> Statistics:
        """Return what was added after ``before``, an earlier result for the same calls."""
        difference = replace(self, parts=[])
        for name in _SUMS:
            setattr(difference, name, getattr(self, name) - getattr(before, name))
        lost = (self.dropped or 0.0) * self.samples - (before.dropped or 0.0) * before.samples
        difference.dropped = lost / difference.samples if difference.samples else None
        earlier = {part.name: part for part in before.parts}
        difference.parts = [part.since(earlier.get(part.name, Statistics(part.name))) for part in self.parts]
        by_torch, calls = difference.torch_calls, difference.calls
        if self.parts:
            paths = [path for part in difference.parts for path in part.path.split(", ")]
        else:
            paths = [p for p in self.path.split(", ") if (by_torch if p == "torch" else calls > by_torch)]
        difference.path = _joined("", *paths)
        return difference

    def line(self) -> str:
        """Return one line for a log."""
        timed = max(1, self.calls - self.torch_calls)
        text = f"{self.calls} calls, {self.bytes_sent / 1e6:.2f} MB sent in place of "
        text += f"{self.bytes_before / 1e6:.2f}"
        text += "" if self.ratio is None else f" (ratio {self.ratio:.2f})"
        text += f" by {self.path or 'no path'}; ms of a call: {1e3 * self.seconds / timed:.2f}"
        for name in ("codec", "waiting", "sending", "agreeing"):
            text += f", {name} {1e3 * getattr(self, name) / timed:.2f}"
        if self.dropped is not None:
            text += f"; energy dropped {self.dropped:.1e}"
        return text + (f"; {self.raw_steps} steps raw" if self.raw_steps else "")

    def __str__(self) -> str:
        """Return a table with a line for each part and one for all.

        It has megabytes, milliseconds of a call, and the factor of the last call's scale.
        """
        lines = [_HEAD, *(_cells(part) for part in self.parts), _cells(self)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
        rows = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
            for line in lines
        ]
        return "\n".join(rows) + (f"\n{self.raw_steps} steps raw" if self.raw_steps else "")


_HEAD = (
    "", "path", "calls", "before", "MB sent", "ratio", "ms", "codec", "wait", "send", "agree", "dropped",
    "scale",
)  # fmt: skip


def _cells(part: Statistics) -> tuple[str, ...]:
    timed = part.calls - part.torch_calls
    times = (part.seconds, part.codec, part.waiting, part.sending, part.agreeing)
    return (
        part.name,
        part.path,
        str(part.calls),
        f"{part.bytes_before / 1e6:.3f}",
        f"{part.bytes_sent / 1e6:.3f}",
        "-" if part.ratio is None else f"{part.ratio:.2f}",
        *(f"{1e3 * time / timed:.2f}" if timed else "-" for time in times),
        "-" if part.dropped is None else f"{part.dropped:.1e}",
        "-" if part.scale is None else f"2^{part.scale}",
    )


class Ledger:
    """The statistics of one communicator or state, by part.

    One thread at a time adds to it. Another may read it meanwhile, and then a call in flight is missing or
    partly counted.
    """

    def __init__(self) -> None:
        self.label: str | None = None
        """The part of the next call. None: its collective and number of values."""
        self.raw_steps = 0
        self._parts: dict[str, Statistics] = {}

    def _part(self, name: str) -> Statistics:
        part = self._parts.get(name)
        if part is None:
            name = name if len(self._parts) < MOST_PARTS else OTHERS
            part = self._parts.setdefault(name, Statistics(name))
        return part

    def add(
        self,
        collective: str,
        path: str,
        values: int,
        sent: int,
        scale: int | None,
        dropped: float | None,
        seconds: float,
        agreeing: float,
        spent: Spent,
    ) -> None:
        """Count a call, from the numbers that `Statistics` and `Spent` describe."""
        part = self._part(self.label or f"{collective}, {values} values")
        part.path = _joined(part.path, path)
        part.calls += 1
        part.values += values
        part.bytes_before += spent.raw_bytes
        part.bytes_sent += sent
        part.messages += spent.messages
        part.scale = scale
        part.seconds += seconds
        part.codec += spent.codec
        part.waiting += spent.waiting
        part.sending += spent.sending
        part.agreeing += agreeing
        if dropped is not None and math.isfinite(dropped):
            part.samples += 1
            part.dropped = (part.dropped or 0.0) + (dropped - (part.dropped or 0.0)) / part.samples

    def add_torch(self, name: str, values: int, size: int) -> None:
        """Count a call that torch makes, of ``size`` bytes from this rank."""
        part = self._part(name)
        part.path = _joined(part.path, "torch")
        part.calls += 1
        part.torch_calls += 1
        part.values += values
        part.bytes_before += size
        part.bytes_sent += size

    def statistics(self) -> Statistics:
        """Return the sums over all parts so far, and copies of the parts. O(parts)."""
        parts = [replace(part) for part in list(self._parts.values())]
        whole = Statistics("all", parts=parts)
        for name in _SUMS:
            setattr(whole, name, sum(getattr(part, name) for part in parts))
        for part in parts:
            whole.path = _joined(whole.path, *part.path.split(", "))
        whole.raw_steps = self.raw_steps
        whole.scale = _same([part.scale for part in parts if part.calls > part.torch_calls])
        if whole.samples:
            whole.dropped = sum((part.dropped or 0.0) * part.samples for part in parts) / whole.samples
        return whole


def _joined(paths: str, *more: str) -> str:
    for path in more:
        if path not in paths.split(", "):
            paths = f"{paths}, {path}" if paths else path
    return paths


def _same(scales: Sequence[int | None]) -> int | None:
    return scales[0] if len(set(scales)) == 1 else None


_ledgers: WeakKeyDictionary[Transport, Ledger] = WeakKeyDictionary()


def ledger_of(transport: Transport) -> Ledger:
    """Return the ledger in which the transport's calls are counted now."""
    found = _ledgers.get(transport)
    if found is None:
        found = _ledgers[transport] = Ledger()
    return found


@contextmanager
def counted(transport: Transport, ledger: Ledger, label: str | None = None) -> Iterator[None]:
    """Count the transport's calls in another ledger, and under one name, inside this context."""
    before = ledger_of(transport)
    _ledgers[transport] = ledger
    ledger.label = label
    try:
        yield
    finally:
        ledger.label = None
        _ledgers[transport] = before


@contextmanager
def counting(name: str, path: str, values: int, *forms: WireForm) -> Iterator[None]:
    """Count what ``forms`` carry in this context as one call, of ``values`` values of this rank.

    For a layer's own exchange. An error in the context is not counted.
    """
    transport = forms[0].transport
    start, sent, before = perf_counter(), transport.bytes_sent, _sum(forms)
    yield
    spent = Spent(*(after - earlier for after, earlier in zip(_sum(forms), before, strict=True)))
    seconds = perf_counter() - start
    ledger_of(transport).add(name, path, values, transport.bytes_sent - sent, None, None, seconds, 0.0, spent)


def _sum(forms: Sequence[WireForm]) -> list[Any]:
    """Return the sum of each field of `Spent` over different forms."""
    different = {id(form): form.spent for form in forms}.values()
    return [sum(getattr(spent, each.name) for spent in different) for each in fields(Spent)]


def statistics(comm: Any) -> Statistics:
    """Return what the collectives over a `Transport` or an mpi4py communicator have cost this rank so far."""
    return ledger_of(transport_of(comm)).statistics()
