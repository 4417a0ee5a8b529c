# SPDX-License-Identifier: BSD-2-Clause
"""Options and arguments whose errors name the value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer


def whole(least: int, most: int, text: str, *names: str, **options: Any) -> Any:
    """An option for a whole number, or several, whose error names the value. ``options``: of typer's."""

    def check(value: Any) -> Any:
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None and not least <= each <= most:
                raise typer.BadParameter(f"must be {least}..{most}, not {each}")
        return value

    return typer.Option(*names, callback=check, help=text, **options)


def regular(path: Path | None) -> Path | None:
    """The callback of options and arguments for files that are read: refuses a pipe, which may never end."""
    if path is not None and path.exists() and not path.is_file():
        raise typer.BadParameter(f"must be a file, not {_kind(path)} {str(path)!r}")
    return path


def _kind(path: Path) -> str:
    return "the folder" if path.is_dir() else "the pipe" if path.is_fifo() else "the device or socket"
