# SPDX-License-Identifier: BSD-2-Clause
"""Files that are written completely or not at all.

The data goes to a file without a name in the target's folder, reaches the disk, and gets its name: a reader
sees the former file or the new one. A link is followed and an existing file keeps its mode. Nothing is left
behind after an error, nor if the program is killed before the last step, in which a new file takes the place
of an old one. (On file systems without ``O_TMPFILE``, such as NFS, the file has a hidden name all the time.)
What a killed program has left, the next that writes to the folder removes: a live one locks its file.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PREFIX = ".partial-"
"""The prefix of the names of unfinished files."""
_PARTIAL = re.compile(re.escape(PREFIX) + "[0-9a-f]{16}")
_DESCRIPTORS = Path("/proc/self/fd")


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
    """Open a binary file for writing that replaces ``path`` at the end of the ``with`` block.

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
        _sweep(target.parent)
        partial = target.with_name(PREFIX + secrets.token_hex(8))
        with _unnamed(partial) as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not partial.exists() and not _named(file, target):
                _named(file, partial)
            if partial.exists():
                partial.replace(target)
        _sync(target.parent)
    except OSError as error:
        named = target if error.filename is None else Path(error.filename)
        ours = named == target or named.name.startswith(PREFIX) or named.parent == _DESCRIPTORS
        if error.errno is None or not ours:
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
    """Return the file that is written.

    The link of a pipe, ``/dev/stdout``, leads to no path: it stays as it is.
    """
    return Path(path) if _is_special(Path(path)) else Path(os.path.realpath(path))


def _unnamed(partial: Path) -> BinaryIO:
    """Open a new file in the folder of ``partial``. It has that name only where every file needs one."""
    if _DESCRIPTORS.is_dir():  # by which `_named` finds the file
        with suppress(OSError):  # the next line fails for the same reason, unless O_TMPFILE is the reason
            descriptor = os.open(partial.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
            _lock(descriptor)
            return os.fdopen(descriptor, "w+b")
    while True:
        # Not "xb": NumPy writes to such a file without Python and loses the reason for a failure.
        file = partial.open("x+b")
        _lock(file.fileno())
        if partial.exists():  # else another program has swept it before it was locked
            return file
        file.close()


def _lock(descriptor: int) -> bool:
    """Lock an unfinished file for as long as it is open; False if another program has, or none can."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(folder: Path) -> None:
    """Remove the unfinished files in a folder that no process holds."""
    with suppress(OSError):
        for name in filter(_PARTIAL.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if stat.S_ISREG(os.fstat(descriptor).st_mode) and _lock(descriptor):
                        os.unlink(folder / name)
                finally:
                    os.close(descriptor)


def _named(file: BinaryIO, path: Path) -> bool:
    """Give a file without a name one; False if another file has it."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:  # with a folder's descriptor Python calls linkat(2), which follows the link in /proc
        os.link(_DESCRIPTORS / str(file.fileno()), path.name, dst_dir_fd=folder)
    except FileExistsError:
        return False
    finally:
        os.close(folder)
    return True


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file() and not target.is_dir()


def _sync(folder: Path) -> None:
    """Write the new name to the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
