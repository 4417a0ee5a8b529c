# SPDX-License-Identifier: BSD-2-Clause
"""A codec whose streams are scaled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .codec import Codec


class ScaledCodec:
    """A `Codec` that multiplies by ``2**exponent`` in its streams alone: a codec of the collectives.

    Its methods are those of the codec without the argument ``scale``. Arrays keep their values, which saves
    two passes over memory.
    """

    def __init__(self, codec: Codec, exponent: int) -> None:
        self.codec, self.exponent = codec, exponent
        self.name = f"{codec.name}, scale {exponent}"
        self.max_compressed_size = codec.max_compressed_size
        self.compress = partial(codec.compress, scale=exponent)
        self.decompress = partial(codec.decompress, scale=exponent)
        self.decompress_add = partial(codec.decompress_add, scale=exponent)
        self.compress_sum = partial(codec.compress_sum, scale=exponent)
        self.lossy = partial(codec.lossy, scale=exponent)
        self.split = partial(codec.split, scale=exponent)
