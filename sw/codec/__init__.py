# SPDX-License-Identifier: BSD-2-Clause
"""The codec on the host: :class:`Codec`, in C or NumPy."""

from .codec import (
    MAX_SCALE,
    Codec,
    Index,
    active_path,
    available_paths,
    crc32,
    force_path,
    operation_paths,
    scale_exponent,
)

__all__ = [
    "MAX_SCALE",
    "Codec",
    "Index",
    "active_path",
    "available_paths",
    "crc32",
    "force_path",
    "operation_paths",
    "scale_exponent",
]
