# SPDX-License-Identifier: BSD-2-Clause
"""The bytes that a machine moves per step (the paper's Table 3), and the choice that follows from them.

Symbols are the paper's: ``w`` is the size of a variable in bytes, ``N`` the number of machines. Alpha is the
share of a variable's elements that a worker uses in one iteration. Each machine has one worker and one
server. Bytes count both directions together, as in Sec. 3.1.

The paper neglects row numbers (its footnote 3) and has no compression. `choose` takes both into account. A
codec for gradients shrinks both legs of the all-reduce, but only the push to a server.
"""

from dataclasses import dataclass
from typing import Literal

Architecture = Literal["all_reduce", "parameter_server"]


@dataclass(frozen=True)
class Choice:
    """The result of `choose`: the architecture, and the bytes per machine and step of both."""

    architecture: Architecture
    all_reduce_bytes: float
    parameter_server_bytes: float


def choose(
    w: float, N: int, alpha: float, *, row_bytes: float, ratio: float = 1.0,
    all_reduce_ratio: float | None = None, advantage: float = 1.0,
) -> Choice:  # fmt: skip
    """Choose the architecture that moves fewer bytes for one evenly partitioned variable (Sec. 3.1).

    Parameters
    ----------
    w, N, alpha
        As above, with the measured alpha (`SparsityMeter`). If a machine has several workers and sums their
        gradients first, alpha is the share that they use together, since each of their rows crosses the
        network once.
    row_bytes
        Bytes of one row. Its number adds 4 bytes, or ``1/(8 alpha)`` if a bitmap is shorter.
    ratio
        The codec's ratio for the gradients that are pushed, which have only the rows in use.
    all_reduce_ratio
        Its ratio for what the all-reduce sends: partial sums of dense gradients, and their sum. Rows that
        nobody uses are zeros there and compress well, so it is usually higher. Default: ``ratio``.
    advantage
        All-reduce is chosen if it needs at most ``advantage`` times the server's bytes. The paper (end of
        Sec. 3.1) says that near alpha = 1 the even use of the network can outweigh more bytes, but gives no
        figure. A value above 1 expresses that.

    On one machine nothing crosses a network, so the bytes are 0. The architecture is then that of two
    machines, since copying and summing cost work in the same proportions.

    Raises ``ValueError`` for a ratio, a row size or an advantage that is not above 0.
    """
    if w < 0:
        raise ValueError(f"w must be a number of bytes, not {w!r}")
    if N < 1:
        raise ValueError(f"N must be at least 1, not {N!r}")
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be within 0..1, not {alpha!r}")
    dense = ratio if all_reduce_ratio is None else all_reduce_ratio
    above = {"row_bytes": row_bytes, "ratio": ratio, "all_reduce_ratio": dense, "advantage": advantage}
    for name, value in above.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0, not {value!r}")
    if N == 1:
        as_two = choose(w, 2, alpha, **above)
        return Choice(as_two.architecture, 0.0, 0.0)
    reduce = 4 * w * (N - 1) / N / dense
    half = 2 * alpha * w * (N - 1) / N
    numbers = min(4 * alpha, 1 / 8) * w / row_bytes * 2 * (N - 1) / N
    serve = half + half / ratio + numbers
    better: Architecture = "all_reduce" if reduce <= advantage * serve else "parameter_server"
    return Choice(better, reduce, serve)


class SparsityMeter:
    """Alpha of a variable: the mean share of its elements that a worker uses in an iteration (Sec. 2.2)."""

    def __init__(self, elements: int) -> None:
        self.elements = elements
        self.iterations = 0
        self._used = 0

    def add(self, used: int) -> None:
        """Count one worker's iteration. Raise ``ValueError`` if it used more elements than there are."""
        if not 0 <= used <= self.elements:
            raise ValueError(f"used must be within 0..{self.elements}, not {used!r}")
        self.iterations += 1
        self._used += used

    @property
    def alpha(self) -> float:
        """Alpha, 0..1. It is 1 while nothing was counted."""
        return self._used / (self.iterations * self.elements) if self.iterations else 1.0


def model_alpha(alphas: dict[str, float], elements: dict[str, int]) -> float:
    """Return ``alpha_model``: the alphas of a model's variables, weighted by their elements (Sec. 2.2)."""
    return sum(alphas[key] * elements[key] for key in alphas) / sum(elements[key] for key in alphas)
