# SPDX-License-Identifier: BSD-2-Clause
"""Parameters that are left out of compression, by patterns of their names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.parallel import DistributedDataParallel

from ..system.text import printable
from .host_copy import lanes_of

Lanes = NDArray[np.float32]


class LeftOut:
    """The parameters of a module that travel raw. ``names`` are theirs, sorted.

    A pattern, as in the shell (``*``, ``?``, ``[...]``), matches the name of a parameter, or of a module with
    all its parameters. Names are those of ``module.named_parameters()``. Raises ``TypeError`` for patterns
    that are no sequence of text, and ``ValueError`` for one that matches nothing.
    """

    def __init__(self, module: torch.nn.Module | None, patterns: Sequence[str]) -> None:
        listed = isinstance(patterns, Sequence) and not isinstance(patterns, str)
        if not listed or not all(isinstance(pattern, str) for pattern in patterns):
            raise TypeError(
                f"leave_out must be a sequence of patterns, such as ('*.bias',), not {patterns!r}"
            )
        self.patterns = tuple(patterns)
        self.names: list[str] = []
        self._left: dict[int, ref[torch.Tensor]] = {}
        if not self.patterns:
            return
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"leave_out needs module=, the model whose names it matches, not {module!r}")
        inner = module.module if isinstance(module, DistributedDataParallel) else module
        parameters = dict(inner.named_parameters())
        for pattern in self.patterns:
            found = [name for name in parameters if _matches(name, pattern)]
            if not found:
                raise ValueError(
                    f"leave_out pattern {pattern!r} matches no parameter or module; there are "
                    f"{printable(', '.join(parameters))[:200]}"
                )
            self._left |= {id(parameters[name]): ref(parameters[name]) for name in found}
        self.names = sorted(name for name, parameter in parameters.items() if self._has(parameter))

    def _has(self, parameter: torch.Tensor) -> bool:
        known = self._left.get(id(parameter))
        return known is not None and known() is parameter

    def split(self, parameters: Sequence[torch.Tensor]) -> tuple[Places, Places]:
        """Return the parameters of a bucket that are compressed, and those that are left out."""
        ends = list(accumulate(map(lanes_of, parameters)))
        kept, left = Places(), Places()
        for parameter, end in zip(parameters, ends, strict=True):
            (left if self._has(parameter) else kept).add(parameter, slice(end - lanes_of(parameter), end))
        return kept, left


class Places:
    """Some parameters of a bucket, and where their lanes are in it: two for each complex value."""

    def __init__(self) -> None:
        self.parameters: list[torch.Tensor] = []
        self.count = 0
        self._where: list[slice] = []

    def add(self, parameter: torch.Tensor, where: slice) -> None:
        """Append a parameter."""
        self.parameters.append(parameter)
        self.count += where.stop - where.start
        if self._where and self._where[-1].stop == where.start:
            where = slice(self._where.pop().start, where.stop)
        self._where.append(where)

    def taken(self, flat: Lanes) -> Lanes:
        """Return their values of a flat bucket: a copy, or a view where they lie side by side. O(count)."""
        if len(self._where) == 1:
            return flat[self._where[0]]
        return np.concatenate([flat[where] for where in self._where])

    def put(self, values: Lanes, flat: Lanes) -> None:
        """Store values that `taken` returned. O(count)."""
        if len(self._where) == 1:  # a view
            return
        start = 0
        for where in self._where:
            flat[where] = values[start : (start := start + where.stop - where.start)]


def _matches(name: str, pattern: str) -> bool:
    """Tell whether a pattern matches a parameter's name, or that of a module around it."""
    words = name.split(".")
    return any(fnmatchcase(".".join(words[:count]), pattern) for count in range(1, len(words) + 1))
