# SPDX-License-Identifier: BSD-2-Clause
"""Settings of a Parallax runner, and the partitioner that marks variables."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from ... import CodecName
from ...collectives import Op, Path, Scale, StreamCodec, check_scale
from ..checks import Policy
from ..parameters import Floats

Strategy = Literal["hybrid", "parameter_server", "all_gather", "dense"]


@dataclass(frozen=True)
class ParallaxConfig:
    """A runner's settings, as in the paper's ``ParallaxConfig`` (Sec. 4.1). They must be equal at all ranks.

    Attributes
    ----------
    strategy
        With "hybrid", `transfer_model.choose` decides on each sparse variable, and dense ones are
        all-reduced. With "parameter_server", servers hold all sparse ones. There are two baselines: with
        "all_gather" every rank gets all ranks' sparse gradients (Horovod), and with "dense" they are made
        dense and all-reduced.
    local_aggregation
        Whether to sum the sparse gradients of a machine's workers before they leave it.
    dense_op, sparse_op
        Whether the workers' gradients are averaged or summed, by type of variable.
    codec, path
        The form of gradients, as for `inceptionn.collectives.allreduce_comp`; "off" is raw. Pulled rows are
        always raw, since they are weights.
    scale
        Base-2 logarithm of the factor by which gradients are multiplied in transit. "auto" is that of
        `allreduce_comp`, and chosen per message for sparse gradients; None keeps the bound absolute. Sparse
        gradients are never scaled for NICs.
    partitions
        Number of partitions of a sparse variable. With None it is searched for variables of a `Partitioner`,
        and one per machine for the others.
    warm_up, sampled
        Iterations that each sample of the search drops, then times (50 and 50 in the paper).
    alpha_steps
        Iterations after which the measured alpha chooses the architecture.
    advantage
        See `transfer_model.choose`.
    non_finite
        What to do if a rank's gradient has an infinity or a NaN. "raise" makes every rank raise an error that
        names key, step and rank. "skip" makes every rank skip the step, and costs one more exchange per step.

    Raises ``ValueError`` or ``TypeError`` with the wrong value.
    """

    strategy: Strategy = "hybrid"
    local_aggregation: bool = True
    dense_op: Op = Op.MEAN
    sparse_op: Op = Op.MEAN
    codec: StreamCodec | CodecName | None = None
    path: Path = "off"
    scale: Scale = "auto"
    partitions: int | None = None
    warm_up: int = 50
    sampled: int = 50
    alpha_steps: int = 5
    advantage: float = 1.0
    non_finite: Policy = "raise"

    def __post_init__(self) -> None:
        for name, choices in (("strategy", Strategy), ("non_finite", Policy), ("path", Path)):
            if getattr(self, name) not in get_args(choices):
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(choices))}, not {getattr(self, name)!r}"
                )
        check_scale(self.scale)
        for name in ("dense_op", "sparse_op"):
            if not isinstance(getattr(self, name), Op):
                raise TypeError(f"{name} must be SUM or MEAN, not {getattr(self, name)!r}")
        for name, least in (("warm_up", 0), ("sampled", 1), ("alpha_steps", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)!r}")
        if self.partitions is not None and self.partitions < 1:
            raise ValueError(f"partitions must be at least 1, not {self.partitions!r}")
        if not self.advantage > 0:
            raise ValueError(f"advantage must be above 0, not {self.advantage!r}")


_current: ContextVar[Partitioner | None] = ContextVar("partitioner", default=None)


class Partitioner:
    """Marks variables whose number of partitions is searched for. They all get the same number.

    In its context, `variable` adds keys. ``keys`` can be given directly instead.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys: list[str] = list(keys)
        self._token: Token[Partitioner | None] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _current.reset(self._token)


def partitioner(keys: Iterable[str] = ()) -> Partitioner:
    """Make a `Partitioner`, for ``with partitioner() as p:`` (the paper's Fig. 3, line 9)."""
    return Partitioner(keys)


def variable(key: str, initial: Any) -> Floats:
    """Return ``initial``. In the context of a `partitioner`, mark its key (``get_variable`` in Fig. 3)."""
    current = _current.get()
    if current is not None and key not in current.keys:
        current.keys.append(key)
    found: Floats = initial
    return found
