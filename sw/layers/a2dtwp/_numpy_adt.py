# SPDX-License-Identifier: BSD-2-Clause
"""The functions of the native module in NumPy, with the same bytes, for installations without a compiler."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def _bytes(buffer: Any) -> NDArray[np.uint8]:
    return np.frombuffer(memoryview(buffer).cast("B"), np.uint8)


def _columns(buffer: Any, keep: int) -> NDArray[np.uint8]:
    """View a buffer of n words as uint8[n, keep]."""
    return _bytes(buffer).reshape(-1, keep)


def pack(values: Any, out: Any, keep: int, threads: int) -> None:
    """Do `inceptionn.native.adt.pack`."""
    if not memoryview(values).nbytes:
        return
    words = _bytes(values).view("=u4").astype("<u4", copy=False).view(np.uint8).reshape(-1, 4)
    _columns(out, keep)[:] = words[:, 4 - keep :]


def unpack(packed: Any, out: Any, keep: int, threads: int) -> None:
    """Do `inceptionn.native.adt.unpack`."""
    if not memoryview(out).nbytes:
        return
    words = np.zeros((memoryview(out).nbytes // 4, 4), np.uint8)
    words[:, 4 - keep :] = _columns(packed, keep)
    _bytes(out).view("=u4")[:] = words.view("<u4").reshape(-1)
