# SPDX-License-Identifier: BSD-2-Clause
"""Options and arguments whose errors name the value."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from .text import nearest


@contextmanager
def usage_error(option: str | None = None) -> Iterator[None]:
    """Turn a ``ValueError`` in this context into a usage error, of this option if one is named."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def whole(least: int, most: int, text: str, *names: str, **options: Any) -> Any:
    """Make an option for a whole number, or several, whose error names the value. ``options``: of typer's."""

    def check(value: Any) -> Any:
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None and not least <= each <= most:
                raise typer.BadParameter(f"must be {least}..{most}, not {each}")
        return value

    return typer.Option(*names, callback=check, help=text, **options)


def byte_of(text: str) -> int:
    """Read a ToS byte from decimal or hexadecimal text. Raise ``ValueError`` for anything but 0..255."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value <= 0xFF:
        raise ValueError(f"ToS must be a number of 0..255 such as 0x28, not {text!r}")
    return value


def one_of(words: Iterable[str], text: str, *names: str, comma: bool = False, **options: Any) -> Any:
    """Return an option for one of ``words``, or with ``comma`` for several of them in one value.

    ``{}`` in the help's ``text`` stands for the words. An error names the value. ``options``: of typer's. The
    parameter's type can be the ``Literal`` of the words.
    """
    known = list(words)

    def check(value: Any) -> Any:
        for each in value.split(",") if comma and value else [value]:
            if each is not None and each.strip() not in known:
                hint = nearest(each, known)
                raise typer.BadParameter(f"must be one of {', '.join(known)}, not {each!r}{hint}")
        return value

    # The parser keeps typer from checking a Literal itself: its error has no hint.
    return typer.Option(
        *names, callback=check, help=text.format(", ".join(known)),
        **{"parser": str, "metavar": "WORD", **options},
    )  # fmt: skip


def regular(path: Path | None) -> Path | None:
    """Refuse a pipe, which may never end, where a file is to be read.

    It is the callback of options and arguments.
    """
    if path is not None and path.exists() and not path.is_file():
        raise typer.BadParameter(f"must be a file, not {_kind(path)} {str(path)!r}")
    return path


def _kind(path: Path) -> str:
    return "the folder" if path.is_dir() else "the pipe" if path.is_fifo() else "the device or socket"
