# SPDX-License-Identifier: BSD-2-Clause
"""Samples of slices, and the compressors that all ranks compute from them (Sec. 2)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec import scale_exponent
from ...transport import Transport
from ..parameters import Floats
from ..traffic import Traffic
from .compressed_domain import Run
from .pca import Compressor, principal_components
from .slicing import Slicing

_HEADROOM = 1
"""Powers of two by which compressed values may exceed the largest sample and stay in the codec's range."""


@dataclass
class Slices:
    """Consecutive slices of one layer that share a compressor, and their samples."""

    slicing: Slicing
    first: int
    count: int
    samples: list[Floats] = field(default_factory=list)
    """The first slice of the run in each sampling step, float32[K]."""
    total: NDArray[np.float64] | None = None
    """All slices, summed over the sampling steps, float64[count, K]."""

    def sample(self, slices: Floats) -> None:
        """Takes the aggregated slices of a sampling step, float32[count, K]."""
        self.samples.append(slices[0].copy())
        self.total = slices.astype(np.float64) if self.total is None else self.total + slices

    def compressor(self, threshold: float) -> Compressor:
        """Computes the compressor from the samples, and drops them."""
        samples = np.stack(self.samples)
        assert self.total is not None
        whitening = (self.total / len(samples)).astype(np.float32)
        self.samples, self.total = [], None
        return Compressor(principal_components(samples, threshold), whitening)


def make_runs(
    transport: Transport, slices: Sequence[Slices], threshold: float, scaled: bool, traffic: Traffic
) -> list[Run]:
    """Makes a compressor for each of the slices, the same bits at every rank, and drops the samples.

    Collective. All ranks compute the compressors from the same samples. Different processors or libraries may
    give other last bits, and thus other results at each rank. In that case rank 0 sends its own to all, which
    ``traffic`` counts as "compressors". With ``scaled`` each run gets the scale that a codec needs, otherwise
    0.
    """
    runs = []
    for each in slices:
        samples = np.stack(each.samples)
        compressor = each.compressor(threshold)
        scale = 0
        if scaled:
            centred = samples - compressor.whitening[0]
            scale = scale_exponent(np.ascontiguousarray(centred @ compressor.components)) - _HEADROOM
        runs.append(Run(compressor, each.count, scale))
    sums = [[list(array.shape), zlib.crc32(array.tobytes())] for array in _arrays(runs)]
    answers = transport.exchange([sums, [run.scale for run in runs]])
    if any(answer != answers[0] for answer in answers):
        before = transport.bytes_sent
        runs = _of_rank_0(transport, runs, *answers[0])
        traffic.count("compressors", transport.bytes_sent - before, 0)
    return runs


def _arrays(runs: Sequence[Run]) -> list[Floats]:
    return [a for run in runs for a in (run.compressor.components, run.compressor.whitening)]


def _of_rank_0(transport: Transport, runs: Sequence[Run], sums: list[Any], scales: list[int]) -> list[Run]:
    found: list[Floats] = []
    for (shape, _), own in zip(sums, _arrays(runs), strict=True):
        array = own if transport.rank == 0 else np.empty(shape, np.float32)
        if transport.rank:
            transport.recv_into(0, array)
        else:
            transport.wait_all([transport.isend(peer, array) for peer in range(1, transport.size)])
        found.append(array)
    return [
        Run(Compressor(components, whitening), run.count, scale)
        for components, whitening, run, scale in zip(found[::2], found[1::2], runs, scales, strict=True)
    ]
