# SPDX-License-Identifier: BSD-2-Clause
"""Forms of values in messages: raw, as a codec's stream, as floats for the NICs, or encoded by key.

The *push leg* carries gradients to the servers, and the *pull leg* carries weights from them. Their forms are
chosen separately.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .... import MAX_SCALE, CodecName
from ....collectives import (
    LostEnergy,
    Path,
    Scale,
    Scaling,
    StreamCodec,
    check_fits,
    check_scale,
    choose_path,
    largest_exponent,
    stream_in,
    values_in,
)
from ....transport import Transport
from ...parameters import Floats

Data = NDArray[np.uint8]


class Encoding(Protocol):
    """A form of weights on the pull leg that may differ by key, such as ADT's.

    An encoding whose keys depend on each other may also have ``encode_all(parts)``, which returns a list with
    the result of `encode` for each (key, values) of a message.

    The data must hold everything that `decode` needs besides key and count. `encode` chooses the form, which
    may change from step to step. An encoding whose form depends on earlier values also has ``state_dict()``
    and ``load_state_dict(state)``, for checkpoints. The latter raises ``ValueError`` for any other state, and
    then changes nothing.
    """

    def encode(self, key: str, values: Floats) -> Any:
        """Encode float32[n], the values of a key or of a part of it. Return any object with a buffer."""

    def decode(self, key: str, data: Data, count: int) -> Floats:
        """Decode uint8[...] to float32[count]. Raises ``ValueError`` for data that `encode` does not make."""


class Leg(ABC):
    """Turns the values of several partitions into one message, and back.

    ``path`` is that of `allreduce_comp`, for statistics. ``tagged`` means that the message holds only fp32
    values and uses connections that NICs compress. ``exact`` means that sums of what arrives do not depend on
    their order.
    """

    name: str
    path = "software"
    tagged = False
    exact = False
    scale: Scale = None
    """That by which values are multiplied in transit, see `ScaledLeg`."""
    meta_bytes = 0
    """Most bytes of `encode`'s first result, counted once per partition and once more."""

    @abstractmethod
    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        """Encode a copy of the parts (key, float32[n]).

        Returns the metadata that `decode` takes, and the data, uint8[n].
        """

    @abstractmethod
    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        """Decode a writable array for each (key, count).

        Raises ``ValueError`` for data that `encode` does not make.
        """

    def check(self, values: Floats) -> None:
        """Raise ``OverflowError`` if values leave fp32's range in this form."""
        if isinstance(self.scale, int):
            check_fits(values, self.scale)

    def state_dict(self) -> Any:
        """Return its state other than the settings, for a checkpoint. None if it has none."""
        return None

    def load_state_dict(self, state: Any) -> None:
        """Restore a `state_dict`. Raise ``ValueError`` for anything else."""
        if state is not None:
            raise ValueError(f"leg {self.name!r} keeps no state")


def joined(parts: Sequence[tuple[str, Floats]]) -> Floats:
    """Make an array with the concatenated values of all parts."""
    return np.concatenate([values.reshape(-1) for _, values in parts])


def split(values: Floats, parts: Sequence[tuple[str, int]]) -> list[Floats]:
    """View float32[n] as parts, one per (key, count).

    Raises ``ValueError`` if n is not the sum of the counts.
    """
    ends = np.cumsum([count for _, count in parts])
    if values.size != ends[-1]:
        raise ValueError(f"{values.size} values received, expected {ends[-1]}")
    return np.split(values, ends[:-1])


class RawLeg(Leg):
    """Raw fp32, 4 bytes per value, as messages."""

    name, path = "raw", "off"

    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        return b"", joined(parts).view(np.uint8)

    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        if data.size % 4:
            raise ValueError(f"fp32 values take 4 bytes each, not {data.size} in all")
        return split(data.view(np.float32), parts)


