# SPDX-License-Identifier: BSD-2-Clause
"""Pull and push of one row-partitioned variable between the servers on all machines (Sec. 3.1, 4.3).

Each machine has a server, on the rank that is its *chief*. In every step, each machine requests the rows that
its workers use, gets their values, and returns one gradient for each of them. The server sums the gradients
in the order of the machines and updates its rows. A push has the rows of the pull before it, so it sends only
values.

With several workers on a machine, the chief requests all their rows together, and sums their gradients before
it sends them. This is local aggregation (LocalAgg in Fig. 5).

::

    worker ──rows──► chief ──rows──► servers      pull
    worker ◄─values─ chief ◄─values─ servers
    worker ──grads─► chief ──grads─► servers      push: sum, update
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....collectives import Raw, WireForm, arriving, exchanged, sums_exactly
from ...parameters import Floats
from ...traffic import Traffic
from .row_sets import Partitions, Rows, check_rows, decode_rows, encode_rows, most_row_bytes

if TYPE_CHECKING:
    from ....transport import Transport

Update = Callable[[int, Floats, Rows, Floats], None]
"""``update(partition, values, rows, gradient)`` changes ``values[rows]`` in place by the summed gradient."""


@dataclass(frozen=True)
class Machines:
    """The machine of each rank: ``of[rank]`` is its number, from 0 without gaps."""

    of: tuple[int, ...]
    chiefs: tuple[int, ...] = field(init=False)
    """The lowest rank of every machine, which holds its server."""

    def __post_init__(self) -> None:
        chiefs = tuple(self.of.index(machine) for machine in range(max(self.of) + 1))
        object.__setattr__(self, "chiefs", chiefs)

    def mates(self, rank: int) -> list[int]:
        """Return the other ranks on the machine of ``rank``."""
        return [other for other, machine in enumerate(self.of) if machine == self.of[rank] and other != rank]


class SparseVariable:
    """One sparse variable. Each chief holds the partitions of its server.

    Parameters
    ----------
    transport, machines
        The ranks. All make the same variables in the same order and call the same methods.
    initial
        float32[n, ...], equal at all ranks.
    partitions
        Number of partitions, at most n.
    update
        Function by which the server applies a summed gradient.
    push
        Form of gradients between machines, by default raw. Row values are always raw.
    traffic
        Counts sent bytes: "rows", "values" and "gradients" between machines, "local" within one.

    In a step each machine moves ``4 alpha w (N-1)/N`` bytes in both directions together (Table 3), and the
    row numbers.
    """

    def __init__(
        self,
        transport: Transport,
        machines: Machines,
        initial: Floats,
        partitions: int,
        update: Update,
        push: WireForm | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self.transport, self.machines = transport, machines
        self.partitions = Partitions(initial.shape[0], partitions, len(machines.chiefs))
        self.row_shape = initial.shape[1:]
        self.traffic = traffic or Traffic()
        self._update = update
        self._values = Raw(transport)
        self._push = push or self._values
        self._machine = machines.of[transport.rank]
        self._chief = machines.chiefs[self._machine]
        self._mates = machines.mates(transport.rank)
        served = self.partitions.of_server(self._machine) if transport.rank == self._chief else ()
        self.held: dict[int, Floats] = {p: initial[p::partitions].copy() for p in served}
        """The values of this rank's partitions, by their number."""
        self._rows: Rows | None = None
        self._mates_rows: list[Rows] = []
        self.machine_rows: Rows | None = None
        """At a chief, the union of the rows that its machine's workers requested last. None elsewhere."""
        self._asked: list[tuple[Rows, Rows]] = []
        self._wanted: dict[tuple[int, int], Rows] = {}

    @property
    def row_bytes(self) -> int:
        """Bytes of one row's values."""
        return 4 * int(np.prod(self.row_shape, dtype=np.int64))

    @property
    def forms(self) -> tuple[WireForm, WireForm]:
        """The forms in which it sends values of rows, and gradients."""
        return self._values, self._push

    def pull(self, rows: Rows) -> Floats:
        """Return the values of k ascending, distinct rows, float32[k, ...]. k may be 0. Collective."""
        check_rows(rows, self.partitions.rows)
        self._rows = rows
        if self.transport.rank != self._chief:
            return self._ask_chief(rows)
        asked = [self._receive_rows(mate, self.partitions.rows) for mate in self._mates]
        self._mates_rows = [finish() for finish in asked]
        union = rows
        for more in self._mates_rows:
            union = np.union1d(union, more)
        values = self._pull_machines(union)
        for mate, theirs in zip(self._mates, self._mates_rows, strict=True):
            self._send(mate, values[np.searchsorted(union, theirs)])
        self._values.drain()
        mine = values if union is rows else values[np.searchsorted(union, rows)]
        self.machine_rows = union
        return mine

    def push(self, gradient: Floats) -> None:
        """Send the gradient of the rows pulled last, float32[k, ...], and run the update. Collective.

        Raises ``ValueError`` for another shape.
        """
        assert self._rows is not None, "push follows a pull"
        shape = (self._rows.size, *self.row_shape)
        if gradient.shape != shape:
            raise ValueError(f"the gradient of the rows pulled must be {shape}, not {gradient.shape}")
        gradient = np.array(gradient, np.float32, order="C")
        if self._mates:
            self._settle(gradient)
        if self.transport.rank != self._chief:
            self._send(self._chief, gradient)
            self._values.drain()
            return
        if self._mates and self.machine_rows is not None:
            total = self._zeros(self.machine_rows.size)
            total[np.searchsorted(self.machine_rows, self._rows)] = gradient
            incoming = [
                (theirs, self._receive(mate, theirs.size, self._values))
                for mate, theirs in zip(self._mates, self._mates_rows, strict=True)
            ]
            for theirs, finish in incoming:
                total[np.searchsorted(self.machine_rows, theirs)] += finish()
            gradient = total.astype(np.float32, copy=False)
        self._push_machines(gradient)

    def whole(self) -> Floats:
        """Return all rows, at every rank, float32[n, ...]. Collective.

        The next step must begin with a new pull.
        """
        return self.pull(np.arange(self.partitions.rows))

    # Both chiefs of a pull use this order of messages: row sets by partition, then values by partition.

    def _pull_machines(self, rows: Rows) -> Floats:
        parts, me = self.partitions, self._machine
        self._asked = parts.split(rows)
        values = np.empty((rows.size, *self.row_shape), np.float32)
        for p, (_, local) in enumerate(self._asked):
            if parts.server(p) != me:
                self._send_rows(self.machines.chiefs[parts.server(p)], local, parts.size(p))
        others = [machine for machine in range(len(self.machines.chiefs)) if machine != me]
        wanted = {
            (p, machine): self._receive_rows(self.machines.chiefs[machine], parts.size(p))
            for p in self.held
            for machine in others
        }
        incoming = [
            (where, self._receive(self.machines.chiefs[parts.server(p)], where.size, self._values))
            for p, (where, _) in enumerate(self._asked)
            if parts.server(p) != me
        ]
        for p, held in self.held.items():
            for machine in others:
                self._wanted[p, machine] = wanted[p, machine]()
                self._send(self.machines.chiefs[machine], held[self._wanted[p, machine]])
            where, local = self._asked[p]
            values[where] = held[local]
        for where, finish in incoming:
            values[where] = finish()
        self._values.drain()
        return values

    def _push_machines(self, gradient: Floats) -> None:
        parts, me = self.partitions, self._machine
        for p, (where, _) in enumerate(self._asked):
            if parts.server(p) != me:
                self._send(self.machines.chiefs[parts.server(p)], gradient[where], self._push)
        incoming = {
            (p, machine): self._receive(
                self.machines.chiefs[machine], self._wanted[p, machine].size, self._push
            )
            for p in self.held
            for machine in range(len(self.machines.chiefs))
            if machine != me
        }
        for p, held in self.held.items():
            where, local = self._asked[p]
            row_sets = [
                local if machine == me else self._wanted[p, machine]
                for machine in range(len(self.machines.chiefs))
            ]
            rows = np.unique(np.concatenate(row_sets))
            total = self._zeros(rows.size)
            for machine, theirs in enumerate(row_sets):
                part = self._settle(gradient[where]) if machine == me else incoming[p, machine]()
                total[np.searchsorted(rows, theirs)] += part
            self._update(p, held, rows, total.astype(np.float32, copy=False))
        self._push.drain()
        self._wanted.clear()

    @property
    def _exact(self) -> bool:
        return sums_exactly(self._push) and len(self.machines.chiefs) > 1

    def _zeros(self, rows: int) -> NDArray[Any]:
        """Make the rows of a sum, float64 if that is exact."""
        return np.zeros((rows, *self.row_shape), np.float64 if self._exact else np.float32)

    def _settle(self, summed: Floats) -> Floats:
        """Make a C-contiguous array what other machines would get of it, if sums of that are exact.

        They do not depend on which ranks have which gradients then.
        """
        if self._exact:
            self._push.settle(summed.reshape(-1))
        return summed

    def _ask_chief(self, rows: Rows) -> Floats:
        self._send_rows(self._chief, rows, self.partitions.rows)
        values = self._receive(self._chief, rows.size, self._values)()
        self._values.drain()
        return values

    # Each sends or receives one message. A message without values is omitted, since both ends know the count.

    def _send_rows(self, peer: int, rows: Rows, count: int) -> None:
        data = encode_rows(rows, count)
        self._count(peer, "rows", data.nbytes, data.nbytes)
        self._values.post(peer, data)

    def _receive_rows(self, peer: int, count: int) -> Callable[[], Rows]:
        data = np.empty(most_row_bytes(count), np.uint8)
        request = self.transport.irecv_into(peer, data)

        def finish() -> Rows:
            size = request.wait()
            with arriving(self.transport.rank, peer):
                return decode_rows(data[:size], count)

        return finish

    def _send(self, peer: int, values: Floats, form: WireForm | None = None) -> None:
        if not values.size:
            return
        sent = (form or self._values).send([peer], values.reshape(-1))
        self._count(peer, "values" if form is None else "gradients", sent, values.nbytes)

    def _receive(self, peer: int, rows: int, form: WireForm) -> Callable[[], Floats]:
        values = np.empty((rows, *self.row_shape), np.float32)
        if not values.size:
            return lambda: values
        incoming = form.receive(peer, values.reshape(-1))

        def finish() -> Floats:
            incoming.finish()
            incoming.drop()
            return values

        return finish

    def _count(self, peer: int, kind: str, sent: int, raw: int) -> None:
        self.traffic.count("local" if self.machines.of[peer] == self._machine else kind, sent, raw)


def machines_of(transport: Transport, name: str) -> Machines:
    """Group ranks with the same machine name, in the order of each machine's first rank. Collective."""
    names = exchanged(transport, name, lambda value: isinstance(value, str))
    numbers: dict[str, int] = {}
    return Machines(tuple(numbers.setdefault(machine, len(numbers)) for machine in names))
