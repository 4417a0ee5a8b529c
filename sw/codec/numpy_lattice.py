# SPDX-License-Identifier: BSD-2-Clause
"""Blocks of the planes codec whose values are all on its lattice; see :mod:`.numpy_kernel`."""

from . import numpy_planes
from .coder import Coder
from .numpy_planes import data_bytes, decode, plane_bytes
from .numpy_types import Bits, Bytes

__all__ = ["block", "data_bytes", "decode", "lossy", "plane_bytes"]


def block(bits: Bits, p: Coder) -> Bytes:
    """Return the block of some lanes."""
    return numpy_planes.block(numpy_planes.settled_raw(bits, p), p)


def lossy(bits: Bits, p: Coder) -> Bits:
    """Return what decompressing the compressed lanes gives: multiples of the step."""
    return numpy_planes.lossy(numpy_planes.settled_raw(bits, p), p)
