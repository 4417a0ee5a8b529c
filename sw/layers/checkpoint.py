# SPDX-License-Identifier: BSD-2-Clause
"""Files of state dictionaries. A file is written completely or not at all, and a damaged one is refused."""

import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..system import atomic_file

_READING = threading.Lock()
"""NumPy parses an array's header by `ast`, which in CPython fails now and then in two threads at once
(https://github.com/python/cpython/issues/106905).
"""
_DIGEST = hashlib.sha256().digest_size
_ARRAY = "__array__"
"""The only key of a dictionary that represents an array in the text. Its value is the array's name."""


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write nested dictionaries of NumPy arrays and JSON values, such as ``state_dict()`` returns.

    The file is an .npz archive, which `numpy.load` can open: the arrays, and everything else as JSON text in
    "state". Its last 32 bytes, the archive's comment, are the SHA-256 of all bytes before them. The file gets
    its name once it is completely on disk. Otherwise this raises ``OSError`` with that name and leaves no
    file.

    Raises ``TypeError`` for a value that JSON cannot represent, an array of objects, or a key that is not a
    string.
    """
    arrays: dict[str, Any] = {}
    text = json.dumps(_without_arrays(state, arrays))
    packed = io.BytesIO()
    np.savez(packed, state=np.array(text), **arrays)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.comment = bytes(_DIGEST)
    data = packed.getbuffer()
    data[-_DIGEST:] = hashlib.sha256(data[:-_DIGEST]).digest()
    with atomic_file.writing(path) as file:
        file.write(data)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the state that `save` was given. Tuples have become lists.

    Raises ``ValueError`` with the file's name if `save` did not write it or it has changed since. Raises
    ``OSError`` if it cannot be read.
    """
    with open(path, "rb") as file:
        data = memoryview(file.read())
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise ValueError(f"{os.fspath(path)} is not a checkpoint, or damaged: its checksum does not match")
    try:
        with _READING, np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        state = _with_arrays(json.loads(str(arrays["state"])), arrays)
        if not isinstance(state, dict):
            raise TypeError(f"its state is a {type(state).__name__}")
    except Exception as error:  # another program's file with a valid checksum may cause any error
        raise ValueError(f"{os.fspath(path)} is not a checkpoint: {type(error).__name__}: {error}") from error
    return state


def _without_arrays(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"a checkpoint cannot hold arrays of {value.dtype}")
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {_ARRAY: name}
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"the keys of a checkpoint must be text, not {wrong[0]!r}")
        return {key: _without_arrays(one, arrays) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(one, arrays) for one in value]
    return value


def _with_arrays(value: Any, arrays: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _with_arrays(one, arrays) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_arrays(one, arrays) for one in value]
    return value
