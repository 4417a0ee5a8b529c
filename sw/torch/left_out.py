# SPDX-License-Identifier: BSD-2-Clause
"""Parameters that are left out of compression, by patterns of their names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.parallel import DistributedDataParallel

from ..system.text import printable
from .host_copy import lanes_of

Lanes = NDArray[np.float32]
Known = dict[int, ref[torch.Tensor]]
"""Parameters by id."""


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
        self._keep({})
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
            self._keep({**self._named, **{name: ref(parameters[name]) for name in found}})

    def _keep(self, named: dict[str, ref[torch.Tensor]]) -> None:
        self._named = dict(sorted(named.items()))
        self.names = list(self._named)
        self._left = {id(known()): known for known in named.values()}

    def parameters(self) -> list[torch.Tensor | None]:
        """Return the parameters in the order of their names, None for one that is no more."""
        return [known() for known in self._named.values()]

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: the parameters, which are those of the module that is copied with it."""
        return {"patterns": self.patterns, "names": self.names, "parameters": self.parameters()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.patterns = state["patterns"]
        gone = torch.empty(0)
        known = (ref(gone if parameter is None else parameter) for parameter in state["parameters"])
        self._keep(dict(zip(state["names"], known, strict=True)))

    def check(self, sent: Known) -> None:
        """Raise ``ValueError`` unless the left-out parameters are among those that the first step ``sent``.

        Frozen ones are not sent. But at least one must be, since those of a frozen copy are not either.
        """
        pairs = [pair for pair in zip(self.names, self.parameters(), strict=True) if not has(sent, pair[1])]
        trained = [name for name, parameter in pairs if parameter is None or parameter.requires_grad]
        if trained or (pairs and len(pairs) == len(self.names)):
            name = printable((trained or self.names)[0])
            raise ValueError(
                f"leave_out: {name} was in no bucket of the first step; module must be the one that DDP wraps"
            )

    def split(self, parameters: Sequence[torch.Tensor]) -> tuple[Places, Places]:
        """Return the parameters of a bucket that are compressed, and those that are left out."""
        ends = list(accumulate(map(lanes_of, parameters)))
        kept, left = Places(), Places()
        for parameter, end in zip(parameters, ends, strict=True):
            where = slice(end - lanes_of(parameter), end)
            (left if has(self._left, parameter) else kept).add(parameter, where)
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


def has(known: Known, parameter: torch.Tensor | None) -> bool:
    """Tell whether a parameter is known: itself, not one that was there before in its memory."""
    found = known.get(id(parameter))
    return found is not None and found() is parameter


def _matches(name: str, pattern: str) -> bool:
    """Tell whether a pattern matches a parameter's name, or that of a module around it."""
    words = name.split(".")
    return any(fnmatchcase(".".join(words[:count]), pattern) for count in range(1, len(words) + 1))
