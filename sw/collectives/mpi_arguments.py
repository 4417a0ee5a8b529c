# SPDX-License-Identifier: BSD-2-Clause
"""The arguments of mpi4py's methods, and whether a collective of this package takes them."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..codec import remedy
from ..system.warning import warn
from .settings import Op
from .values.buffers import CONVERTED, is_in_place

FLOATS = ("float32", *CONVERTED)

MAKERS = frozenset(
    "Clone Create Create_cart Create_dist_graph Create_dist_graph_adjacent Create_graph Create_group Dup "
    "Dup_with_info Split Split_type Sub".split()
)
"""Methods that make a communicator."""
REDUCTIONS = re.compile(r"I?(All)?reduce(_scatter)?(_block)?(_init)?|I?(ex)?scan(_init)?", re.IGNORECASE)
"""Methods that combine the values of all ranks."""
MOVEMENTS = re.compile(r"I?(neighbor_)?(bcast|(all)?gatherv?|scatterv?|alltoall[vw]?)(_init)?", re.IGNORECASE)
"""Collectives that pass values on unchanged."""
_OPERATIONS = "SUM MAX MIN PROD LAND LOR LXOR BAND BOR BXOR MAXLOC MINLOC REPLACE NO_OP".split()


def is_float_array(value: Any, dtype: str | None = None) -> bool:
    """Tell whether a value is an array of a type that the collectives accept. ``dtype`` is theirs."""
    return isinstance(value, np.ndarray) and (
        (value.dtype.name in FLOATS and value.dtype.isnative)
        or (dtype == "bfloat16" and value.dtype == np.uint16)
    )


def is_whole_float_array(buffer: Any, dtype: str | None = None) -> bool:
    """Tell whether a buffer in mpi4py's form, such as ``[array, MPI.FLOAT]``, is such an array as a whole."""
    if isinstance(buffer, list | tuple):
        if not buffer or not isinstance(buffer[0], np.ndarray):
            return False
        array, rest = buffer[0], buffer[1:]
        # [array, count, type] with fewer values than the array holds, or with counts per rank, goes to MPI.
        counts = [item for item in rest if isinstance(item, int)]
        if any(count != array.size for count in counts) or any(isinstance(item, tuple) for item in rest):
            return False
        types = [item for item in rest if not isinstance(item, int)]
        if any(not _is_type_of(item, array) for item in types):
            return False
        buffer = array
    return is_float_array(buffer, dtype)


def _is_type_of(datatype: Any, array: np.ndarray[Any, Any]) -> bool:
    """Tell whether an MPI datatype (or its name) is that of an array's elements.

    MPI has no bfloat16, so its arrays come as integers of 16 bits.
    """
    code = datatype if isinstance(datatype, str) else getattr(datatype, "typechar", "")
    return code == array.dtype.char or (array.dtype.name == "bfloat16" and code in ("h", "H"))


class SaidOnce:
    """Warns, once for each method, type and operation, that a call goes to MPI uncompressed.

    With ``silent`` it never warns.
    """

    def __init__(self, silent: bool) -> None:
        self._silent = silent
        self._said: set[tuple[str, str, str]] = set()

    def __call__(self, method: str, arguments: Iterable[Any], op: Any, mpi: Any) -> None:
        """Issue the ``UserWarning`` for a reduction, or if floats are moved.

        ``op`` is None for no reduction.
        """
        found = _kind(arguments)
        native = found.isnative if isinstance(found, np.dtype) else True
        kind = found.name if isinstance(found, np.dtype) else found
        if op is None and not kind.startswith(("float", "bfloat")):
            return
        operation = "" if op is None else f" with {_operation(op, mpi)}"
        told = (method, kind, operation)
        if told in self._said or self._silent:
            return
        self._said.add(told)
        # Another operation, or one of another type, would not be compressed anyway.
        taken = operation in ("", " with SUM", " with MEAN") and isinstance(found, np.dtype)
        hint = remedy(found) if taken and (kind not in FLOATS or not native) else ""
        kind = kind if native else str(found)
        warn(
            f"{method} of {kind}{operation} goes to MPI as it is{hint}; compressed are Allreduce, Reduce, "
            f"Reduce_scatter_block, Allgather and Bcast of whole arrays of float32, {', '.join(CONVERTED)}, "
            "with SUM or MEAN"
        )


def _kind(arguments: Iterable[Any]) -> Any:
    """Return the type of a call's first value: an array's dtype, or the name of another object's type."""
    buffers = [a[0] if isinstance(a, list | tuple) and len(a) else a for a in arguments]
    first = next((b for b in buffers if not is_in_place(b)), None)
    return first.dtype if isinstance(first, np.ndarray) else type(first).__name__


def _operation(op: Any, mpi: Any) -> str:
    """Return the name of a reduction's operation."""
    if isinstance(op, Op):
        return op.name
    return next((name for name in _OPERATIONS if getattr(mpi, name) == op), "an operation")
