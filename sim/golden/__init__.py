# SPDX-License-Identifier: BSD-2-Clause
"""The golden model: codecs and frame transform in plain NumPy, the reference for everything else."""

from . import lattice, planes
from .codec import (
    MalformedError,
    compress,
    compress_block,
    compress_lane,
    decompress,
    decompress_block,
    decompress_lane,
    histogram,
    lossy,
)
from .flows import Flow, FlowTable
from .frame import EngineConfig, Result, receive, transmit

__all__ = [
    "EngineConfig", "Flow", "FlowTable", "MalformedError", "Result", "compress", "compress_block",
    "compress_lane", "decompress", "decompress_block", "decompress_lane", "histogram", "lattice", "lossy",
    "planes", "receive", "transmit",
]  # fmt: skip
