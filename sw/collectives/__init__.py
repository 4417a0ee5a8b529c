# SPDX-License-Identifier: BSD-2-Clause
"""Collectives that compress what they send: over any transport, or an mpi4py communicator."""

from inceptionn.collectives.agreement import MismatchError
from inceptionn.collectives.allreduce import MEAN, SUM, allreduce_comp
from inceptionn.collectives.bfloat16 import BFloat16
from inceptionn.collectives.buffers import IN_PLACE
from inceptionn.collectives.communicator import CompressedCommunicator
from inceptionn.collectives.settings import Op

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
