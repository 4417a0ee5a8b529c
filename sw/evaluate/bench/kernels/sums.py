# SPDX-License-Identifier: BSD-2-Clause
"""Exact sums of the planes codec against sums of fp32 values, for ``inceptionn bench codec``."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from .... import AUTOMATIC, NUMPY, Codec, available_paths, using_path
from ....collectives import SUB_BLOCK
from ....commands.speed import Calls, Floats, best_seconds
from ....commands.study import Figure

SCALE = 4
PATHS = (AUTOMATIC, "avx512", "avx2")
TARGETS = {0: 0.95, SCALE: 1.15}

FEEDBACK = 2.0
"""Target of error feedback in one pass against passes of NumPy for each step, and `Codec.lossy`."""


def feedback_figure(kind: str, path: str, x: Floats, bound: float, repeats: int) -> Figure:
    """Compare error feedback in one pass over memory with a pass for each step, in turns."""
    planes = Codec(bound, "planes", threads=1).summing(SCALE)
    left, residual, kept = np.zeros_like(x), np.zeros_like(x), np.empty_like(x)

    def in_passes() -> None:
        wanted = residual + x
        planes.lossy(wanted, kept)
        np.subtract(wanted, kept, out=residual)
        np.isfinite(np.dot(residual, residual))

    calls: Calls = {"passes": in_passes, "one": lambda: planes.feed_back(x, left, kept)}
    seconds = best_seconds(calls, 2 * repeats, 3.0)
    gain = seconds["passes"] / seconds["one"]
    return Figure(f"{kind}: planes: error feedback, {path}, against NumPy", gain, FEEDBACK)


def sum_figures(kind: str, x: Floats, bound: float, repeats: int) -> Iterator[Figure]:
    """Yield how many times as fast an exact sum's stream is made as an fp32 sum's, scaled and not."""
    part = np.ascontiguousarray(x[:SUB_BLOCK])
    addend = np.roll(part, part.size // 3)
    planes = Codec(bound, "planes", threads=1)
    room = np.empty(planes.max_compressed_size(part.size), np.uint8)
    here = available_paths()
    for path in PATHS if here != [NUMPY] else ():
        if path not in (AUTOMATIC, *here):
            continue
        with using_path(path):
            for scale, target in TARGETS.items():
                stream = planes.summing(scale).compress(part)
                codecs = {"fp32": planes.scaled(scale), "exact": planes.summing(scale)}
                calls: Calls = {
                    name: partial(codec.compress_sum, stream, addend, room) for name, codec in codecs.items()
                }
                seconds = best_seconds(calls, 20 * repeats, 3.0)
                how = "scaled" if scale else "not scaled"
                title = f"{kind}: planes: exact sum, {path}, {how}, against fp32"
                yield Figure(title, seconds["fp32"] / seconds["exact"], target)
            yield feedback_figure(kind, path, x, bound, repeats)
