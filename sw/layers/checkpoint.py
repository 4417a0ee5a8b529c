# SPDX-License-Identifier: BSD-2-Clause
"""Files of state dictionaries: whole or not there at all, and never read if a bit has changed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..system import atomic_file

_DIGEST = hashlib.sha256().digest_size
_ARRAY = "__array__"
"""The only key of a dictionary that stands for an array in the text; its value is the array's number."""


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Writes nested dictionaries of NumPy arrays and of what JSON can hold, such as ``state_dict()`` returns.

    An .npz archive, for `numpy.load` to look into: the arrays, and the rest as JSON text in "state". The
    archive's comment, the last 32 bytes of the file, is the SHA-256 of all bytes before it. The file gets its
    name when all of it is on the disk; otherwise ``OSError`` with that name, and no file is left.

    ``TypeError`` for what JSON cannot hold, arrays of objects, and keys that are no text.
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
    """What `save` was given; tuples are lists now.

    ``ValueError`` with the name of a file that `save` did not write, or that has changed since; ``OSError``
    for one that cannot be read.
    """
    with open(path, "rb") as file:
        data = memoryview(file.read())
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise ValueError(f"{os.fspath(path)} is not a checkpoint, or damaged: its checksum does not match")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        state = _with_arrays(json.loads(str(arrays["state"])), arrays)
        if not isinstance(state, dict):
            raise TypeError(f"its state is a {type(state).__name__}")
    except Exception as error:  # another program's file with a valid checksum, whatever error it causes
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
