# SPDX-License-Identifier: BSD-2-Clause
"""The modules that the project emits as Verilog, by name."""

from collections.abc import Callable
from functools import partial

from amaranth.lib import wiring

from inceptionn.wire import GROUP_LANES

from .codec.codecs import PAPER, codec_of
from .codec.compressor import StandaloneCompressor
from .codec.decompressor import StandaloneDecompressor
from .nic import Nic


def tops_of(lanes: int, codec: str = PAPER, engines: int = 1) -> dict[str, Callable[[], wiring.Component]]:
    """Map each Verilog module's name to a factory of its component; ports: docs/architecture.md.

    ``engines`` is the NIC's number per direction. ``ValueError`` for an unknown codec.
    """
    codec_of(codec)
    return {
        "inceptionn_nic": partial(Nic, engines=engines, lanes=lanes, codec=codec),
        "inceptionn_compressor": partial(StandaloneCompressor, lanes=lanes, codec=codec),
        "inceptionn_decompressor": partial(StandaloneDecompressor, lanes=lanes, codec=codec),
    }


TOPS = tops_of(GROUP_LANES)
"""The modules of the default width and codec."""
