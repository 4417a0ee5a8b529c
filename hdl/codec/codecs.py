# SPDX-License-Identifier: BSD-2-Clause
"""The components of the codecs that an engine can have.

Choosing a codec is choosing a compressor and a decompressor with the same ports, from the folder of the
codec's name. What else depends on it is in the codec's record
(:class:`inceptionn.wire.codec.CodecSpec`). Nothing here needs Amaranth: the
components are imported on first use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from inceptionn import wire
from inceptionn.wire import DEFAULT_CODEC as PAPER

__all__ = ["CODECS", "PAPER", "LaneCodec", "codec_of"]


@dataclass(frozen=True)
class LaneCodec:
    """A codec's record and its components."""

    spec: wire.CodecSpec

    @property
    def name(self) -> str:
        """The codec's name."""
        return self.spec.name

    @property
    def count_bits(self) -> int:
        """Bits of a class's count in a report."""
        return self.spec.most.bit_length()

    @property
    def compressor(self) -> Callable[..., Any]:
        """The class of :class:`~.compressor.Compressor`."""
        return self._component("compressor", "Compressor")

    @property
    def decompressor(self) -> Callable[..., Any]:
        """The class of :class:`~.decompressor.Decompressor`."""
        return self._component("decompressor", "Decompressor")

    @property
    def serial_compressor(self) -> Callable[..., Any]:
        """The class of :class:`.serial.compressor.Compressor`."""
        return self._component("compressor", "Compressor", "..serial")

    @property
    def serial_decompressor(self) -> Callable[..., Any]:
        """The class of :class:`.serial.decompressor.Decompressor`."""
        return self._component("decompressor", "Decompressor", "..serial")

    @property
    def statistics(self) -> Any:
        """Layout of the compressor's report on a block: sizes, sums and ``counts`` of the classes."""
        return self._component("block_statistics", "Statistics")

    @property
    def usable(self) -> Callable[..., Any]:
        """The function from the parameters' values to the bit of the rule for them."""
        return self._component("parameters", "usable")

    def _component(self, module: str, name: str, family: str = "") -> Any:
        return getattr(import_module(f"{family}.{self.name}.{module}", __package__), name)


CODECS: dict[str, LaneCodec] = {name: LaneCodec(spec) for name, spec in wire.CODECS.items()}
"""By name."""


def codec_of(name: str) -> LaneCodec:
    """Return the codec of this name; ``ValueError`` for any other."""
    return CODECS[wire.codec_spec(name).name]
