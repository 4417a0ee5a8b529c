# SPDX-License-Identifier: BSD-2-Clause
"""The codec on the host: :class:`Codec`, in C or NumPy."""

from .codec import (
    Codec,
    Index,
    active_path,
    array_of,
    available_paths,
    converted,
    crc32,
    exponent_of,
    force_path,
    largest_magnitude,
    operation_paths,
    remedy,
    scale_exponent,
    using_path,
)
from .paths import AUTOMATIC, NUMPY, Paths
from .stream_codec import MAX_SCALE

__all__ = [
    "AUTOMATIC", "MAX_SCALE", "NUMPY", "Codec", "Index", "Paths", "active_path", "array_of",
    "available_paths", "converted", "crc32", "exponent_of", "force_path", "largest_magnitude",
    "operation_paths", "remedy", "scale_exponent", "using_path",
]  # fmt: skip
