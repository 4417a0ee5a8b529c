# SPDX-License-Identifier: BSD-2-Clause
"""How values travel on a leg: raw, as a codec's stream, as floats for the NICs, or encoded key by key.

Workers push gradients to the servers and pull weights from them; the two legs are chosen separately.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ....codec import Codec, scale_exponent
from ....collectives.agreement import choose_path
from ....collectives.settings import Path, Scale, check_scale, codec_text
from ....collectives.values.lost_energy import LostEnergy
from ....collectives.values.wire_form import StreamCodec
from ....training import Floats
from ....transport import Transport

Data = NDArray[np.uint8]


class Encoding(Protocol):
    """A form of weights for the pull leg that may differ by key, such as ADT's.

    An encoding whose keys depend on each other may also have ``encode_all(parts)``: the results of `encode`
    for each (key, values) of a message, as a list.

    The data must hold all that `decode` needs beyond key and count. `encode` chooses the form, which may
    change from step to step. An encoding whose form depends on earlier values has ``state_dict()`` and
    ``load_state_dict(state)`` too, for checkpoints. The latter raises ``ValueError`` for any other state, and
    then changes nothing.
    """

    def encode(self, key: str, values: Floats) -> Any:
        """The bytes that stand for float32[n] of a key, or of a part of it; any object with a buffer."""

    def decode(self, key: str, data: Data, count: int) -> Floats:
        """float32[count] of uint8[...]; ``ValueError`` for what `encode` does not make."""


class Leg(ABC):
    """How the values of several partitions become one message, and back.

    ``tagged``: the message holds fp32 values only, and travels on connections that NICs compress.
    """

    name: str
    tagged = False
    meta_bytes = 0
    """Bytes of `encode`'s first result per partition, at most, and once more."""

    @abstractmethod
    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        """What `decode` must know, and the data, uint8[n]; parts are (key, float32[n]). Values are copied."""

    @abstractmethod
    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        """Writable arrays of (key, count); ``ValueError`` for data that are not those of `encode`."""

    def state_dict(self) -> Any:
        """Its state beyond the settings, for a checkpoint; None if it has none."""
        return None

    def load_state_dict(self, state: Any) -> None:
        """Restores a `state_dict`; ``ValueError`` for anything else."""
        if state is not None:
            raise ValueError(f"leg {self.name!r} keeps no state")


def joined(parts: Sequence[tuple[str, Floats]]) -> Floats:
    """All values, the parts concatenated, as a new array."""
    return np.concatenate([values.reshape(-1) for _, values in parts])


def split(values: Floats, parts: Sequence[tuple[str, int]]) -> list[Floats]:
    """Views of float32[n], one per (key, count); ``ValueError`` if n is not the sum of the counts."""
    ends = np.cumsum([count for _, count in parts])
    if values.size != ends[-1]:
        raise ValueError(f"{values.size} values received, expected {ends[-1]}")
    return np.split(values, ends[:-1])


class RawLeg(Leg):
    """fp32, 4 bytes per value, as messages."""

    name = "raw"

    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        return b"", joined(parts).view(np.uint8)

    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        if data.size % 4:
            raise ValueError(f"fp32 values take 4 bytes each, not {data.size} in all")
        return split(data.view(np.float32), parts)


class _Scaled:
    """Multiplication by a power of two before the codec and division after it: moves the error bound.

    "auto": what brings the largest magnitude of a message into [0.5, 1). Each message can have its own, since
    the server restores every worker's values before it adds them.
    """

    def __init__(self, codec: StreamCodec, scale: Scale) -> None:
        self.codec, self.scale = codec, check_scale(scale)
        self._look = LostEnergy()

    def up(self, values: Floats) -> int:
        if self.scale == "auto":
            exponent = scale_exponent(values, self.codec.mode) if isinstance(self.codec, Codec) else 0
        else:
            exponent = self.scale or 0
        if exponent:
            values *= np.float32(2.0**exponent)
        self._look("the push of gradients", self.codec, values)
        return exponent

    @staticmethod
    def down(values: Floats, meta: bytes) -> Floats:
        exponent = int.from_bytes(meta, "little", signed=True)
        if exponent:
            values *= np.float32(2.0**-exponent)
        return values


class CodecLeg(Leg):
    """The stream of a codec, of all parts together, as messages: the software path."""

    meta_bytes = 2

    def __init__(self, codec: StreamCodec, scale: Scale = "auto") -> None:
        self.codec, self._scaled = codec, _Scaled(codec, scale)
        self.name = f"{codec_text(codec)}, scale {scale}"

    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        values = joined(parts)
        exponent = self._scaled.up(values)
        stream = np.frombuffer(self.codec.compress(values), np.uint8)
        return exponent.to_bytes(2, "little", signed=True), stream

    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        values = self.codec.decompress(data, sum(count for _, count in parts))
        return split(self._scaled.down(values, meta), parts)


class TaggedLeg(Leg):
    """fp32 values on marked connections, which the hosts' NICs, set to ``codec``, compress and restore."""

    tagged = True
    meta_bytes = 2

    def __init__(self, codec: StreamCodec, scale: Scale = "auto") -> None:
        self._scaled = _Scaled(codec, scale)
        self.name = f"NIC, scale {scale}"

    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        values = joined(parts)
        exponent = self._scaled.up(values)
        return exponent.to_bytes(2, "little", signed=True), values.view(np.uint8)

    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        return split(self._scaled.down(data.view(np.float32), meta), parts)


class EncodedLeg(Leg):
    """Each part in the form that an `Encoding` gives it; the lengths travel with the header."""

    meta_bytes = 4

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.name = str(getattr(encoding, "name", type(encoding).__name__))

    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        if hasattr(self.encoding, "encode_all"):
            found = self.encoding.encode_all(parts)
        else:
            found = [self.encoding.encode(key, values) for key, values in parts]
        encoded = [np.frombuffer(memoryview(data).cast("B"), np.uint8) for data in found]
        return np.array([len(data) for data in encoded], "<u4").tobytes(), np.concatenate(encoded)

    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        lengths = np.frombuffer(meta, "<u4")
        if len(lengths) != len(parts) or int(lengths.sum()) != data.size:
            raise ValueError(f"{data.size} bytes came for {len(parts)} parts of {lengths.tolist()} bytes")
        values = []
        for (key, count), piece in zip(parts, np.split(data, np.cumsum(lengths)[:-1]), strict=True):
            values.append(self.encoding.decode(key, piece, count))
            if values[-1].size != count:
                raise ValueError(f"{values[-1].size} values of key {key!r} came for {count}")
        return values

    def state_dict(self) -> Any:
        return self.encoding.state_dict() if hasattr(self.encoding, "state_dict") else None

    def load_state_dict(self, state: Any) -> None:
        if hasattr(self.encoding, "load_state_dict"):
            self.encoding.load_state_dict(state)
        else:
            super().load_state_dict(state)


def push_leg(
    transport: Transport, codec: StreamCodec | None = None, path: Path | None = None, scale: Scale = "auto"
) -> Leg:
    """The leg for gradients; ``codec`` and ``path`` as in `inceptionn.collectives.allreduce_comp`.

    ``path`` None: "auto" with a codec, "off" without.
    """
    chosen, used = choose_path(transport, path or ("off" if codec is None else "auto"), codec)
    if chosen == "off":
        return RawLeg()
    return TaggedLeg(used, scale) if chosen == "nic" else CodecLeg(used, scale)
