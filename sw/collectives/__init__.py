# SPDX-License-Identifier: BSD-2-Clause
"""Collectives that compress what they send: over any transport, or an mpi4py communicator."""

from .agreement import MismatchError
from .allreduce import MEAN, SUM, allreduce_comp
from .bfloat16 import BFloat16
from .buffers import IN_PLACE
from .communicator import CompressedCommunicator
from .settings import Op

__all__ = [
    "IN_PLACE",
    "MEAN",
    "SUM",
    "BFloat16",
    "CompressedCommunicator",
    "MismatchError",
    "Op",
    "allreduce_comp",
]
