# SPDX-License-Identifier: BSD-2-Clause
"""The modules that the project emits as Verilog, by name."""

from collections.abc import Callable
from functools import partial

from amaranth.lib import wiring

from .codec.shape import USUAL, EngineShape
from .codec.standalone_compressor import StandaloneCompressor
from .codec.standalone_decompressor import StandaloneDecompressor
from .nic import Nic


def tops_of(shape: EngineShape, engines: int = 1) -> dict[str, Callable[[], wiring.Component]]:
    """Map each Verilog module's name to a factory of its component; ports: docs/architecture.md.

    ``engines`` is the NIC's number per direction. Of one lane there is the NIC alone.
    """
    nic: dict[str, Callable[[], wiring.Component]] = {"inceptionn_nic": partial(Nic, shape, engines=engines)}
    if shape.serial:
        return nic
    return {
        **nic,
        "inceptionn_compressor": partial(StandaloneCompressor, shape),
        "inceptionn_decompressor": partial(StandaloneDecompressor, shape),
    }


TOPS = tops_of(USUAL)
"""The modules of the usual shape."""
