# SPDX-License-Identifier: BSD-2-Clause
"""A codec whose streams are scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from .stream_codec import AtScale

if TYPE_CHECKING:
    from .codec import Codec

Floats = NDArray[Any]


class ScaledCodec(AtScale["Codec"]):
    """A `Codec` that multiplies by ``2**scale`` in its streams alone: a codec of the collectives.

    Its methods are those of the codec without the arguments ``scale`` and ``dtype``. Arrays keep their
    values, which saves two passes over memory.
    """

    def __init__(self, codec: Codec, scale: int, dtype: str | None = None) -> None:
        super().__init__(codec, scale)
        self._dtype = dtype
        self._how: dict[str, Any] = {"scale": self.scale, **({"dtype": dtype} if dtype else {})}

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        return self.codec.compress(x, out, **self._how)

    def decompress(self, stream: Any, count: int, out: Floats | None = None) -> Floats:
        return self.codec.decompress(stream, count, out, **self._how)

    def decompress_add(self, stream: Any, accumulator: Floats, addend: Floats | None = None) -> Floats:
        return self.codec.decompress_add(stream, accumulator, addend, **self._how)

    def compress_sum(self, stream: Any, addend: Floats, out: Any) -> memoryview:
        return self.codec.compress_sum(stream, addend, out, **self._how)

    def lossy(self, x: Any, out: Floats | None = None) -> Floats:
        return self.codec.lossy(x, out, **self._how)

    def feed_back(self, x: Any, residual: Any, out: Floats | None = None, *, decay: float = 1.0) -> Floats:
        return self.codec.feed_back(x, residual, out, decay=decay, **self._how)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}{f', {self._dtype}' if self._dtype else ''}>"
