# SPDX-License-Identifier: BSD-2-Clause
"""A registry of namespaces and their owners, by which a program removes those of a killed one.

One small file for each set of namespaces names its owner by process id and start time (ids are reused, the
pair is not). A lock keeps two programs from taking the same number, or removing the same namespaces.
"""

import fcntl
import json
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .iproute import NetworkError, ip

PREFIX = "inc-"
"""Prefix of every namespace made here: ``inc-<number>-<host>``."""
FILES = "inceptionn-netns-"
"""Prefix of every folder with the temporary files of a set of namespaces."""
NETNS = Path("/run/netns")
_LOCK_SECONDS = 60
_TERM_SECONDS = 1.0


def folder() -> Path:
    """Return the folder of the files: /run, or that for temporary files where /run cannot be written.

    Raises `NetworkError` where others than root could have written there: what the files name is removed.
    """
    base = Path("/run") if os.access("/run", os.W_OK) else Path(tempfile.gettempdir())
    path = base / "inceptionn-netns"
    path.mkdir(mode=0o755, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise NetworkError(f"{path} is not a folder that only root can write to: remove it")
    return path


def _open(path: str, flags: int, mode: int = 0o644) -> int:
    """Open for `open`, never following a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _open_private(path: str, flags: int) -> int:
    """Open as `_open`, a file that other users cannot open: who can open the lock can hold it."""
    descriptor = _open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def claim(names: Callable[[int], list[str]], files: Path) -> int:
    """Take the smallest free number. ``names`` returns the namespaces for a number.

    ``files``: a folder that goes with them; its name begins with `FILES`. The caller makes it after this
    call, so that `sweep` knows it however early its owner is killed.

    Networks of owners that are dead are removed first. Raises `NetworkError` if another program holds the
    lock for a minute.
    """
    with _lock():
        sweep_locked()
        number = 0
        while _file(number).exists() or any((NETNS / name).exists() for name in names(number)):
            number += 1
        record = {**_owner(os.getpid()), "namespaces": names(number), "files": str(files)}
        partial = _file(number).with_suffix(".partial")
        with open(partial, "w", opener=_open) as file:
            file.write(json.dumps(record) + "\n")
        partial.replace(_file(number))
    return number


def release(number: int) -> None:
    """Free a number whose namespaces and folder have been removed."""
    _file(number).unlink(missing_ok=True)


def sweep() -> list[str]:
    """Remove the networks of dead owners. Return the names of their namespaces."""
    with _lock():
        return sweep_locked()


def folders() -> list[Path]:
    """Return the folders with the temporary files of all sets of namespaces that are up."""
    found = []
    for path in sorted(folder().glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            with open(path, opener=_open) as file:
                record = json.loads(file.read())
            if _owner(int(record["pid"])) == {word: record[word] for word in ("pid", "started", "boot")}:
                found.append(Path(record["files"]))
    return found


def sweep_locked() -> list[str]:
    """Do `sweep` for a caller that holds the lock."""
    removed: list[str] = []
    for path in sorted(folder().glob("*.json")):
        try:
            with open(path, opener=_open) as file:
                record = json.loads(file.read())
            names, pid, files = list(record["namespaces"]), int(record["pid"]), Path(record.get("files", ""))
            if _owner(pid) == {word: record[word] for word in ("pid", "started", "boot")}:
                continue
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError, OSError):
            names, files = [], Path()  # not in this form: no network's
        names = [name for name in names if isinstance(name, str) and name.startswith(PREFIX)]
        remove(names)
        removed += names
        if files.name.startswith(FILES):
            shutil.rmtree(files, ignore_errors=True)
        path.unlink(missing_ok=True)
    return removed


def remove(names: list[str]) -> None:
    """End all processes in existing namespaces, by SIGTERM first, then delete the namespaces."""
    names = [name for name in names if (NETNS / name).exists()]
    if _signal(names, signal.SIGTERM):
        deadline = time.monotonic() + _TERM_SECONDS
        while time.monotonic() < deadline and _signal(names, 0):
            time.sleep(0.02)
        deadline = time.monotonic() + _TERM_SECONDS
        while _signal(names, signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.02)
    for name in names:
        try:
            ip("netns", "delete", name)
        except NetworkError:
            if (NETNS / name).exists():
                raise


def pids(name: str) -> list[int]:
    """Return the processes in a namespace, without zombies."""
    return [int(pid) for pid in ip("netns", "pids", name).split() if _state(int(pid)) not in ("", "Z", "X")]


def _signal(names: list[str], number: int) -> int:
    """Send a signal to all processes in the namespaces but this one; return their number."""
    found = 0
    for name in names:
        with suppress(NetworkError):
            for pid in pids(name):
                if pid != os.getpid():
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
                        found += 1
    return found


def _file(number: int) -> Path:
    return folder() / f"{number}.json"


def _stat(pid: int) -> list[str]:
    """Return fields 3 and on of /proc/PID/stat (proc(5)), empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str:
    return (_stat(pid) or [""])[0]


def _owner(pid: int) -> dict[str, Any]:
    """Identify a process, even if its id is used again. There is no start time if it is gone."""
    fields = _stat(pid)
    alive = fields and fields[0] not in ("Z", "X")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"pid": pid, "started": int(fields[19]) if alive else None, "boot": boot}


@contextmanager
def _lock() -> Iterator[None]:
    path = folder() / "lock"
    with open(path, "w", opener=_open_private) as lock:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NetworkError(f"another program has held {path} for {_LOCK_SECONDS} s") from None
                time.sleep(0.05)
        yield
