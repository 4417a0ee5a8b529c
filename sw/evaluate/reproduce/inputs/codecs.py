# SPDX-License-Identifier: BSD-2-Clause
"""Everything that the artefacts apply to a gradient: the codec's modes, truncation, or nothing."""

from collections.abc import Callable, Sequence

import numpy as np

from .... import VARIANTS, Codec
from ....collectives import Parts, StreamCodec
from ...training import Floats

Lossy = Callable[[Floats], Floats]
"""An array as its receiver sees it."""


def codecs(k: int) -> dict[str, Codec]:
    """Return all codecs by mode, also the paper's to the letter, at an error bound of 2^-k."""
    return {variant.name: Codec(2.0**-k, *variant, threads=1) for variant in VARIANTS}


def ratio(codec: StreamCodec, x: Floats) -> float:
    """Return the bytes of fp32 per compressed byte."""
    return x.nbytes / len(codec.compress(np.ascontiguousarray(x)))


def truncated(x: Floats, bits: int) -> Floats:
    """Return the values without their ``bits`` least significant bits, as in the paper's Fig. 4 and 14."""
    mask = np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    return (np.ascontiguousarray(x).view(np.uint32) & mask).view(np.float32)


def ring_mean(gradients: Sequence[Floats] | Floats, lossy: Lossy) -> Floats:
    """Run Algorithm 1 in one process: return what all workers hold after a ring.

    The ring compresses every transfer. ``gradients``: float32[n] of each worker. With the paper's codec the
    result has the bits of `allreduce_comp` with MEAN. With planes, `allreduce_comp` rounds each worker's
    values first and not the sums: results differ where a partial sum lies halfway between two steps.
    """
    ranks = len(gradients)
    result = np.empty_like(gradients[0])
    parts = Parts(result.size, ranks)
    for block in range(ranks):
        where = parts.block(block)
        total = gradients[block][where]
        for step in range(1, ranks):
            total = gradients[(block + step) % ranks][where] + lossy(total)
        result[where] = lossy(total)
    result *= np.float32(1 / ranks)
    return result
