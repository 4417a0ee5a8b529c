# SPDX-License-Identifier: BSD-2-Clause
"""The sparse variables that servers hold, by key."""

from collections.abc import Callable, Iterable

from ....collectives import WireForm
from ....transport import Transport
from ...parameter_server import Optimizer, Partition
from ...parameters import Floats
from ...traffic import Traffic
from .row_sets import Rows
from .sparse_exchange import Machines, SparseVariable


class ServedVariables(dict[str, SparseVariable]):
    """`SparseVariable` by key. Each has its own optimizer at its servers.

    ``push`` makes the form in which gradients are sent between machines. ``step`` returns the current step.
    All ranks call the same methods.
    """

    def __init__(
        self,
        transport: Transport,
        machines: Machines,
        optimizer: Callable[[], Optimizer],
        push: Callable[[], WireForm],
        traffic: Traffic,
        step: Callable[[], int],
    ) -> None:
        super().__init__()
        self.transport, self.machines = transport, machines
        self._optimizer, self._push, self._traffic, self._step = optimizer, push, traffic, step

    def serve(self, key: str, initial: Floats, partitions: int | None = None) -> None:
        """Give a variable to the servers, by default in one partition per machine."""
        server, chiefs = self._optimizer(), len(self.machines.chiefs)

        def update(partition: int, values: Floats, rows: Rows, gradient: Floats) -> None:
            part = Partition(partition, key, partition % chiefs, 0, values.size)
            server.update(part, values, gradient, self._step(), rows)

        count = partitions or min(chiefs, len(initial))
        self[key] = SparseVariable(
            self.transport, self.machines, initial, count, update, self._push(), self._traffic
        )

    def repartition(self, keys: Iterable[str], partitions: int) -> None:
        """Change the number of partitions of those ``keys`` that are here and have another.

        Resets their optimizers. Raises ``ValueError`` for more partitions than rows.
        """
        for key in keys:
            if self.partitions(key) not in (0, partitions):
                self.serve(key, self[key].whole(), partitions)

    def partitions(self, key: str) -> int:
        """Return the number of partitions of a variable. 0 if the servers do not hold it."""
        return self[key].partitions.count if key in self else 0
