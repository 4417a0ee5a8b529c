# SPDX-License-Identifier: BSD-2-Clause
"""The scales of the sections of some lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index

import numpy as np
from numpy.typing import NDArray

from ..system.integers import is_integer
from ..system.text import brief

Lanes = NDArray[np.float32]

MOST_SECTIONS = 4096
"""Sections of an array. Ranks exchange a number of up to five characters for each."""


def check_sections(
    scale: object, sections: Sequence[int] | None, count: int | None = None
) -> list[int] | None:
    """Return the lengths of an array's sections as a list; None where the scale is not "tensor".

    Raises ``TypeError`` or ``ValueError`` for others, or if their sum is not ``count``, where that is given.
    """
    if sections is None:
        if scale == "tensor":
            raise ValueError("scale 'tensor' needs sections, the lengths of the tensors in the array")
        return None
    if scale != "tensor":
        raise ValueError(f"sections are for scale 'tensor', not {scale!r}")
    if not isinstance(sections, Sequence | np.ndarray):
        raise TypeError(f"sections must be a sequence of whole numbers, not {brief(sections)}")
    if len(sections) > MOST_SECTIONS:
        raise ValueError(
            f"sections must be {MOST_SECTIONS} at most, not {len(sections)}: join small neighbours"
        )
    if not all(map(is_integer, sections)):
        raise TypeError(f"sections must be whole numbers, not {brief(sections)}")
    if any(length < 0 for length in sections):
        raise ValueError(f"sections must be 0 or more values each, not {brief(sections)}")
    lengths = [index(length) for length in sections]
    if count is not None:
        check_sum(lengths, count)
    return lengths


def check_sum(lengths: Sequence[int], count: int) -> None:
    """Raise ``ValueError`` unless the sections of an array of ``count`` values have as many."""
    if sum(lengths) != count:
        raise ValueError(f"the sections have {sum(lengths)} values, the array has {count}")


def joined_sections(lengths: Sequence[int], most: int = MOST_SECTIONS) -> list[int]:
    """Return the lengths of ``most`` sections or fewer: the given ones, or small neighbours joined.

    Neighbours are joined up to the smallest power of two values that suffices. Longer sections stay alone.
    """
    found, limit = list(lengths), 1
    while len(found) > most:
        limit *= 2
        found = []
        for length in lengths:
            if found and found[-1] + length <= limit:
                found[-1] += length
            else:
                found.append(length)
    return found


@dataclass(frozen=True)
class Scaling:
    """Scales of consecutive sections of lanes. That of section *i* holds from lane ``starts[i]`` to the next.

    A lane is multiplied by ``2**scale``. The default does not scale. Multiplying is exact, but for subnormal
    results.
    """

    scales: tuple[int, ...] = (0,)
    starts: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, scales: Sequence[int], lengths: Sequence[int]) -> Scaling:
        """Make the scaling of consecutive sections. Neighbours of one scale become one section."""
        kept: list[tuple[int, int]] = []
        start = 0
        for scale, length in zip(scales, lengths, strict=True):
            if length and (not kept or kept[-1][0] != scale):
                kept.append((scale, start))
            start += length
        found, starts = zip(*kept, strict=True) if kept else ((0,), (0,))
        return cls(found, starts)

    @property
    def common(self) -> int | None:
        """The scale of all lanes. None if there are several."""
        return self.scales[0] if len(self.scales) == 1 else None

    def pieces(self, count: int, start: int = 0) -> Iterator[tuple[slice, int]]:
        """Yield the parts of ``count`` lanes, of which the first is lane ``start``, and their scales."""
        stop = start + count
        for scale, first, end in zip(self.scales, self.starts, (*self.starts[1:], stop), strict=True):
            if first < stop and start < end:
                yield slice(max(first, start) - start, min(end, stop) - start), scale

    def multiply(self, lanes: Lanes, out: Lanes) -> None:
        """Scale lanes into ``out``, which may be ``lanes``."""
        with np.errstate(invalid="ignore"):  # signalling NaNs become quiet
            for where, scale in self.pieces(lanes.size):
                np.multiply(lanes[where], np.float32(2.0**scale), out=out[where])

    def divide(self, lanes: Lanes, start: int = 0) -> None:
        """Undo it in place, in lanes of which the first is lane ``start``. Too large ones become infinite."""
        with np.errstate(invalid="ignore", over="ignore"):
            for where, scale in self.pieces(lanes.size, start):
                if scale:
                    np.multiply(lanes[where], np.float32(2.0**-scale), out=lanes[where])

    def beside(self, other: Scaling, count: int) -> tuple[list[slice], NDArray[np.int64], NDArray[np.int64]]:
        """Return the parts of ``count`` lanes in which neither scale changes, and both scales of each."""
        starts = sorted({start for start in (*self.starts, *other.starts) if start < count})
        places = np.array(starts, np.int64)
        return [slice(*ends) for ends in pairwise((*starts, count))], self.at(places), other.at(places)

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the scales of some lanes, in the shape of ``places``."""
        return np.array(self.scales)[np.searchsorted(self.starts, places, side="right") - 1]
