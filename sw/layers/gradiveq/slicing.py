# SPDX-License-Identifier: BSD-2-Clause
"""Slices of a convolution's gradient (GradiVeQ, Sec. 1, 2 and Fig. 3).

The gradient becomes a vector. In a layer of F filters of depth D, the F values at the same coordinates of all
filters are adjacent. These groups follow each other along the depth, then the width, then the height. Slices
are cut from that vector. Their size K is a multiple of F*D, the period of the correlation (Sec. 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..parameters import Floats


@dataclass(frozen=True)
class Slicing:
    """The slices of one layer's gradient, float32[F, D, H, W].

    K is ``multiple * F * D``, and ``multiple`` must divide H*W. Raises ``ValueError`` if it does not, if
    there are not four dimensions, or if there are no values.
    """

    key: str
    shape: tuple[int, ...]
    multiple: int = 1

    def __post_init__(self) -> None:
        if len(self.shape) != 4:
            raise ValueError(f"key {self.key!r}: a convolution's gradient has 4 dimensions, not {self.shape}")
        if not all(self.shape):
            raise ValueError(f"key {self.key!r} has no values: its shape is {self.shape}")
        positions = self.shape[2] * self.shape[3]
        if self.multiple < 1 or positions % self.multiple:
            raise ValueError(
                f"key {self.key!r}: the slice size must be a multiple of F*D that divides the layer, so "
                f"the multiple must divide {positions}, not {self.multiple!r}"
            )

    @property
    def size(self) -> int:
        """K, the number of values of a slice."""
        return self.multiple * self.shape[0] * self.shape[1]

    @property
    def count(self) -> int:
        """M, the number of slices of the layer."""
        return self.shape[2] * self.shape[3] // self.multiple

    def cut(self, gradient: Floats) -> Floats:
        """Cut float32[F, D, H, W] into float32[M, K], a copy."""
        return np.ascontiguousarray(gradient.transpose(2, 3, 1, 0)).reshape(self.count, self.size)

    def joined(self, slices: Floats) -> Floats:
        """Invert `cut`, as a C-contiguous copy."""
        filters, depth, height, width = self.shape
        return np.ascontiguousarray(slices.reshape(height, width, depth, filters).transpose(3, 2, 0, 1))


@dataclass(frozen=True)
class SliceParts:
    """One block per rank, cut at borders of slices, for `inceptionn.collectives.algorithms.ring`.

    ``borders`` are the starts of the slices in the vector, ascending from 0, and the end of the last one.
    ``target`` is the intended number of lanes in a sub-block. Blocks are as even as the borders allow. With
    fewer slices than sub-blocks, some are empty.
    """

    borders: tuple[int, ...]
    blocks: int
    target: int

    @property
    def subs(self) -> int:
        """Number of sub-blocks of every block."""
        return max(1, round(self.borders[-1] / (self.blocks * self.target)))

    def sub(self, block: int, sub: int) -> slice:
        """Return the lanes of a sub-block, which are whole slices."""
        number = block * self.subs + sub
        return slice(self._cut(number), self._cut(number + 1))

    def _cut(self, number: int) -> int:
        ideal = number * self.borders[-1] / (self.blocks * self.subs)
        after = int(np.searchsorted(self.borders, ideal))
        if not 0 < after < len(self.borders):
            return self.borders[min(after, len(self.borders) - 1)]
        low, high = self.borders[after - 1], self.borders[after]
        return low if ideal - low < high - ideal else high


def borders_of(slices: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return borders for `SliceParts`, from runs of (number of slices, lanes of each)."""
    sizes = [size for count, size in slices for _ in range(count)]
    return (0, *np.cumsum(sizes).tolist())
