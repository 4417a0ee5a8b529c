# SPDX-License-Identifier: BSD-2-Clause
"""Settings of a Parallax runner, and the partitioner that marks variables."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, get_args

from ...collectives import Op
from ...collectives.settings import Path, Scale, check_scale
from ...collectives.values.wire_form import StreamCodec
from ...training import Floats
from ..checks import Policy

Strategy = Literal["hybrid", "parameter_server", "all_gather", "dense"]


@dataclass(frozen=True)
class ParallaxConfig:
    """How a runner trains; the paper's ``ParallaxConfig`` (Sec. 4.1). The same at all ranks.

    Attributes
    ----------
    strategy
        "hybrid": each sparse variable by `transfer_model.choose`, dense ones by all-reduce.
        "parameter_server": all sparse ones by server. The baselines: "all_gather", every rank gets all
        ranks' sparse gradients (Horovod); "dense", sparse gradients made dense and all-reduced.
    local_aggregation
        Sum the sparse gradients of a machine's workers before they leave it.
    dense_op, sparse_op
        Whether the workers' gradients are averaged or summed, by type of variable.
    codec, path
        How gradients travel, as for `inceptionn.collectives.allreduce_comp`; "off" is raw. Pulled rows are
        always raw, since they are weights.
    scale
        Power of two by which gradients are multiplied in transit: "auto" as in `allreduce_comp`, and for each
        message of sparse ones its own; None: an absolute bound. Sparse ones are never scaled for NICs.
    partitions
        Number per sparse variable. None: searched for those that a `Partitioner` marked, one per machine for
        the others.
    warm_up, sampled
        Iterations per sample of the search: those dropped and those timed (the paper: 50 and 50).
    alpha_steps
        Iterations after which alpha is known well enough to choose the architecture.
    advantage
        See `transfer_model.choose`.
    non_finite
        A gradient with an infinity or a NaN at any rank: "raise" an error at every rank that names key, step
        and rank, or "skip" the step at every rank (one more exchange per step).

    ``ValueError`` or ``TypeError`` ending with the wrong value.
    """

    strategy: Strategy = "hybrid"
    local_aggregation: bool = True
    dense_op: Op = Op.MEAN
    sparse_op: Op = Op.MEAN
    codec: StreamCodec | None = None
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
    """Marks variables whose number of partitions is to be searched for; all of one get the same number.

    As a context manager it is what `variable` tells its keys; ``keys`` can be given at once instead.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys: list[str] = list(keys)
        self._token: Token[Partitioner | None] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        _current.reset(self._token)


def partitioner(keys: Iterable[str] = ()) -> Partitioner:
    """A new `Partitioner`: ``with partitioner() as p: …`` (the paper's Fig. 3, line 9)."""
    return Partitioner(keys)


def variable(key: str, initial: Any) -> Floats:
    """``initial`` as it is; inside a `partitioner` its key is marked (``get_variable`` in Fig. 3)."""
    current = _current.get()
    if current is not None and key not in current.keys:
        current.keys.append(key)
    found: Floats = initial
    return found
