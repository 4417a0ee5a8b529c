# SPDX-License-Identifier: BSD-2-Clause
"""Other compressors that can be installed, in one thread; our error bound is the tolerance of lossy ones."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ....collectives import from_bfloat16, to_bfloat16
from ....commands.speed import Floats


class Ready(NamedTuple):
    """A compressor set to an error bound: ``compress(float32[n])`` and ``decompress(stream, n)``."""

    compress: Callable[[Floats], Any]
    decompress: Callable[[Any, int], Floats]
    size: Callable[[Any], int] = len
    """Bytes of what ``compress`` returned."""


class Peer(NamedTuple):
    """A compressor: how tables call it, the package that brings it (a user's: ""), and how it is set up."""

    name: str
    package: str
    prepare: Callable[[float], Ready]
    lossless: bool = False


def _zfp(bound: float) -> Ready:
    zfpy = import_module("zfpy")
    return Ready(
        lambda x: zfpy.compress_numpy(x, tolerance=bound, write_header=True),
        lambda stream, count: zfpy.decompress_numpy(stream),
    )


def _sz3(bound: float) -> Ready:
    pysz = import_module("pysz")

    def compress(x: Floats) -> Any:
        config = pysz.szConfig(x.shape)
        config.errorBoundMode = pysz.szErrorBoundMode.ABS
        config.absErrorBound = bound
        return pysz.sz.compress(x, config)[0]

    return Ready(compress, lambda stream, count: pysz.sz.decompress(stream, np.float32, (count,))[0])


def _blosc2(bound: float) -> Ready:
    blosc2 = import_module("blosc2")
    return Ready(
        lambda x: blosc2.compress2(x, typesize=x.itemsize, nthreads=1),
        lambda stream, count: np.frombuffer(blosc2.decompress2(stream, nthreads=1), np.float32),
    )


def _lz4(bound: float) -> Ready:
    block = import_module("lz4.block")
    return Ready(block.compress, lambda stream, count: np.frombuffer(block.decompress(stream), np.float32))


def _snappy(bound: float) -> Ready:
    snappy = import_module("cramjam").snappy
    return Ready(
        lambda x: snappy.compress_raw(x.view(np.uint8)),
        lambda stream, count: np.frombuffer(snappy.decompress_raw(stream), np.float32),
    )


def _torch(bound: float) -> Ready:
    torch = import_module("torch")
    torch.set_num_threads(1)
    return Ready(
        lambda x: torch.from_numpy(x).to(torch.bfloat16),
        lambda stream, count: stream.to(torch.float32).numpy(),
        lambda stream: 2 * int(stream.numel()),
    )


def _bfloat16(bound: float) -> Ready:
    return Ready(to_bfloat16, lambda stream, count: from_bfloat16(stream), lambda stream: int(stream.nbytes))


PEERS = (
    Peer("SZ3", "pysz", _sz3),
    Peer("zfp, 1-D", "zfpy", _zfp),
    Peer("blosc2, shuffle", "blosc2", _blosc2, lossless=True),
    Peer("lz4", "lz4", _lz4, lossless=True),
    Peer("snappy", "cramjam", _snappy, lossless=True),
    Peer("bf16, torch", "torch", _torch),
    Peer("bf16, NumPy", "numpy", _bfloat16),
)
