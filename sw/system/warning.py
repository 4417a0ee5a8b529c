# SPDX-License-Identifier: BSD-2-Clause
"""Warnings that name a line of the user's program."""

import sys
import warnings

_LIBRARIES = {__name__.partition(".")[0], "torch"}
"""Packages whose lines a user did not write. torch calls this one from its hooks and its backend."""


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the innermost line outside this package and torch, the outermost if none."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
