# SPDX-License-Identifier: BSD-2-Clause
"""Exact sums of the planes codec against sums of fp32 values, for ``inceptionn bench codec``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ....codec import AUTOMATIC, NUMPY, Codec, active_path, available_paths, force_path
from ....collectives import ErrorFeedback
from ....collectives.building import SUB_BLOCK
from ....commands import report
from ....commands.speed import Calls, Floats, best_seconds

SCALE = 4
PATHS = (AUTOMATIC, "avx2")
TARGETS = {0: 0.95, SCALE: 1.15}


FEEDBACK = 2.0
"""Target of error feedback in one pass against passes of NumPy, which it took before."""


def feedback_figure(kind: str, x: Floats, bound: float, repeats: int) -> report.Figure:
    """Compare error feedback, of which one pass does most, with a pass for each step, in turns."""
    planes, memory = Codec(bound, "planes", threads=1), ErrorFeedback(Codec(bound, "planes"))
    residual, kept = np.zeros_like(x), np.empty_like(x)

    def in_passes() -> None:
        wanted = residual + x
        planes.lossy(wanted, kept, scale=SCALE)
        np.subtract(wanted, kept, out=wanted)
        np.isfinite(np.dot(wanted, wanted))

    calls: Calls = {
        "passes": in_passes,
        "one": lambda: memory.kept(memory.added(x), "", planes, SCALE, kept),
    }
    seconds = best_seconds(calls, 2 * repeats, 3.0)
    gain = seconds["passes"] / seconds["one"]
    return report.Figure(f"{kind}: planes: error feedback, against NumPy", gain, FEEDBACK)


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
                stream = planes.summing(scale).compress(own)
                codecs = {"fp32": planes.scaled(scale), "exact": planes.summing(scale)}
                calls: Calls = {
                    name: partial(codec.compress_sum, stream, addend, room) for name, codec in codecs.items()
                }
                seconds = best_seconds(calls, 20 * repeats, 3.0)
                how = "scaled" if scale else "not scaled"
                title = f"{kind}: planes: exact sum, {path}, {how}, against fp32"
                yield report.Figure(title, seconds["fp32"] / seconds["exact"], target)
    finally:
        force_path(before)
    yield feedback_figure(kind, x, bound, repeats)
