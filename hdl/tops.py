# SPDX-License-Identifier: BSD-2-Clause
"""The modules that the project puts out as Verilog, by name."""

from collections.abc import Callable

from amaranth.lib import wiring

from inceptionn.hdl.compressor import StandaloneCompressor
from inceptionn.hdl.decompressor import Decompressor
from inceptionn.hdl.nic import Nic

TOPS: dict[str, Callable[[], wiring.Component]] = {
    "inceptionn_nic": Nic,
    "inceptionn_compressor": StandaloneCompressor,
    "inceptionn_decompressor": Decompressor,
}
"""Verilog module name to a factory of its component; ports as in docs/architecture.md."""
