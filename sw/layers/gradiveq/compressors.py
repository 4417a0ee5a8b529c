# SPDX-License-Identifier: BSD-2-Clause
"""Samples of slices, and the compressors that all ranks compute from them (Sec. 2)."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import scale_exponent
from ...collectives import arriving, exchanged, is_whole
from ...transport import Transport
from ..parameters import Floats
from ..traffic import Traffic
from .compressed_domain import MOST_SCALE, Run
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
        """Take the aggregated slices of a sampling step, float32[count, K]."""
        self.samples.append(slices[0].copy())
        self.total = slices.astype(np.float64) if self.total is None else self.total + slices

    def compressor(self, threshold: float) -> Compressor:
        """Compute the compressor from the samples, and drop them."""
        samples = np.stack(self.samples)
        assert self.total is not None
        whitening = (self.total / len(samples)).astype(np.float32)
        self.samples, self.total = [], None
        return Compressor(principal_components(samples, threshold), whitening)


def make_runs(
    transport: Transport, slices: Sequence[Slices], threshold: float, scaled: bool, traffic: Traffic
) -> list[Run]:
    """Make a compressor for each of the slices, the same bits at every rank, and drop the samples.

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
    checked = [[run.compressor.dimension, run.scale, _checksum(run)] for run in runs]
    answers = exchanged(transport, checked, lambda answer: _are_runs(answer, slices))
    if any(answer != answers[0] for answer in answers):
        before = transport.bytes_sent
        runs = _of_rank_0(transport, runs, answers[0])
        traffic.count("compressors", transport.bytes_sent - before, 0)
    return runs


def _arrays(run: Run) -> tuple[Floats, Floats]:
    return run.compressor.components, run.compressor.whitening


def _checksum(run: Run) -> int:
    components, whitening = _arrays(run)
    return zlib.crc32(whitening.tobytes(), zlib.crc32(components.tobytes()))


def _are_runs(answer: Any, slices: Sequence[Slices]) -> bool:
    """Tell whether a rank's message holds dimension, scale and checksum of each run's compressor."""
    return (
        isinstance(answer, list)
        and len(answer) == len(slices)
        and all(_is_run(value, each.slicing.size) for value, each in zip(answer, slices, strict=True))
    )


def _is_run(value: Any, most: int) -> bool:
    match value:
        case [dimension, scale, checksum]:
            return (
                is_whole(dimension, range(1, most + 1))
                and is_whole(scale, range(-MOST_SCALE, MOST_SCALE + 1))
                and is_whole(checksum, range(1 << 32))
            )
    return False


def _of_rank_0(transport: Transport, runs: Sequence[Run], checked: list[list[int]]) -> list[Run]:
    found = []
    for run, (dimension, scale, _) in zip(runs, checked, strict=True):
        components, whitening = _arrays(run)
        if transport.rank:
            components = np.empty((len(components), dimension), np.float32)
            whitening = np.empty_like(whitening)
        for array in (components, whitening):
            _from_rank_0(transport, array)
        found.append(Run(Compressor(components, whitening), run.count, scale))
    return found


def _from_rank_0(transport: Transport, array: Floats) -> None:
    if transport.rank == 0:
        transport.wait_all([transport.isend(peer, array) for peer in range(1, transport.size)])
        return
    size = transport.recv_into(0, array)
    with arriving(transport.rank, 0):
        if size != array.nbytes:
            raise ValueError(f"a compressor's part of {size} bytes, expected {array.nbytes}")
