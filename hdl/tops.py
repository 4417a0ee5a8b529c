# SPDX-License-Identifier: BSD-2-Clause
"""The modules that the project emits as Verilog, by name."""

from collections.abc import Callable
from functools import partial

from amaranth.lib import wiring

from inceptionn.wire import GROUP_LANES

from .codec.compressor import StandaloneCompressor
from .codec.paper.decompressor import Decompressor
from .nic import Nic

_TOPS: dict[str, Callable[..., wiring.Component]] = {
    "inceptionn_nic": Nic,
    "inceptionn_compressor": StandaloneCompressor,
    "inceptionn_decompressor": Decompressor,
}


def tops_of(lanes: int) -> dict[str, Callable[[], wiring.Component]]:
    """Verilog module name to a factory of its component with ``lanes``; ports: docs/architecture.md."""
    return {name: partial(component, lanes=lanes) for name, component in _TOPS.items()}


TOPS = tops_of(GROUP_LANES)
"""The modules of the default width."""
