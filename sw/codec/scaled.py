# SPDX-License-Identifier: BSD-2-Clause
"""A codec whose streams are scaled."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from numpy.typing import NDArray

from ..system.integers import integer

T = TypeVar("T")

MAX_SCALE = 126
"""Scales are -126..126: both the factor and its inverse are normal numbers."""


class ScaledCodec:
    """A `Codec` that multiplies by ``2**scale`` in its streams alone: a codec of the collectives.

    Its methods are those of the codec without the arguments ``scale`` and ``dtype``. Arrays keep their
    values, which saves two passes over memory.
    """

    def __init__(self, codec: Any, scale: int, dtype: str | None = None) -> None:
        self.codec, self.scale, self._dtype = codec, integer("scale", scale, -MAX_SCALE, MAX_SCALE), dtype

        def bound(method: Callable[..., T]) -> Callable[..., T]:
            return partial(method, scale=scale, dtype=dtype) if dtype else partial(method, scale=scale)

        self.name = f"{codec.name}, scale {scale}"
        self.max_compressed_size = codec.max_compressed_size
        self.compress = bound(codec.compress)
        self.decompress = bound(codec.decompress)
        self.decompress_add = bound(codec.decompress_add)
        self.compress_sum = bound(codec.compress_sum)
        self.lossy: Callable[..., NDArray[Any]] = bound(codec.lossy)
        self.feed_back = bound(codec.feed_back)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}{f', {self._dtype}' if self._dtype else ''}>"
