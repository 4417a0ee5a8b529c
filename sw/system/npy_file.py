# SPDX-License-Identifier: BSD-2-Clause
"""Arrays of values from ``.npy`` files."""

import math
import os
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .text import printable

MAGIC = b"\x93NUMPY"
_ZIP = b"PK\x03\x04"
_PICKLE = b"\x80\x02"
"""The first bytes of files of torch before 1.6; later ones are ZIP archives."""
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0,
            (3, 0): npy.read_array_header_2_0}  # fmt: skip
"""Version 3 has UTF-8 where version 2 has Latin-1: in names of fields, which arrays of floats do not have."""
_DAMAGE = (ValueError, KeyError, EOFError, TokenError, SyntaxError, TypeError, ArithmeticError, MemoryError,
           RecursionError)  # fmt: skip
"""The errors that NumPy raises for damaged headers."""
_BFLOAT16 = np.dtype("V2")
"""The type that ``np.save`` writes for the bfloat16 of ml_dtypes."""
_LONGEST = 2**48
"""Values that an axis may have; more overflow in NumPy, even if another axis is empty."""


def _is_torch(path: Path) -> bool:
    try:
        with ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except Exception:  # a damaged archive may cause any error
        return False


def load(path: Path, *, halves: bool = False) -> NDArray[Any]:
    """Read the array of a ``.npy`` file into memory, so that another program may truncate the file.

    With ``halves`` it may hold float16 or bfloat16, which are returned as float16 and as uint16 patterns.
    Raises ``ValueError`` for another file, and for one that ends too early. Raises ``TypeError`` for values
    that are not float32; ``OSError`` from the system.
    """
    shown = printable(path)
    with path.open("rb") as file:
        start = file.read(len(_ZIP))
        if start[:2] == _PICKLE or (start == _ZIP and _is_torch(path)):
            raise ValueError(
                f"{shown} is a file of torch.save; of a tensor t in it, "
                "np.save('t.npy', t.detach().float().cpu().numpy()) makes a .npy file"
            )
        if start == _ZIP:
            raise ValueError(f"{shown} holds several arrays; save them one by one")
        file.seek(0)
        try:
            shape, _, dtype = _READERS[npy.read_magic(file)](file)
            wanted = math.prod(shape) * dtype.itemsize
            if any(type(length) is not int or not 0 <= length <= _LONGEST for length in shape):
                raise ValueError("no shape of an array")
        except _DAMAGE:
            raise ValueError(f"{shown} is not a .npy file, or its header is damaged") from None
        if dtype != np.float32 and not (halves and dtype in (np.float16, _BFLOAT16)):
            change = (
                "view('V2')) marks bfloat16"
                if halves and dtype == np.uint16
                else "astype('float32')) converts it"
            )
            remedy = f": np.save({path.name!r}, np.load({path.name!r}).{change}"
            raise TypeError(
                f"{shown} must hold float32{', float16 or bfloat16' * halves} values, not "
                f"{dtype}{remedy if dtype.kind in 'fiu' else ''}"
            )
        there = os.fstat(file.fileno()).st_size - file.tell()
        if there < wanted:
            raise ValueError(f"{shown} ends too early: {there} bytes of values, not {wanted}")
        file.seek(0)
        values: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        return values.view(np.uint16) if dtype == _BFLOAT16 else values
