# SPDX-License-Identifier: BSD-2-Clause
"""GB/s of operations on one array, each next to a memcpy of the same array."""

import ctypes
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec import Codec
from ..wire import BOUNDED, Variant

Floats = NDArray[np.float32]
Calls = dict[str, Callable[[], object]]
MEMCPY = "memcpy"
RUN = 4096
"""Values of one distribution in a row."""


def synthetic(count: int, seed: int) -> Floats:
    """Draw float32[count]: runs of 4096, normal and Laplace in turn.

    Their standard deviations are 1e-3 to 1e-2.
    """
    source = np.random.default_rng(seed)
    x = source.standard_normal(count, np.float32)
    for number, first in enumerate(range(0, count, RUN)):
        run = x[first : first + RUN]
        if number % 2:
            run[:] = source.laplace(scale=2**-0.5, size=len(run))
        run *= np.float32(10.0 ** source.uniform(-3, -2))
    return x


def best_seconds(
    calls: Calls, repeats: int, patience: float = math.inf, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the least time of each call, over rounds of all of them after a first one that warms up.

    Rounds end after ``repeats``, or earlier once ``patience`` seconds have passed (at least one counts).
    ``clock``: in seconds; ``time.thread_time`` counts the calling thread's processor time alone.
    """
    best = dict.fromkeys(calls, math.inf)
    began = time.perf_counter()
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start = clock()
            call()
            elapsed = clock() - start
            best[name] = elapsed if turn == 1 else min(best[name], elapsed)
        if turn and time.perf_counter() - began > patience:
            break
    return best


def copying(x: Floats) -> Calls:
    """Make the ``memcpy`` of an array to memory of its own, to measure next to others."""
    copy = np.zeros_like(x)
    return {MEMCPY: lambda: ctypes.memmove(copy.ctypes.data, x.ctypes.data, x.nbytes)}


def codec_calls(codec: Any, x: Any) -> tuple[Calls, int]:
    """Return the calls of a `StreamCodec` on an array, in memory that exists, and its stream's bytes.

    Keys: ``compress``, ``decompress``, ``decompress_add``, ``lossy``.
    """
    y = np.zeros_like(x)
    out = bytearray(codec.max_compressed_size(x.size))
    stream = codec.compress(x, out)
    calls: Calls = {
        "compress": lambda: codec.compress(x, out),
        "decompress": lambda: codec.decompress(stream, x.size, y),
        "decompress_add": lambda: codec.decompress_add(stream, y),
        "lossy": lambda: codec.lossy(x, y),
    }
    return calls, len(stream)


def speed(
    count: int = 1 << 24,
    threads: int | None = 1,
    repeats: int = 5,
    x: Floats | None = None,
    error_bound: float = 2**-10,
    patience: float = math.inf,
    codec: Variant = BOUNDED,
) -> dict[str, float]:
    """Measure GB/s of fp32 values on the codec's active path, and of ``memcpy`` on the same array.

    Both are measured in the same run. Keys: ``memcpy``, ``compress``, ``decompress``, ``decompress_add``,
    ``lossy``, and ``ratio`` (bytes in per byte out). ``x`` is the array, default: ``synthetic(count,
    seed=1)``. The best of ``repeats`` rounds over all of them counts, with memory allocated beforehand; there
    are fewer rounds once ``patience`` seconds have passed.
    """
    if x is None:
        x = synthetic(count, 1)
    coder = Codec(error_bound, *codec, threads=threads)
    calls, size = codec_calls(coder, x)
    seconds = best_seconds({**copying(x), **calls}, repeats, patience)
    return {name: x.nbytes / took / 1e9 for name, took in seconds.items()} | {"ratio": x.nbytes / size}
