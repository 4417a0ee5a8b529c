# SPDX-License-Identifier: BSD-2-Clause
"""Writes a folder completely or not at all, and changes no file that an earlier run did not write."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def manifest(files: Mapping[str, str | bytes], head: Mapping[str, Any]) -> str:
    """Write JSON text: ``head``, then size and SHA-256 of every file.

    It has no dates: it differs only if they do.
    """
    entries = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted((name, _bytes(content)) for name, content in files.items())
    }
    return json.dumps({**head, "files": entries}, indent=1) + "\n"


def check(out: Path, force: bool) -> None:
    """Refuse a folder that cannot be written to, before the work.

    Raises ``FileExistsError`` for one that is not empty, unless ``force``, and for anything else of that
    name; ``PermissionError``, ``NotADirectoryError`` and the like from the system.
    """
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(out))
    if out.is_dir():
        if any(out.iterdir()) and not force:
            raise FileExistsError(f"output folder is not empty (--force overwrites it): {str(out)!r}")
        parent = out
    else:
        parent = next(folder for folder in Path(os.path.realpath(out)).parents if folder.exists())
        if not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(out))
    if not os.access(parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(out))


def _former(out: Path) -> set[str]:
    """Return the files that an earlier run wrote, by its manifest."""
    try:
        names = set(json.loads((out / MANIFEST).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()
    files = {name for name in names if isinstance(name, str) and Path(name).name == name}
    return {name for name in files if os.path.isfile(out / name)}  # not "..", nor what no file is called


def write(out: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write ``files``, text as UTF-8, into ``out``; return their paths.

    All are written to a hidden folder first. For a new folder it lies beside it and is renamed. For an
    existing one, which may be a mount point or the working directory, it lies inside: files move from there
    one by one, the manifest last. Files that only an earlier run wrote are removed; all others stay. A link
    is followed. A killed program leaves the hidden folder, ``.partial-*``. ``OSError``, with ``out`` as its
    file name, where no folder can be made.
    """
    exists = out.is_dir()
    target = Path(os.path.realpath(out))
    place = target if exists else target.parent
    try:
        place.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=place, prefix=".partial-"))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from error
    try:
        for name, content in files.items():
            (scratch / name).write_bytes(_bytes(content))
        scratch.chmod(0o777 & ~_umask())
        if exists:
            stale = _former(out) - set(files)
            for name in sorted(files, key=lambda name: name == MANIFEST):
                os.replace(scratch / name, out / name)
            for name in stale:
                (out / name).unlink(missing_ok=True)
        else:
            os.replace(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return [out / name for name in files]


def _umask() -> int:
    """Return the process's mask for new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
