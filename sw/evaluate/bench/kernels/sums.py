# SPDX-License-Identifier: BSD-2-Clause
"""Exact sums of the planes codec against sums of fp32 values, for ``inceptionn bench codec``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....codec import AUTOMATIC, NUMPY, Codec, active_path, available_paths, force_path
from ....collectives.building import SUB_BLOCK
from ....commands import report
from ....commands.speed import Floats, best_seconds

SCALE = 4
PATHS = (AUTOMATIC, "avx2")
TARGETS = {0: 0.95, SCALE: 1.15}


def sum_figures(kind: str, x: Floats, bound: float, repeats: int) -> Iterator[report.Figure]:
    """Yield how many times as fast an exact sum's stream is made as an fp32 sum's, in turns.

    One thread, and as many values as a ring adds at a time; without a scale, and with one.
    """
    own = np.ascontiguousarray(x[:SUB_BLOCK])
    addend = np.roll(own, own.size // 3)
    planes = Codec(bound, "planes", threads=1)
    room = np.empty(planes.max_compressed_size(own.size), np.uint8)
    before, here = active_path(), available_paths()
    try:
        for path in PATHS if here != [NUMPY] else ():
            if path not in (AUTOMATIC, *here):
                continue
            force_path(path)
            for scale, target in TARGETS.items():
                in_fp32, exact = planes.scaled(scale), planes.summing(scale)
                stream = exact.compress(own)
                calls = {
                    "fp32": lambda codec=in_fp32, s=stream: codec.compress_sum(s, addend, room),
                    "exact": lambda codec=exact, s=stream: codec.compress_sum(s, addend, room),
                }
                seconds = best_seconds(calls, 20 * repeats, 3.0)
                how = "scaled" if scale else "not scaled"
                title = f"{kind}: planes: exact sum, {path}, {how}, against fp32"
                yield report.Figure(title, seconds["fp32"] / seconds["exact"], target)
    finally:
        force_path(before)
