# SPDX-License-Identifier: BSD-2-Clause
"""Time limits for workers and servers. After them a rank ends the group and names the late ranks."""

from collections.abc import Collection, Sequence
from typing import Any

from ...transport import RunningClock, Transport, TransportTimeout
from .exchange.handle import GRACE, Handle
from .serving import Serving


class Limits:
    """The time limits of a node. ``serving`` is its server, or None."""

    def __init__(self, transport: Transport, serving: Serving | None) -> None:
        self._transport, self._serving = transport, serving
        self._clock = RunningClock()
        self._heard = self._said = self._moved = self._clock.now()
        self._reported: set[int] = set()
        """The ranks for which this rank waits, as reported to the group."""

    def heard(self) -> None:
        """Note that another rank has sent a message."""
        self._heard = self._clock.now()

    def moved(self) -> None:
        """Note that a message about gradients or weights was handled."""
        self._moved = self._clock.now()

    def check(
        self, handles: Sequence[Handle[Any]], waits_for: Collection[int], closing: bool, serves: bool
    ) -> bool:
        """Raise `TransportTimeout` for a worker or a server that keeps the others waiting.

        ``waits_for`` are the servers that must still end, once this rank's worker is done. ``closing`` tells
        whether the worker has closed, and ``serves`` whether this rank's server must still end. Returns True
        if workers that are done should get an `ALIVE`.
        """
        now, transport = self._clock.now(), self._transport
        timeout, rank = transport.timeout, transport.rank
        self._report(handles, waits_for, closing, now - self._moved > timeout / 2)
        for handle in handles:
            if handle.overdue and not handle.done:
                silent = transport.silent(handle.left - {rank} or handle.left)
                raise TransportTimeout(handle.late(silent, timeout + GRACE))
        if self._serving is not None:
            self._serving.check_limits(closing, transport.silent)
            if serves and now - self._said > timeout / 4:  # workers that are done wait for the others
                self._said = now
                return True
        elif waits_for and now - self._heard > timeout:
            ranks = ", ".join(str(rank) for rank in transport.silent(waits_for))
            raise TransportTimeout(f"nothing from server rank {ranks} for {timeout:g} s")
        return False

    def _report(
        self, handles: Sequence[Handle[Any]], waits_for: Collection[int], closing: bool, long: bool
    ) -> None:
        """Tell the group which ranks this one waits for, if it has waited ``long``."""
        waits: set[int] = set()
        if long:
            waits.update(*(handle.left for handle in handles), waits_for)
            if self._serving is not None:
                waits |= self._serving.owing(closing)
        waits.discard(self._transport.rank)
        if waits != self._reported:
            self._reported = waits
            self._transport.waits_for(waits)
