# SPDX-License-Identifier: BSD-2-Clause
"""The golden model: codec and frame transform in plain NumPy, against which everything else is judged."""

from inceptionn.sim.golden.codec import (
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
from inceptionn.sim.golden.flows import Flow, FlowTable
from inceptionn.sim.golden.frame import EngineConfig, Result, receive, transmit

__all__ = [
    "EngineConfig",
    "Flow",
    "FlowTable",
    "MalformedError",
    "Result",
    "compress",
    "compress_block",
    "compress_lane",
    "decompress",
    "decompress_block",
    "decompress_lane",
    "histogram",
    "lossy",
    "receive",
    "transmit",
]
