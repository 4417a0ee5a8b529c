# SPDX-License-Identifier: BSD-2-Clause
"""Collectives that compress what they send, over any transport or an mpi4py communicator.

The parts for a collective or layer of your own are those of `building`.
"""

from . import building
from .agreement import MismatchError
from .allreduce import MEAN, SUM, allreduce_comp, iallreduce_comp
from .blockwise import allgather_comp, iallgather_comp, ireduce_scatter_comp, reduce_scatter_comp
from .building import *  # noqa: F403 - its names are listed there
from .communicator import CompressedCommunicator
from .error_feedback import ErrorFeedback
from .ledger import Statistics, statistics
from .requests import CollectiveRequest
from .rooted import bcast_comp, ibcast_comp, ireduce_comp, reduce_comp
from .settings import Op, Path, Scale, SumScale
from .values.bfloat16 import BFloat16
from .values.buffers import IN_PLACE
from .values.deflated import Deflated
from .values.stream_codec import StreamCodec, examine

__all__ = [
    "IN_PLACE", "MEAN", "SUM", "BFloat16", "CollectiveRequest", "CompressedCommunicator", "Deflated",
    "ErrorFeedback", "MismatchError", "Op", "Path", "Scale", "Statistics", "StreamCodec", "SumScale",
    "allgather_comp", "allreduce_comp", "bcast_comp", "examine", "iallgather_comp", "iallreduce_comp",
    "ibcast_comp", "ireduce_comp", "ireduce_scatter_comp", "reduce_comp", "reduce_scatter_comp",
    "statistics",
]  # fmt: skip
__all__ += building.__all__
