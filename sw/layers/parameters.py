# SPDX-License-Identifier: BSD-2-Clause
"""Parameters and gradients by key: dictionaries of arrays, and operations on all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Parameters: TypeAlias = dict[str, Floats]
"""float32 arrays by key; the order of the keys is part of it."""


@dataclass(frozen=True)
class RowSparse:
    """The gradient of an embedding: only the rows that a batch has looked up.

    ``rows``: int64[n], ascending, without repetition. ``values``: float32[n, ...], one entry per row.
    ``shape``: of the dense array; all rows that are not named are zero. Raises ``ValueError`` if they do not
    fit.
    """

    rows: NDArray[np.int64]
    values: Floats
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), *self.shape[1:]):
            raise ValueError(
                f"values of {len(self.rows)} rows of an array {self.shape} must be "
                f"{(len(self.rows), *self.shape[1:])}, not {self.values.shape}"
            )
        rows = self.rows
        if len(rows) and (rows[0] < 0 or rows[-1] >= self.shape[0] or (np.diff(rows) <= 0).any()):
            raise ValueError(f"rows must ascend within 0..{self.shape[0] - 1}, not {rows!r}")

    @property
    def alpha(self) -> float:
        """Share of the rows that it has (the alpha of Parallax, Sec. 3)."""
        return len(self.rows) / self.shape[0] if self.shape[0] else 0.0

    def dense(self) -> Floats:
        """Return the whole array, with zeros in all other rows."""
        whole = np.zeros(self.shape, np.float32)
        whole[self.rows] = self.values
        return whole

    @classmethod
    def of_lookups(cls, tokens: NDArray[np.int64], values: Floats, shape: tuple[int, ...]) -> RowSparse:
        """Sum ``values`` (float32[n, ...]) of equal ``tokens`` (int64[n]) into one row each.

        O(n log n); equal tokens are summed in their order, so the result does not depend on the machine.
        """
        order = np.argsort(tokens, kind="stable")
        ordered = tokens[order]
        first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        sums = np.add.reduceat(values[order], first, axis=0) if first.size else values[:0]
        return cls(ordered[first].astype(np.int64), sums, shape)


Gradients: TypeAlias = dict[str, Any]
"""By key, float32 arrays of the parameters' shapes, or `RowSparse`."""


def shapes_of(parameters: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each key."""
    return {key: tuple(value.shape) for key, value in parameters.items()}


def count_of(parameters: Mapping[str, Any]) -> int:
    """Count the values in all keys together."""
    return sum(int(np.prod(value.shape)) for value in parameters.values())


def flatten(parameters: Mapping[str, Any]) -> Floats:
    """Return all values as one float32 vector, in the order of the keys; `RowSparse` ones made dense."""
    parts = [
        (value.dense() if isinstance(value, RowSparse) else np.asarray(value, np.float32)).reshape(-1)
        for value in parameters.values()
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def unflatten(vector: Floats, like: Mapping[str, Any]) -> Parameters:
    """View a vector as arrays with the keys and shapes of ``like``; the inverse of `flatten`.

    Raises ``ValueError`` if the vector has another number of values.
    """
    if vector.size != count_of(like):
        raise ValueError(f"the vector must hold {count_of(like)} values, not {vector.size}")
    ends = np.cumsum([int(np.prod(value.shape)) for value in like.values()])
    parts = np.split(vector.reshape(-1), ends[:-1])
    return {key: part.reshape(value.shape) for (key, value), part in zip(like.items(), parts, strict=True)}


def copy_of(parameters: Mapping[str, Floats]) -> Parameters:
    """Copy each key's array."""
    return {key: np.array(value, np.float32) for key, value in parameters.items()}
