# SPDX-License-Identifier: BSD-2-Clause
"""A codec whose streams are scaled."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")


class ScaledCodec:
    """A `Codec` that multiplies by ``2**scale`` in its streams alone: a codec of the collectives.

    Its methods are those of the codec without the arguments ``scale`` and ``dtype``. Arrays keep their
    values, which saves two passes over memory.
    """

    def __init__(self, codec: Any, scale: int, dtype: str | None = None) -> None:
        self.codec, self.scale = codec, scale

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
