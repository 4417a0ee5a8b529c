# SPDX-License-Identifier: BSD-2-Clause
"""The ways to all-reduce that are measured."""

from typing import Any, NamedTuple

from .... import BOUNDED, PLANES, Codec
from .... import VARIANTS as CODED
from .... import Variant as CodecVariant
from ....collectives import RING_ALGORITHMS, BFloat16, Scale

ALL_REDUCES = ("sum", "mean")
REDUCE_SCATTER, ALL_GATHER = "reduce-scatter", "all-gather"
OPS = (*ALL_REDUCES, REDUCE_SCATTER, ALL_GATHER)
AGGREGATOR, HIERARCHICAL, _APART = "worker_aggregator", "hierarchical", "paper_baseline"
_BFLOAT16 = "bfloat16"


class Variant(NamedTuple):
    """An algorithm, what compresses its values (None: nothing), and on which legs of an aggregator."""

    by: CodecVariant | str | None = None
    algorithm: str = "ring"
    legs: str = "both"
    sub_block: int | None = None
    """Values of a sub-block; None: the collectives' own."""

    def does(self, op: str) -> bool:
        """Tell whether it has this operation."""
        return op in ALL_REDUCES or (self.algorithm in RING_ALGORITHMS)

    @property
    def within_bound(self) -> bool:
        """True if every compression is within the error bound."""
        return self.by in (BOUNDED, PLANES)

    @property
    def apart(self) -> bool:
        """True if the first rank has no values of its own."""
        return self.algorithm == _APART

    def volume(self, ranks: int) -> float:
        """Return the raw bytes through the busiest port, one way and the other, over those of the vector."""
        return 2 * (ranks - 1) / (1 if self.algorithm in (AGGREGATOR, _APART) else ranks)

    def settings(self, bound: float, scale: Scale = None) -> dict[str, Any]:
        """Return the arguments of the collective."""
        found: dict[str, Any] = {"algorithm": self.algorithm, "scale": scale, "path": "off"}
        if self.by is not None:
            # One thread: the ranks of all hosts share this machine's processors.
            ours = isinstance(self.by, CodecVariant)
            found["codec"] = Codec(bound, *self.by, threads=1) if ours else BFloat16()
            found["path"] = "software"
        if self.algorithm not in RING_ALGORITHMS:
            found["legs"] = self.legs
        if self.sub_block is not None:
            found["sub_block"] = self.sub_block
        return found


RING_RAW, RING_BF16, RING_BOUNDED, RING_PLANES = "ring raw", "ring bf16", "ring bounded", "ring planes"
MPI = "Open MPI"
MEASURED = {
    RING_RAW: Variant(),
    RING_BF16: Variant(_BFLOAT16),
    **{f"ring {by.name}": Variant(by) for by in CODED},
    "hierarchical bounded": Variant(BOUNDED, HIERARCHICAL),
    MPI: Variant(),
    "worker-aggregator raw": Variant(None, AGGREGATOR),
    "worker-aggregator bounded, up": Variant(BOUNDED, AGGREGATOR, "up"),
    "worker-aggregator bounded, both": Variant(BOUNDED, AGGREGATOR),
    # One worker less: the first rank aggregates alone.
    "paper's baseline raw": Variant(None, _APART, "up"),
    "paper's baseline bounded": Variant(BOUNDED, _APART, "up"),
}
"""Those of ``inceptionn bench allreduce``; MPI takes none of the settings."""

HALVES = (RING_BF16, RING_BOUNDED, RING_PLANES)
"""The variants for arrays of bfloat16. The first sends them raw, and rounds each partial sum to bfloat16."""

PAPERS = "paper's aggregator"
_BASELINE = Variant(None, _APART, "up", 1 << 30)
VARIANTS = MEASURED | {
    f"{PAPERS} raw": _BASELINE,
    **{f"{PAPERS} {by.name}, up": _BASELINE._replace(by=by) for by in CODED},
}
"""All. Those of ``inceptionn reproduce`` compress on the one leg of the paper's baseline, whose aggregator is
the first rank, has no values of its own, and sends when it has received everything: one sub-block is all."""
