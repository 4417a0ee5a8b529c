# SPDX-License-Identifier: BSD-2-Clause
"""Which implementation does the work: one of a C module's kernels, or NumPy."""

from __future__ import annotations

from types import ModuleType

NUMPY = "numpy"


class Paths:
    """The *paths* of one family of functions, all bit-identical; the whole process uses one of them.

    ``what``: its name in errors. ``native``: the C module, with ``paths()`` and ``use(name)``, or None where
    it was not built. ``fallback``: the same functions in NumPy. Attribute ``backend``: the module to call.
    """

    def __init__(self, what: str, native: ModuleType | None, fallback: ModuleType) -> None:
        self._what, self._native, self._fallback = what, native, fallback
        self.force(None)

    def available(self) -> list[str]:
        """Paths that work here, best first; the last one is always ``"numpy"``."""
        return [*([] if self._native is None else self._native.paths()), NUMPY]

    def active(self) -> str:
        """The path in use: ``"avx512"``, ``"avx2"``, ``"scalar"`` or ``"numpy"``."""
        return self._active

    def force(self, path: str | None) -> None:
        """Use one path from now on, in the whole process; the best one again for None.

        ``ValueError`` for a path that is not available here.
        """
        available = self.available()
        if path is not None and path not in available:
            raise ValueError(f"{self._what} path must be one of {', '.join(available)}, not {path!r}")
        self._active = path or available[0]
        self.backend = self._fallback
        if self._active != NUMPY and self._native is not None:
            self._native.use(self._active)
            self.backend = self._native
