# SPDX-License-Identifier: BSD-2-Clause
"""The cache of models: folders named by a hash of all their inputs.

An unchanged circuit is built once, even if two processes need it at the same time.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def build_root() -> Path:
    """Return ``build/sim`` of the working directory, or of ``$INCEPTIONN_BUILD``."""
    return (Path(os.environ.get("INCEPTIONN_BUILD", "build")) / "sim").resolve()


def digest(*parts: str) -> str:
    """Hash texts and where each ends, to 16 digits."""
    key = hashlib.sha256()
    for data in (part.encode() for part in parts):
        key.update(len(data).to_bytes(8, "little") + data)
    return key.hexdigest()[:16]


@contextmanager
def built_once(folder: Path) -> Iterator[Path | None]:
    """Yield an empty folder to build in, which becomes ``folder`` when the block ends well.

    It yields None if ``folder`` exists. A lock beside it keeps other processes waiting meanwhile.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
        try:
            yield scratch
            scratch.chmod(0o755)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def keep_source(text: str, name: str) -> Path:
    """Return the path of the file ``{name}.v`` of that text in the cache."""
    folder = build_root() / f"{name}-{digest(text)}"
    with built_once(folder) as scratch:
        if scratch is not None:
            (scratch / f"{name}.v").write_text(text)
    return folder / f"{name}.v"
