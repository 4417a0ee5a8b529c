# SPDX-License-Identifier: BSD-2-Clause
"""Checks of state dictionaries, field by field, before anything is restored."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Shape = tuple[int | None, ...]
"""The shape of an array. None stands for any length."""


class Fields:
    """The fields of a state dictionary. They must have exactly these ``names``.

    Each method checks a field and returns it. It raises ``ValueError`` if the field is wrong; the text gives
    the field's path, which begins with the enclosing dictionaries (``within``).
    """

    def __init__(self, state: Any, names: Collection[str], within: str = "") -> None:
        self._within = within
        if not isinstance(state, Mapping):
            what = within.rstrip("/") or "the state"
            raise ValueError(f"{what} must be a dictionary, not {_kind(state)}")
        for name in names:
            if name not in state:
                raise ValueError(f"{self._path(name)} is missing")
        for name in state:
            if name not in names:
                raise ValueError(f"{self._path(name)} is unknown")
        self._state = state

    def _path(self, name: str) -> str:
        return f"{self._within}{name}"

    def __getitem__(self, name: str) -> Any:
        """Return the field, unchecked."""
        return self._state[name]

    def same(self, name: str, wanted: Any) -> None:
        """Check a setting, which must be equal to ``own``."""
        found = self._state[name]
        if isinstance(found, np.ndarray) or found != wanted:
            raise ValueError(f"{self._path(name)} is {_text(found)} there, {wanted!r} here")

    def integer(self, name: str, least: int = 0, most: int | None = None) -> int:
        """Return a whole number from ``least`` to ``most``."""
        found = self._state[name]
        if type(found) is not int or found < least or (most is not None and found > most):
            limits = f"of at least {least}" if most is None else f"within {least}..{most}"
            raise ValueError(f"{self._path(name)} must be an integer {limits}, not {_text(found)}")
        return found

    def number(self, name: str) -> float:
        """Return a finite number of at least 0."""
        found = self._state[name]
        if type(found) not in (int, float) or not (0 <= found <= sys.float_info.max):
            raise ValueError(f"{self._path(name)} must be a number of at least 0, not {_text(found)}")
        return float(found)

    def array(self, name: str, shape: Shape, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Copy an array of finite values."""
        found, wanted = self._state[name], np.dtype(dtype)
        fits = isinstance(found, np.ndarray) and found.dtype == wanted and found.ndim == len(shape)
        if not fits or any(side not in (None, real) for side, real in zip(shape, found.shape, strict=True)):
            sides = str(shape).replace("None", "any")
            raise ValueError(f"{self._path(name)} must be {wanted} of {sides}, not {_text(found)}")
        if not np.isfinite(found).all():
            raise ValueError(f"{self._path(name)} has values that are not finite")
        return np.array(found)

    def arrays(self, name: str, shapes: Mapping[str, Shape]) -> dict[str, NDArray[Any]]:
        """Return a dictionary of float32 arrays with exactly these keys."""
        inner = self.within(name, shapes)
        return {key: inner.array(key, shape) for key, shape in shapes.items()}

    def items(self, name: str, count: int | None = None) -> list[Any]:
        """Return a list, of ``count`` items if given."""
        found = self._state[name]
        if not isinstance(found, list) or count not in (None, len(found)):
            what = "a list" if count is None else f"a list of {count}"
            raise ValueError(f"{self._path(name)} must be {what}, not {_text(found)}")
        return found

    def within(self, name: str, names: Collection[str]) -> Fields:
        """Return the fields of a dictionary in this one."""
        return Fields(self._state[name], names, f"{self._path(name)}/")

    @contextmanager
    def naming(self, name: str) -> Iterator[Any]:
        """Yield the field in a context that puts its path before the text of a ``ValueError``."""
        with named(self._path(name)):
            yield self._state[name]


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put a name before the text of a ``ValueError`` raised in this context."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _kind(value: Any) -> str:
    return f"{value.dtype} of {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _text(value: Any) -> str:
    """Print a value, short enough for one line."""
    if isinstance(value, np.ndarray):
        return _kind(value)
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
