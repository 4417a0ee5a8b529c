# SPDX-License-Identifier: BSD-2-Clause
"""Choosing and grouping the rows of a bench."""

from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def groups(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values of these names, in the order in which the values come."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found
