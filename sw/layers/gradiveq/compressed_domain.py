# SPDX-License-Identifier: BSD-2-Clause
"""All-reduce in the compressed domain (GradiVeQ, Algorithm 1).

Compressed slices of all workers are added without decompressing them (eq. 4). The ring of
`inceptionn.collectives` carries them, and requests each segment of this rank when it is due. So a segment is
compressed while earlier ones are in flight. It is decompressed once, after it was passed on, while the next
one arrives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...collectives import WireForm, all_reduce_steps, ring
from ..parameters import Floats
from .pca import Compressor
from .slicing import SliceParts, borders_of

SUB_BLOCK = 1 << 14
"""Approximate number of compressed values in a message; small enough that compression and transfer
overlap.
"""
MOST_SCALE = 127
"""Largest magnitude of a run's scale."""


@dataclass(frozen=True)
class Run:
    """``count`` consecutive slices of a layer that share a compressor.

    Compressed values are multiplied by ``2**scale`` in transit. The multiplication is exact and linear, so it
    changes no sum. It makes the values smaller than 1, for a codec whose error bound is absolute.
    """

    compressor: Compressor
    count: int
    scale: int = 0


class CompressedDomain:
    """One all-reduce of slices. It compresses this rank's slices on demand, and decompresses the sums.

    ``own`` holds this worker's slices, float32[count, K] per run. ``share`` is 1/N for one of N workers, and
    0 for a rank that takes no part. ``measured`` tells whether to compute the local loss.
    """

    def __init__(
        self, runs: Sequence[Run], own: Sequence[Floats], share: float, measured: bool = False
    ) -> None:
        self.runs, self.own, self.share, self.measured = runs, own, share, measured
        sizes = [run.count * run.compressor.dimension for run in runs]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.sums = [np.empty_like(slices) for slices in own]
        """The decompressed sums of all workers after `reduce` (eq. 5), float32[count, K] per run."""
        self._lost = self._energy = 0.0

    @property
    def lanes(self) -> int:
        """Number of values of the compressed vector."""
        return int(self._starts[-1])

    @property
    def loss(self) -> float:
        """The local compression loss over all slices (eq. 7).

        It is 0 if all are zero, or none was measured.
        """
        return self._lost / self._energy if self._energy else 0.0

    def _pieces(self, where: slice) -> Iterator[tuple[int, slice, slice]]:
        """Yield the number of each run in ``where``, its slices there, and their place in ``where``."""
        for number, run in enumerate(self.runs):
            start, stop = self._starts[number], self._starts[number + 1]
            low, high = max(start, where.start), min(stop, where.stop)
            if low < high:
                d = run.compressor.dimension
                yield (
                    number,
                    slice((low - start) // d, (high - start) // d),
                    slice(low - where.start, high - where.start),
                )

    def __getitem__(self, where: slice) -> Floats:
        """Compress this worker's slices of a segment (lines "compress" of Algorithm 1)."""
        compressed = np.zeros(where.stop - where.start, np.float32)
        if not self.share:
            return compressed
        for number, slices, at in self._pieces(where):
            run, own = self.runs[number], self.own[number][slices]
            alone = run.compressor.compress(own, slices.start)
            if self.measured:
                lost, energy = run.compressor.losses(own, alone, slices.start)
                self._lost += lost
                self._energy += energy
            np.multiply(alone.reshape(-1), np.float32(self.share * 2.0**run.scale), out=compressed[at])
        return compressed

    def reduce(self, form: WireForm, sub_block: int = SUB_BLOCK) -> None:
        """Run the ring. After it, `sums` holds the same bits at every rank."""
        transport = form.transport
        lanes = np.empty(self.lanes, np.float32)
        counts = [(run.count, run.compressor.dimension) for run in self.runs]
        parts = SliceParts(borders_of(counts), transport.size, sub_block)

        def decompress(where: slice) -> None:
            for number, slices, at in self._pieces(slice(where.start, where.stop)):
                run = self.runs[number]
                sums = lanes[where][at].reshape(-1, run.compressor.dimension)
                if run.scale:
                    sums = sums * np.float32(2.0**-run.scale)
                self.sums[number][slices] = run.compressor.decompress(sums, slices.start)

        steps = all_reduce_steps(transport.size)
        ring(form, range(transport.size), self, lanes, parts, steps, decompress)
