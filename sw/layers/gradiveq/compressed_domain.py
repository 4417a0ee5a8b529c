# SPDX-License-Identifier: BSD-2-Clause
"""All-reduce in the compressed domain (GradiVeQ, Algorithm 1).

Compressed slices of all workers are added as they are (eq. 4): the ring of `inceptionn.collectives` carries
them, and asks for each segment of this rank's own when it is needed. So a segment is compressed while the
ones before it are in flight. It is decompressed once, after it was relayed, while the next one arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...collectives.algorithms.ring import all_reduce_steps, ring
from ...collectives.values.wire_form import WireForm
from ...training import Floats
from .pca import Compressor
from .slicing import SliceParts, borders_of

SUB_BLOCK = 1 << 14
"""Compressed values of a message, about: small enough for compression and transfer to overlap."""


@dataclass(frozen=True)
class Run:
    """Consecutive slices of a layer that share a compressor; ``count`` of them.

    ``scale``: the exponent of a power of two by which compressed values are multiplied on their way. Exact,
    and linear, so it changes no sum; it brings them under 1 for a codec whose error bound is absolute.
    """

    compressor: Compressor
    count: int
    scale: int = 0


class CompressedDomain:
    """One all-reduce of slices: what this rank puts in, on demand, and what becomes of the sums.

    ``own``: per run float32[count, K], this worker's. ``share``: 1/N for one of N workers, 0 for a rank that
    takes no part. ``measured``: whether to work out the local loss.
    """

    def __init__(
        self, runs: Sequence[Run], own: Sequence[Floats], share: float, measured: bool = False
    ) -> None:
        self.runs, self.own, self.share, self.measured = runs, own, share, measured
        sizes = [run.count * run.compressor.dimension for run in runs]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.sums = [np.empty_like(slices) for slices in own]
        """Per run float32[count, K]: the decompressed sums of all workers (eq. 5), after `reduce`."""
        self._lost = self._energy = 0.0

    @property
    def lanes(self) -> int:
        """Values of the compressed vector."""
        return int(self._starts[-1])

    @property
    def loss(self) -> float:
        """The local compression loss over all slices (eq. 7); 0 if all are zero, or none was measured."""
        return self._lost / self._energy if self._energy else 0.0

    def _pieces(self, where: slice) -> Iterator[tuple[int, slice, slice]]:
        """Runs with the slices of each that lie in ``where``, and where they lie from its start."""
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
        """Compresses this worker's slices of a segment (lines "compress" of Algorithm 1)."""
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
        """Runs the ring; `sums` are the same bits at every rank after it."""
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
        ring(form, range(transport.size), self, lanes, parts, steps, form.settle, decompress)