class ScaledLeg(Leg):
    """Values that a codec compresses somewhere, with their scale in two bytes.

    They are multiplied by a power of two before the codec, and divided after it. This moves the error bound.
    "auto" brings the largest magnitude of a message into [0.5, 1). Each message can have its own scale, since
    the server restores every worker's values before it adds them. ``summing`` is the codec to use, for sums
    that do not depend on the workers' order: see `OwnScale`.
    """

    meta_bytes = 2

    def __init__(self, codec: StreamCodec, scale: Scale = "auto") -> None:
        self.codec, self.scale = codec, check_scale(scale)
        self.exact, self.summing = codec.sums_exactly, codec.summing()
        self.name = f"{'NIC' if self.tagged else codec.name}, scale {scale}"
        self._look = LostEnergy()

    def _up(self, values: Floats) -> bytes:
        """Scale values in place; return what `_down` needs."""
        if self.scale != "auto":
            scale = self.scale or 0
        elif self.codec.absolute_bound is None:
            scale = 0
        else:
            scale = -(largest_exponent(values, self.codec) or 0)
        scaling, auto = Scaling((scale,)), self.scale == "auto"
        self._look("the push of gradients", self.codec, values, scaling, auto=auto)
        if scale:
            values *= np.float32(2.0**scale)
        return scale.to_bytes(2, "little", signed=True)

    @staticmethod
    def _down(values: Floats, meta: bytes) -> Floats:
        scale = int.from_bytes(meta, "little", signed=True)
        if not -MAX_SCALE <= scale <= MAX_SCALE:
            raise ValueError(f"the scale exponent is {scale:#x}, beyond {MAX_SCALE}")
        if scale:
            values *= np.float32(2.0**-scale)
        return values


class CodecLeg(ScaledLeg):
    """One codec stream of all parts, as a message (the software path)."""

    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        values = joined(parts)
        meta, codec = self._up(values), self.summing
        most = codec.max_compressed_size(values.size)
        room = np.empty(most, np.uint8)
        size = stream_in(room, codec, codec.compress(values, room), values, most)
        return meta, room[:size]

    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        codec, values = self.summing, np.empty(sum(count for _, count in parts), np.float32)
        values_in(values, codec, codec.decompress(data, values.size, values), "decompress")
        return split(self._down(values, meta), parts)


class TaggedLeg(ScaledLeg):
    """fp32 values on marked connections, which the hosts' NICs compress and restore with ``codec``.

    If their sums are exact, they are lossy before they are sent: a NIC may send some of them raw.
    """

    path = "nic"
    tagged = True

    def encode(self, parts: Sequence[tuple[str, Floats]]) -> tuple[bytes, Data]:
        values = joined(parts)
        meta = self._up(values)
        if self.exact:
            values_in(values, self.summing, self.summing.lossy(values, values), "lossy")
        return meta, values.view(np.uint8)

    def decode(self, meta: bytes, data: Data, parts: Sequence[tuple[str, int]]) -> list[Floats]:
        return split(self._down(data.view(np.float32), meta), parts)


class EncodedLeg(Leg):
    """Each part in the form of an `Encoding`. The header carries the lengths."""

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
            raise ValueError(f"received {data.size} bytes for {len(parts)} parts of {lengths.tolist()} bytes")
        values = []
        for (key, count), piece in zip(parts, np.split(data, np.cumsum(lengths)[:-1]), strict=True):
            values.append(self.encoding.decode(key, piece, count))
            if values[-1].size != count:
                raise ValueError(f"received {values[-1].size} values of key {key!r}, expected {count}")
        return values

    def state_dict(self) -> Any:
        return self.encoding.state_dict() if hasattr(self.encoding, "state_dict") else None

    def load_state_dict(self, state: Any) -> None:
        if hasattr(self.encoding, "load_state_dict"):
            self.encoding.load_state_dict(state)
        else:
            super().load_state_dict(state)


def push_leg(
    transport: Transport,
    codec: StreamCodec | CodecName | None = None,
    path: Path | None = None,
    scale: Scale = "auto",
) -> Leg:
    """Make the leg for gradients.

    ``codec`` and ``path`` are those of `inceptionn.collectives.allreduce_comp`. If ``path`` is None, it is
    "auto" with a codec and "off" without.
    """
    chosen, used = choose_path(transport, path or ("off" if codec is None else "auto"), codec)
    if chosen == "off":
        return RawLeg()
    return TaggedLeg(used, scale) if chosen == "nic" else CodecLeg(used, scale)
