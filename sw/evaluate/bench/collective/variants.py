# SPDX-License-Identifier: BSD-2-Clause
"""The ways to all-reduce that are measured."""

from collections.abc import Callable
from typing import Any, NamedTuple

from .... import VARIANTS as FORMS
from .... import Codec
from .... import Variant as Form
from ....collectives import RING_ALGORITHMS, BFloat16, Scale

Arguments = dict[str, Any]

ALL_REDUCES = ("sum", "mean")
REDUCE_SCATTER, ALL_GATHER = "reduce-scatter", "all-gather"
OPS = (*ALL_REDUCES, REDUCE_SCATTER, ALL_GATHER)


def _raw(bound: float) -> Arguments:
    return {"path": "off"}


def _bfloat16(bound: float) -> Arguments:
    return {"path": "software", "codec": BFloat16()}


def _compressed(by: Form) -> Callable[[float], Arguments]:
    # One thread: the ranks of all hosts share this machine's processors.
    return lambda bound: {"path": "software", "codec": Codec(bound, *by, threads=1)}


_literal, _bounded, _planes = map(_compressed, FORMS)


def _aggregator_volume(ranks: int) -> float:
    return 2 * (ranks - 1)


class Variant(NamedTuple):
    """An algorithm and its values' form; ``arguments(error bound)`` are those of the collective.

    Without them it is MPI's own. ``volume``: raw bytes through the busiest port, first one way and then the
    other, in multiples of the vector for *n* ranks. ``within_bound``: every compression is within the error
    bound.
    """

    arguments: Callable[[float], Arguments] | None
    volume: Callable[[int], float] = lambda ranks: 2 * (ranks - 1) / ranks
    within_bound: bool = False
    algorithm: str = "ring"
    legs: str = "both"
    sub_block: int | None = None
    """Values of a sub-block; None: the collectives' own."""

    def does(self, op: str) -> bool:
        """Tell whether it has this operation."""
        return op in ALL_REDUCES or (self.algorithm in RING_ALGORITHMS)

    @property
    def apart(self) -> bool:
        """True if the first rank has no values of its own."""
        return self.algorithm == _APART

    def settings(self, bound: float, scale: Scale = None) -> Arguments:
        """Return the arguments of the collective."""
        if self.arguments is None:
            raise ValueError("MPI's own collectives take none of this package's settings")
        found: Arguments = {"algorithm": self.algorithm, "scale": scale}
        if self.algorithm not in RING_ALGORITHMS:
            found["legs"] = self.legs
        if self.sub_block is not None:
            found["sub_block"] = self.sub_block
        return {**found, **self.arguments(bound)}


RING_RAW, RING_BF16, RING_BOUNDED, RING_PLANES = "ring raw", "ring bf16", "ring bounded", "ring planes"
MPI = "Open MPI"
_AGGREGATOR, _APART = "worker_aggregator", "paper_baseline"

VARIANTS = {
    RING_RAW: Variant(_raw),
    RING_BF16: Variant(_bfloat16),
    "ring literal": Variant(_literal),
    RING_BOUNDED: Variant(_bounded, within_bound=True),
    RING_PLANES: Variant(_planes, within_bound=True),
    "hierarchical bounded": Variant(_bounded, within_bound=True, algorithm="hierarchical"),
    MPI: Variant(None),
    "worker-aggregator raw": Variant(_raw, _aggregator_volume, False, _AGGREGATOR),
    "worker-aggregator bounded, up": Variant(_bounded, _aggregator_volume, True, _AGGREGATOR, "up"),
    "worker-aggregator bounded, both": Variant(_bounded, _aggregator_volume, True, _AGGREGATOR),
    # One worker less: the first rank aggregates alone.
    "paper's baseline raw": Variant(_raw, _aggregator_volume, False, _APART, "up"),
    "paper's baseline bounded": Variant(_bounded, _aggregator_volume, True, _APART, "up"),
}


HALVES = (RING_BF16, RING_BOUNDED, RING_PLANES)
"""The variants for arrays of bfloat16. The first sends them raw, and rounds each partial sum to bfloat16."""

PAPERS = "paper's aggregator"
_WHOLE = 1 << 30
"""Values of a sub-block that holds every array: the aggregator sends when it has received everything."""
_BASELINE = Variant(_raw, _aggregator_volume, algorithm="paper_baseline", legs="up", sub_block=_WHOLE)
FURTHER = {
    f"{PAPERS} raw": _BASELINE,
    **{f"{PAPERS} {by.name}, up": _BASELINE._replace(arguments=_compressed(by)) for by in FORMS},
    **{f"ring {by.name}": Variant(_compressed(by)) for by in FORMS},
}
"""For ``inceptionn reproduce``: every mode of the codec in a ring and on the one leg of the paper's baseline,
whose aggregator is the first rank, has no values of its own, and works on the vector as a whole."""


def variant_of(name: str) -> Variant:
    """Return a variant of either table."""
    return VARIANTS[name] if name in VARIANTS else FURTHER[name]
