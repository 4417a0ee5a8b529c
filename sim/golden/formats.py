# SPDX-License-Identifier: BSD-2-Clause
"""The parts that the two versions of the wire format put into a frame: shim, block, counts of a block.

All else about frames (:mod:`inceptionn.sim.golden.frame`) is the same for both.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inceptionn import wire
from inceptionn.wire import Parameters, PlanesParameters

from . import codec, planes
from .codec import Bits, Fault
from .planes import Words

Counts = tuple[int, ...]
"""Counts of one block by class: lanes per tag (version 1) or groups per code (version 2)."""


class Packed(NamedTuple):
    """A payload's block, its lanes as the other side will see them (words), and the counts."""

    block: bytes
    seen: Words
    counts: Counts


class Unpacked(NamedTuple):
    """The lanes of a block (words, zero from the fault's group on), counts, and the first fault."""

    lanes: Words
    counts: Counts
    fault: Fault | None


class Format(ABC):
    """A codec in frames; ``spec`` is its record."""

    spec: ClassVar[wire.CodecSpec]
    kind: wire.LaneType = wire.FP32_LANES
    base: int
    """Byte 3 of the shim."""

    @property
    def word(self) -> str:
        """The NumPy type of a lane's bits."""
        return f"<u{self.kind.bytes}"

    @property
    def counted(self) -> str:
        """The things that are counted in a block: tags or codes."""
        return f"{self.spec.entry}s"

    def shim(self, base: int, length: int) -> bytes:
        """Return the 8 bytes before a block, for byte 3 and a payload of ``length`` bytes."""
        magic = wire.SHIM_MAGIC.to_bytes(2, "big")
        return magic + bytes([self.spec.version, base]) + length.to_bytes(2, "big") + bytes(2)

    @abstractmethod
    def accepts(self, base: int) -> bool:
        """Tell whether byte 3 of a received shim is valid."""

    @abstractmethod
    def pack(self, lanes: Any) -> Packed:
        """Compress the lanes of a payload, words of the type `word`."""

    @abstractmethod
    def unpack(self, block: bytes, count: int, base: int, size: int) -> Unpacked:
        """Decode the present bytes of a block of ``count`` lanes, announced as ``size`` bytes."""

    def _count(self, classes: NDArray[np.uint8]) -> Counts:
        return tuple(np.bincount(classes, minlength=len(self.spec.classes)).tolist())


class Paper(Format):
    """Version 1, the paper's codec; byte 3 is B, with any value."""

    spec = wire.CODECS["paper"]

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        self.base = parameters.b

    def accepts(self, base: int) -> bool:
        return True

    def pack(self, lanes: Bits) -> Packed:
        tags, vectors = codec.compress_lanes(lanes, self.parameters)
        seen, _ = codec.decompress_lanes(tags, vectors, self.parameters.b)
        return Packed(codec.pack_block(tags, vectors), seen, self._count(tags))

    def unpack(self, block: bytes, count: int, base: int, size: int) -> Unpacked:
        lanes, tags, fault = codec.examine_block(block, count, base, size)
        return Unpacked(lanes, self._count(tags), fault)


class Planes(Format):
    """Version 2, the planes codec; byte 3 is E0, 113..126, or with bf16 lanes E0 + 128."""

    spec = wire.CODECS["planes"]

    def __init__(self, parameters: PlanesParameters, kind: wire.LaneType = wire.FP32_LANES):
        self.kind = kind
        self.base = parameters.e0 + kind.shim_offset

    def accepts(self, base: int) -> bool:
        return PlanesParameters(base - self.kind.shim_offset).valid

    def pack(self, lanes: Words) -> Packed:
        quantised = planes.compress_lanes(lanes, self.base - self.kind.shim_offset, self.kind)
        counts = self._count(planes.group_codes(quantised, self.kind))
        return Packed(planes.pack_block(quantised, self.kind), quantised.bits, counts)

    def unpack(self, block: bytes, count: int, base: int, size: int) -> Unpacked:
        e0 = base - self.kind.shim_offset
        lanes, codes, fault = planes.examine_block(block, count, e0, size, self.kind)
        return Unpacked(lanes, self._count(codes), fault)


_FORMATS: dict[str, Any] = {form.spec.name: form for form in (Paper, Planes)}


def format_of(parameters: wire.CodecParameters, *kind: wire.LaneType) -> Format:
    """Return the format of an engine with these numbers, with lanes of another type if one is given."""
    found: Format = _FORMATS[parameters.codec](parameters, *kind)
    return found
