# SPDX-License-Identifier: BSD-2-Clause
"""Verilated modules in this process: frames in, frames out, with the cycles they took.

A model is Verilog compiled by `inceptionn.sim.models.in_process` and driven by the C++ of ``harness.cpp``:
hundreds of thousands of cycles per second, against a few thousand of a cocotb bench. It checks the rules of
AXI4-Stream (Arm IHI 0051A) on every output beat and raises an error if a module hangs. Inputs that a module
must ignore carry noise: an idle bus, absent byte lanes, ``tuser`` where it has no meaning.

    with VerilatedNic(Path("build/vc709/inceptionn_nic.v")) as nic:
        wire, restored = nic.loopback(frames)
"""

from ..models.tools import ToolError, ToolMissing
from .module import VerilatedModule
from .nic import VerilatedNic
from .packets import BusError, HangError, ModelError, Output, Packet, Pause, ProtocolError, Timing

__all__ = [
    "BusError", "HangError", "ModelError", "Output", "Packet", "Pause", "ProtocolError", "Timing",
    "ToolError", "ToolMissing", "VerilatedModule", "VerilatedNic",
]  # fmt: skip
