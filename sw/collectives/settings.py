# SPDX-License-Identifier: BSD-2-Clause
"""The settings of a collective call, as one record that must be equal at all ranks."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import index
from typing import Any, Literal, TypedDict, get_args

from ..codec import MAX_SCALE
from ..codec.scaling import check_sections, check_sum
from ..codec.stream_codec import StreamCodec
from ..system.integers import integer
from ..wire import CodecName
from .algorithms.aggregators import tree_levels
from .algorithms.hierarchical import default_group_size
from .algorithms.parts import SUB_BLOCK
from .values.stream_codec import check_codec


class Op(Enum):
    """The reduction of all ranks' values: their sum, or their sum times the reciprocal of their number."""

    SUM = "sum"
    MEAN = "mean"


Path = Literal["auto", "nic", "software", "off"]
RingAlgorithm = Literal["ring", "hierarchical"]
Algorithm = Literal[RingAlgorithm, "worker_aggregator", "paper_baseline"]
Legs = Literal["both", "up", "down", "none"]
Upper = Literal["ring", "aggregator"]
Dtype = Literal["bfloat16"]
Scale = int | Literal["auto"] | None
SumScale = Scale | Literal["tensor", "rms"]
"""The scale of a sum: also one for each of its `Settings.sections`, or by the root mean square."""

RING_ALGORITHMS: tuple[str, ...] = get_args(RingAlgorithm)
ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
_CHOICES = {
    "path": get_args(Path),
    "legs": (None, *get_args(Legs)),
    "upper": get_args(Upper),
    "dtype": (None, *get_args(Dtype)),
}


class _WayKeywords(TypedDict, total=False):
    path: Path
    scale: SumScale
    sub_block: int


class _ArrayKeywords(TypedDict, total=False):
    codec: StreamCodec | CodecName | None
    sections: Sequence[int] | None
    dtype: Dtype | None


class GradientKeywords(_WayKeywords, total=False):
    """The settings of an all-reduce other than its codec and those of one array."""

    algorithm: Algorithm
    legs: Legs | None
    group_size: int | None
    upper: Upper


class SumKeywords(GradientKeywords, _ArrayKeywords, total=False):
    """The settings of an all-reduce."""


class Keywords(_WayKeywords, _ArrayKeywords, total=False):
    """The settings that every collective takes, as `allreduce_comp` describes them."""


class BlockKeywords(Keywords, total=False):
    """The settings of a reduce-scatter or all-gather."""

    algorithm: RingAlgorithm
    group_size: int | None


@dataclass(frozen=True)
class Settings:
    """The arguments of `allreduce_comp` other than buffers, with their meaning."""

    op: Op = Op.SUM
    codec: StreamCodec | CodecName | None = None
    path: Path = "auto"
    algorithm: Algorithm = "ring"
    scale: SumScale = "auto"
    sections: Sequence[int] | None = None
    legs: Legs | None = None
    group_size: int | None = None
    upper: Upper = "ring"
    dtype: Dtype | None = None
    sub_block: int = SUB_BLOCK

    def check(self, ranks: int | None, algorithms: tuple[str, ...] = ALGORITHMS) -> "Checked":
        """Check each value; return what was found. Raise ``TypeError`` or ``ValueError`` for a wrong one.

        ``ranks`` is None if their number is not known yet. ``algorithms`` are those of the collective.
        """
        if not isinstance(self.op, Op):
            raise TypeError(f"op must be SUM or MEAN, not {self.op!r}")
        for name, allowed in {"algorithm": algorithms, **_CHOICES}.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} must be one of {', '.join(map(str, allowed))}, not {getattr(self, name)!r}"
                )
        check_scale(self.scale, ("tensor", "rms"))
        sections = check_sections(self.scale, self.sections)
        codec = None if self.codec is None else check_codec(self.codec)
        if self.group_size is not None:
            unit = "" if ranks is None else f" of the {ranks} ranks"
            integer("group_size", self.group_size, 1, ranks, unit=unit)
        if self.algorithm == "paper_baseline" and ranks is not None:
            tree_levels(ranks, self.group_size)
        integer("sub_block", self.sub_block, 1)
        return Checked(self, codec, sections)

    @property
    def compressed_legs(self) -> Legs:
        """The compressed legs. The default is "up" for the paper's baseline, and "both" otherwise."""
        return self.legs or ("up" if self.algorithm == "paper_baseline" else "both")

    def quantises_first(self, path: Path) -> bool:
        """Return whether exact sums need a rank's own values quantised before all else.

        The software's codec quantises them as it sends or adds them. NICs do not add, and a group of one rank
        leaves them as they are, to be added on an aggregator's raw leg. Trees with raw legs to the aggregator
        add the values themselves.
        """
        raw_up = self.compressed_legs in ("down", "none")
        if self.algorithm == "hierarchical" and self.upper == "aggregator" and raw_up:
            return True
        return path == "nic" and (self.algorithm in RING_ALGORITHMS or not raw_up)

    @property
    def takes_halves(self) -> bool:
        """True if sums can use arrays of 16-bit values: in rings, if streams apply one scale to all lanes."""
        rings = self.algorithm == "ring" or (self.algorithm == "hierarchical" and self.upper == "ring")
        return rings and self.sections is None

    @property
    def makes_sums(self) -> bool:
        """True if the algorithm stores partial sums in memory. The ring has them in streams alone."""
        return self.algorithm != "ring"

    def group(self, ranks: int) -> int:
        """Return the number of ranks in a group."""
        return self.group_size or default_group_size(ranks)


@dataclass(frozen=True)
class Checked:
    """Checked settings, with their codec, and the sections of scale "tensor" as a list."""

    settings: Settings
    codec: StreamCodec | None
    sections: list[int] | None

    def lengths(self, count: int) -> list[int]:
        """Return the lengths of the sections of ``count`` lanes: one, but for scale "tensor".

        Raises ``ValueError`` if sections have another sum.
        """
        if self.sections is None:
            return [count]
        check_sum(self.sections, count)
        return self.sections or [count]

    def terms(self) -> dict[str, Any]:
        """Return the settings that must be equal at all ranks, as JSON values."""
        settings = self.settings
        return {
            "op": settings.op.value,
            "codec": None if self.codec is None else self.codec.name,
            "codec's absolute_bound": None if self.codec is None else self.codec.absolute_bound,
            "path": settings.path,
            "algorithm": settings.algorithm,
            "scale": settings.scale,
            "sections": self.sections,
            "legs": settings.compressed_legs,
            "group_size": None if settings.group_size is None else index(settings.group_size),
            "upper": settings.upper,
            "sub_block": index(settings.sub_block),
        }


def check_names(function: str, given: Iterable[str], known: Container[str]) -> None:
    """Raise the ``TypeError`` of a call of ``function`` with a keyword argument that is not known."""
    for name in given:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def check_scale(scale: Any, words: tuple[str, ...] = ()) -> Any:
    """Return ``scale`` if it is valid: a `Scale`, or one of ``words``. Raise ``ValueError`` otherwise."""
    whole = isinstance(scale, int) and not isinstance(scale, bool)
    known = (None, "auto", *words)
    if scale not in known and not (whole and -MAX_SCALE <= scale <= MAX_SCALE):
        raise ValueError(f"scale must be {', '.join(map(repr, known))} or -126..126, not {scale!r}")
    return scale
