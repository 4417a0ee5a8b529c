# SPDX-License-Identifier: BSD-2-Clause
"""The number of partitions: the paper's cost model (equation 1) and its sampling procedure (Sec. 3.2)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CostModel:
    """``iter_time(P) = theta0 + theta1 / P + theta2 * P`` in seconds (equation 1)."""

    theta0: float
    theta1: float
    theta2: float

    def time(self, partitions: int) -> float:
        """Return the predicted seconds of an iteration."""
        return self.theta0 + self.theta1 / partitions + self.theta2 * partitions

    def best(self, least: int, most: int) -> int:
        """Return the number of partitions within ``least..most`` with the smallest predicted time.

        The minimum is at ``sqrt(theta1 / theta2)``. If a coefficient is not positive, an end of the range is
        best.
        """
        ends = {least, most}
        if self.theta1 > 0 and self.theta2 > 0:
            critical = math.sqrt(self.theta1 / self.theta2)
            ends |= {min(most, max(least, end)) for end in (math.floor(critical), math.ceil(critical))}
        return min(sorted(ends), key=self.time)


def fit(samples: Mapping[int, float]) -> CostModel:
    """Fit equation 1 to (partitions, seconds) by least squares. theta1 and theta2 are never negative.

    A cost cannot be negative. So a term is left out if the unconstrained fit makes its coefficient negative,
    or if there are fewer than three samples. Raises ``ValueError`` for no samples, partitions below 1, or
    times that are not finite.
    """
    if not samples:
        raise ValueError("no samples to fit")
    for partitions, seconds in samples.items():
        if partitions < 1 or not math.isfinite(seconds) or seconds < 0:
            raise ValueError(
                f"a sample needs partitions >= 1 and finite seconds, not {partitions}: {seconds}"
            )
    p = np.array(list(samples), np.float64)
    t = np.array(list(samples.values()), np.float64)
    columns = {"theta0": np.ones_like(p), "theta1": 1 / p, "theta2": p}
    candidates = []
    for names in (("theta0", "theta1", "theta2"), ("theta0", "theta1"), ("theta0", "theta2"), ("theta0",)):
        if len(names) > len(p):
            continue
        found, *_ = np.linalg.lstsq(np.stack([columns[name] for name in names], 1), t, rcond=None)
        model = CostModel(
            **{**dict.fromkeys(columns, 0.0), **dict(zip(names, map(float, found), strict=True))}
        )
        if model.theta1 >= 0 and model.theta2 >= 0:
            error = float(np.square([model.time(int(q)) for q in p] - t).sum())
            candidates.append((error, len(names), model))
    return min(candidates, key=lambda candidate: candidate[:2])[2]


class PartitionSearch:
    """Searches the number of partitions by the procedure of Sec. 3.2, from measured times.

    P starts at the number of machines and doubles until the iteration time rises. Then it halves, from the
    same start, until the time rises. The result is the minimum, within the sampled range, of equation 1
    fitted to all samples.

    Parameters
    ----------
    machines
        The first number of partitions.
    most
        The largest P. A variable cannot have more partitions than rows.

    Attributes: ``partitions``, the number to measure next, or the result; ``done``; ``samples``, seconds by
    partitions, in the order of sampling; ``model``, the fit, once done. Raises ``ValueError`` for limits
    below 1.
    """

    def __init__(self, machines: int, most: int) -> None:
        if machines < 1:
            raise ValueError(f"machines must be at least 1, not {machines!r}")
        if most < 1:
            raise ValueError(f"partitions must be within 1..rows, not 1..{most}")
        self.samples: dict[int, float] = {}
        self.model: CostModel | None = None
        self._most = most
        self._start = min(most, machines)
        self._doubling = True
        self._before = math.inf
        """Seconds of the previous sample in this direction."""
        self.partitions = self._start

    @property
    def done(self) -> bool:
        """True if `partitions` is the result."""
        return self.model is not None

    def add(self, seconds: float) -> None:
        """Take the time of an iteration with `partitions`, and set the next number or the result.

        Raises ``ValueError`` for a time that is negative or not finite, and ``RuntimeError`` once
        done.
        """
        if self.done:
            raise RuntimeError("the search is over")
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"seconds must be finite and not negative, not {seconds!r}")
        at = self.partitions
        self.samples[at] = seconds
        rose, self._before = seconds > self._before, seconds
        following = self._next(at)
        if self._doubling and (rose or following == at):
            self._doubling, rose = False, False
            at, self._before = self._start, self.samples[self._start]
            following = self._next(at)
        if rose or following == at:
            self.model = fit(self.samples)
            self.partitions = self.model.best(min(self.samples), max(self.samples))
        else:
            self.partitions = following

    def _next(self, partitions: int) -> int:
        if self._doubling:
            return min(self._most, 2 * partitions)
        return max(1, partitions // 2)
