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


def _sz3(pysz: Any, bound: float) -> Ready:
    def compress(x: Floats) -> Any:
        config = pysz.szConfig(x.shape)
        config.errorBoundMode = pysz.szErrorBoundMode.ABS
        config.absErrorBound = bound
        return pysz.sz.compress(x, config)[0]

    return Ready(compress, lambda stream, count: pysz.sz.decompress(stream, np.float32, (count,))[0])


def _torch(torch: Any, bound: float) -> Ready:
    torch.set_num_threads(1)
    return Ready(
        lambda x: torch.from_numpy(x).to(torch.bfloat16),
        lambda stream, count: stream.to(torch.float32).numpy(),
        lambda stream: 2 * int(stream.numel()),
    )


def _floats(stream: Any) -> Floats:
    return np.frombuffer(stream, np.float32)


def _peer(name: str, module: str, prepare: Callable[[Any, float], Ready], lossless: bool = False) -> Peer:
    """Make a peer of what sets it up with its module."""
    package, _, _ = module.partition(".")
    return Peer(name, package, lambda bound: prepare(import_module(module), bound), lossless)


PEERS = (
    _peer("SZ3", "pysz", _sz3),
    _peer("zfp, 1-D", "zfpy", lambda zfpy, bound: Ready(
        lambda x: zfpy.compress_numpy(x, tolerance=bound, write_header=True),
        lambda stream, count: zfpy.decompress_numpy(stream),
    )),
    _peer("blosc2, shuffle", "blosc2", lambda blosc2, bound: Ready(
        lambda x: blosc2.compress2(x, typesize=x.itemsize, nthreads=1),
        lambda stream, count: _floats(blosc2.decompress2(stream, nthreads=1)),
    ), lossless=True),
    _peer("lz4", "lz4.block", lambda block, bound: Ready(
        block.compress, lambda stream, count: _floats(block.decompress(stream)),
    ), lossless=True),
    _peer("snappy", "cramjam", lambda cramjam, bound: Ready(
        lambda x: cramjam.snappy.compress_raw(x.view(np.uint8)),
        lambda stream, count: _floats(cramjam.snappy.decompress_raw(stream)),
    ), lossless=True),
    _peer("bf16, torch", "torch", _torch),
    Peer("bf16, NumPy", "numpy", lambda bound: Ready(
        to_bfloat16, lambda stream, count: from_bfloat16(stream), lambda stream: int(stream.nbytes),
    )),
)  # fmt: skip
