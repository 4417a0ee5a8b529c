# SPDX-License-Identifier: BSD-2-Clause
"""Streams that carry their own scale, for transfers where ranks need not agree on one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec import Codec, scale_exponent
from .settings import Scale, codec_text
from .values.wire_form import StreamCodec

Floats = NDArray[np.float32]


class OwnScale:
    """A `Codec` as a codec of the collectives, whose every stream begins with its scale, an int8.

    ``scale`` "auto" brings the largest magnitude of each array into [0.5, 1), which every bound keeps (in
    ``planes`` (0.5, 1]): what was lossy once is not changed again. Raises ``ValueError`` for a malformed
    stream.
    """

    def __init__(self, codec: Codec, scale: Scale) -> None:
        self.codec, self.scale = codec, scale
        self.name = f"{codec_text(codec)}, scale {scale}"

    def _exponent(self, values: Floats) -> int:
        return scale_exponent(values, self.codec.mode) if self.scale == "auto" else int(self.scale or 0)

    def max_compressed_size(self, count: int) -> int:
        """Bytes that a stream takes at most."""
        return 1 + self.codec.max_compressed_size(count)

    def compress(self, x: Any, out: Any = None) -> memoryview:
        """The stream of a float32 array, in ``out``, a writable buffer, if given."""
        values = np.ascontiguousarray(x, np.float32)
        view = memoryview(bytearray(self.max_compressed_size(values.size)) if out is None else out).cast("B")
        exponent = self._exponent(values)
        view[:1] = exponent.to_bytes(1, "little", signed=True)
        return view[: 1 + len(self.codec.compress(values, view[1:], scale=exponent))]

    @staticmethod
    def _split(stream: Any) -> tuple[memoryview, int]:
        view = memoryview(stream).cast("B")
        if not view.nbytes:
            raise ValueError("malformed stream at byte 0: it has no scale")
        return view[1:], int.from_bytes(view[:1], "little", signed=True)

    def decompress(self, stream: Any, count: int, out: Floats | None = None) -> Floats:
        """float32[count] of a stream, in ``out`` if given. Raises ``ValueError`` for a malformed stream."""
        rest, exponent = self._split(stream)
        return self.codec.decompress(rest, count, out, scale=exponent)

    def decompress_add(self, stream: Any, accumulator: Floats, addend: Floats | None = None) -> Floats:
        """Adds a stream to a float32 array of the same size, which gets ``addend`` plus it if given."""
        rest, exponent = self._split(stream)
        return self.codec.decompress_add(rest, accumulator, addend, scale=exponent)

    def lossy(self, x: Any, out: Floats | None = None) -> Floats:
        """What the receiver of ``x`` sees, in its shape; ``out`` may be ``x``."""
        values = np.ascontiguousarray(x, np.float32)
        return self.codec.lossy(values, out, scale=self._exponent(values))


def with_scale(codec: StreamCodec, scale: Scale) -> StreamCodec:
    """A `Codec` with a scale, unless that is None; other codecs as they are."""
    return OwnScale(codec, scale) if scale is not None and isinstance(codec, Codec) else codec
