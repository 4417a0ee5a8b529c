# SPDX-License-Identifier: BSD-2-Clause
"""The implementation that does the work: one of a C module's kernels, several of them, or NumPy."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

NUMPY = "numpy"
AUTOMATIC = "auto"


class Paths:
    """The *paths* of one family of functions, all bit-identical; the whole process uses one of them.

    ``what``: its name in errors. ``native``: the C module, with ``paths()`` and ``use(name)``, or None where
    it was not built. A C module with ``automatic()`` has one more path, ``"auto"``: for each operation the
    kernel that is fastest here. ``fallback``: the same functions in NumPy. ``variable``: the environment
    variable that names the initial path. Attribute ``backend``: the module to call.
    """

    def __init__(
        self, what: str, native: ModuleType | None, fallback: ModuleType, variable: str | None = None
    ) -> None:
        self._what, self._native, self._fallback = what, native, fallback
        self._default: str | None = None
        self._wrong: str | None = None
        if native is not None and not _alike(native, fallback):
            self._native = None
            found = f"the C extension {native.__file__} was built for another version of inceptionn"
            self._wrong = f"{found}: install it again"
        self.force(None)
        if variable is not None and variable in os.environ:
            try:
                self.force(os.environ[variable])
                self._default = self._active
            except ValueError as error:
                self._wrong = f"{variable}: {error}"

    def available(self) -> list[str]:
        """List the paths that work here, the widest vectors first; the last one is always ``"numpy"``."""
        return [*([] if self._native is None else self._native.paths()), NUMPY]

    def active(self) -> str:
        """Return the path in use: one of `available`, or ``"auto"``."""
        return self._active

    def force(self, path: str | None) -> None:
        """Use one path from now on, in the whole process.

        None: that of the environment variable, else ``"auto"`` where it exists, else the first one available.
        ``ValueError`` for a path that is not available here.
        """
        available = self.available()
        automatic = self._native is not None and hasattr(self._native, "automatic")
        choices = [*([AUTOMATIC] if automatic else []), *available]
        path = path or self._default or choices[0]
        if path not in choices:
            raise ValueError(f"{self._what} path must be one of {', '.join(choices)}, not {path!r}")
        self._active = path
        self.backend = self._fallback
        if path != NUMPY and self._native is not None:
            if path == AUTOMATIC:
                self._native.automatic()
            else:
                self._native.use(path)
            self.backend = self._native

    @contextmanager
    def using(self, path: str | None) -> Iterator[None]:
        """Use one path in this context, as `force` does, and the one before after it."""
        before = self._active
        self.force(path)
        try:
            yield
        finally:
            self.force(before)

    def check(self) -> None:
        """Raise ``ValueError`` for an environment variable that names no path here, or an old C extension."""
        if self._wrong is not None:
            raise ValueError(self._wrong)


def _alike(native: ModuleType, fallback: ModuleType) -> bool:
    """Tell whether a C module has the functions of NumPy's, with the same arguments."""
    wanted = {
        name: f"({', '.join(function.__code__.co_varnames[: function.__code__.co_argcount])})"
        for name, function in vars(fallback).items()
        if isinstance(function, FunctionType) and function.__module__ == fallback.__name__ and name[0] != "_"
    }
    return wanted == {name: getattr(getattr(native, name, None), "__text_signature__", "") for name in wanted}
