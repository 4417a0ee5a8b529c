# SPDX-License-Identifier: BSD-2-Clause
"""Files that are written completely or not at all.

The data goes to a file next to the target, reaches the disk, and is renamed: a reader sees the former file or
the new one. A link is followed, an existing file keeps its mode, and after an error nothing is left behind.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PREFIX = ".partial-"
"""How the names of unfinished files begin."""


def check(path: str | os.PathLike[str], force: bool = True) -> None:
    """Refuse a file that could not be written, before the work whose result goes there.

    Raises ``FileExistsError`` for an existing regular file unless ``force``, ``IsADirectoryError``,
    ``FileNotFoundError`` if its folder is missing, ``PermissionError`` if nothing can be written there.
    """
    target = _target(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.is_file() and not force:
        raise FileExistsError(f"file exists (--force overwrites it): {str(path)!r}")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    if not os.access(target if _is_special(target) else target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file, open for writing, that takes the place of ``path`` at the end of the ``with`` block.

    If the block raises, ``path`` stays as it was. A device or a pipe (``/dev/stdout``) is written directly.
    ``OSError``, with ``path`` as its file name, where that fails: no space, no permission, no such folder.
    """
    target = _target(path)
    partial: Path | None = None
    try:
        if _is_special(target):
            with target.open("wb") as file:
                yield file
            return
        partial = target.with_name(PREFIX + secrets.token_hex(8))
        # Not "xb": NumPy writes to such a file without Python and loses the reason for a failure.
        with partial.open("x+b") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        _sync(target.parent)
    except OSError as error:
        named = target if error.filename is None else Path(error.filename)
        if error.errno is None or (named != target and not named.name.startswith(PREFIX)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if partial is not None:
            with suppress(FileNotFoundError):
                partial.unlink()


def write(path: str | os.PathLike[str], data: bytes | memoryview | str) -> None:
    """Write ``data``, text as UTF-8, to ``path`` as a whole; see :func:`writing`."""
    with writing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def _target(path: str | os.PathLike[str]) -> Path:
    """The file that is written. The link of a pipe, ``/dev/stdout``, leads to no path: it stays as it is."""
    return Path(path) if _is_special(Path(path)) else Path(os.path.realpath(path))


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file() and not target.is_dir()


def _sync(folder: Path) -> None:
    """Writes the new name to the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
