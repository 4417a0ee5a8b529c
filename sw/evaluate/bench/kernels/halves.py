# SPDX-License-Identifier: BSD-2-Clause
"""Values of 16 bits in the codec, for ``inceptionn bench codec --dtype``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .... import AUTOMATIC, DEFAULTS, NUMPY, PLANES, Codec, available_paths, using_path
from ....collectives import from_bfloat16, to_bfloat16
from ....commands.speed import MEMCPY, Floats, best_seconds, copying
from ...study import Columns, Figure

Dtype = Literal["float32", "bfloat16", "float16"]
TARGETS = {PLANES.name: {"compress": 0.6, "decompress": 0.36}}
"""Shares of memcpy of the same bytes with AVX-512 and one thread, by variant."""
AGAINST_NUMPY = 2.0
"""Times the speed with a conversion of the whole array by NumPy, of the same variants with AVX2."""
SLOW_SECONDS = 3.0


@dataclass
class HalfRow:
    """One codec on one path with one thread, in GB/s of values of 16 bits."""

    data: str
    variant: str
    path: str
    memcpy: float
    compress: float
    decompress: float
    numpy_compress: float
    numpy_decompress: float
    """With an array of float32 values between, converted by NumPy."""
    ratio: float


def half_rows(kind: str, x: Floats, dtype: Dtype, bound: float, repeats: int) -> Iterator[HalfRow]:
    """Measure both codecs on every path but NumPy's, which converts itself."""
    values = to_bfloat16(x) if dtype == "bfloat16" else x.astype(np.float16)
    paths = [path for path in available_paths() if path != NUMPY]
    for variant in DEFAULTS:
        for path in (*((AUTOMATIC,) if paths else ()), *paths):
            with using_path(path):
                codec = Codec(bound, *variant, threads=1)
                yield _measured(kind, variant.name, path, codec, values, dtype, repeats)


def _measured(
    kind: str, variant: str, path: str, codec: Codec, x: NDArray[Any], dtype: Dtype, repeats: int
) -> HalfRow:
    told = "bfloat16" if dtype == "bfloat16" else None
    y, wide = np.empty_like(x), np.empty(x.size, np.float32)
    room = np.empty(codec.max_compressed_size(x.size), np.uint8)
    stream = codec.compress(x, dtype=told)

    def widened() -> Floats:
        if told:
            return from_bfloat16(x, wide)
        wide[:] = x
        return wide

    def narrowed() -> None:
        values = codec.decompress(stream, x.size, wide)
        if told:
            to_bfloat16(values, y)
        else:
            y[:] = values

    seconds = best_seconds(
        {
            **copying(x),
            "compress": lambda: codec.compress(x, room, dtype=told),
            "decompress": lambda: codec.decompress(stream, x.size, y, dtype=told),
            "numpy_compress": lambda: codec.compress(widened(), room),
            "numpy_decompress": narrowed,
        },
        repeats,
        SLOW_SECONDS,
    )
    rates = {name: x.nbytes / took / 1e9 for name, took in seconds.items()}
    memcpy = rates.pop(MEMCPY)
    return HalfRow(
        data=kind, variant=variant, path=path, memcpy=memcpy, ratio=x.nbytes / len(stream), **rates
    )


def _gains(row: HalfRow) -> tuple[float, float]:
    return row.compress / row.numpy_compress, row.decompress / row.numpy_decompress


HALVES: Columns[HalfRow] = {
    "": lambda row: f"{row.variant}, {row.path}",
    "compress\nGB/s (of memcpy)": lambda row: f"{row.compress:.2f} ({row.compress / row.memcpy:.2f})",
    "decompress\nGB/s (of memcpy)": lambda row: f"{row.decompress:.2f} ({row.decompress / row.memcpy:.2f})",
    "times NumPy's\nconversion": lambda row: "{:.1f}, {:.1f}".format(*_gains(row)),
    "ratio": lambda row: f"{row.ratio:.2f}",
}


def half_figures(rows: list[HalfRow]) -> Iterator[Figure]:
    """Yield the targets of the variants that have some."""
    for row in rows:
        title = f"{row.data}: {row.variant}: "
        for name, target in TARGETS.get(row.variant, {}).items():
            rate = getattr(row, name)
            if row.path.startswith("avx512-gfni"):
                yield Figure(f"{title}{name}, {row.path}, of memcpy", rate / row.memcpy, target)
            if row.path == "avx2":
                share = rate / getattr(row, f"numpy_{name}")
                yield Figure(f"{title}{name}, avx2, times NumPy's conversion", share, AGAINST_NUMPY)
