# SPDX-License-Identifier: BSD-2-Clause
"""The trainings that the studies compare, one row each, and tables of such rows."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....commands.console import Table
from ....commands.study import Columns
from ...training import Floats, Model, Parameters, Trainer, loop
from ...training.data import require_digits
from ..common.rows import Row
from .compressors import Simulated

CHANNELS = (8, 16)
"""Of the CNN."""
BATCH = 128
"""Samples of all ranks together in a step."""
Cell = Callable[[Sequence[Row]], str]


def require(models: Iterable[str], optimizers: Iterable[str] = ()) -> None:
    """Raise ``ModuleNotFoundError`` if the data, a model or an optimizer needs a package that is missing."""
    require_digits()
    for name in models:
        loop.model_of(name)
    for name in optimizers:
        loop.optimizer_of(name)


class Case(NamedTuple):
    """What learns, how, and with how many ranks. At any number they take the same samples together."""

    model: str
    optimizer: str
    ranks: int
    seed: int

    def _model(self) -> Model:
        return loop.model_of(self.model, **({"channels": CHANNELS} if self.model == "cnn" else {}))

    def trainer(self) -> Trainer:
        """Make a trainer, at its first step."""
        optimizer = loop.optimizer_of(self.optimizer)
        return Trainer(self._model(), optimizer, self.ranks, BATCH // self.ranks, self.seed)

    @property
    def shapes(self) -> Parameters:
        """The first weights, by key."""
        return self._model().initial(self.seed)

    def train(
        self, steps: int, exchange: Simulated | None = None,
        before: Callable[[int, Floats], None] = lambda step, gradients: None,
    ) -> dict[str, float]:  # fmt: skip
        """Return the test set's ``loss`` and ``accuracy``, and ``sent``: bytes by rank and step.

        Without an exchange, gradients are summed as they are. ``before``: as of `loop.train`.
        """
        trainer = self.trainer()
        loop.train(trainer, steps, exchange or loop.mean_of, before)
        raw = 8 * trainer.weights.size * (self.ranks - 1) / self.ranks
        sent = exchange.sent if exchange else raw
        return {"loss": trainer.loss(), "accuracy": trainer.accuracy(), "sent": sent}


def average(rows: Sequence[Row], name: str) -> float:
    """Return the mean of a value."""
    return float(np.mean([row[name] for row in rows]))


def crossed(
    title: str, rows: Sequence[Row], lines: Columns[Row], column: Callable[[Row], str], cell: Cell,
    **options: Any,
) -> Table:  # fmt: skip
    """Tabulate groups by the texts of ``lines`` and ``column``, "-" for none; ``options``: of `Table`."""
    columns = list(dict.fromkeys(map(column, rows)))
    found: dict[Any, dict[str, list[Row]]] = {}
    for row in rows:
        line = found.setdefault(tuple(text(row) for text in lines.values()), {})
        line.setdefault(column(row), []).append(row)
    table = Table(title, *lines, *columns, **{"left": len(lines)} | options)
    for texts, by_column in found.items():
        table.add_row(*texts, *(cell(by_column[name]) if name in by_column else "-" for name in columns))
    return table
