# SPDX-License-Identifier: BSD-2-Clause
"""The paper's model of iteration times: equations 2 to 4, in seconds.

Layers are numbered from 1 at the input. Gradients become ready from layer L down to layer 1, and layers
communicate one after the other. A program that pushes all gradients at once, after the backward computation,
is the case L = 1. Then ``h_b^L = T_b``, and equation 2 is ``T_f + T_b + T_c``.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """The parts of an iteration, in seconds. Sequences have one entry per layer, layer 1 first.

    ``forward`` is T_f, ``backward`` h_b, ``communication`` h_c (by equation 3 a layer's push, wait, update
    and pull), and ``send`` h_s. ``local_update`` is h_loc^1, the local update of the first layer, since the
    next iteration begins after it.

    Raises ``ValueError`` for sequences that are empty or of different lengths, or for a time below 0.
    """

    forward: float
    backward: Sequence[float]
    communication: Sequence[float]
    send: Sequence[float]
    local_update: float = 0.0

    def __post_init__(self) -> None:
        lengths = {len(self.backward), len(self.communication), len(self.send)}
        if len(lengths) != 1 or not self.backward:
            raise ValueError(f"backward, communication and send need one entry per layer, not {lengths!r}")
        times = (self.forward, self.local_update, *self.backward, *self.communication, *self.send)
        if min(times) < 0:
            raise ValueError(f"times must be at least 0, not {min(times)!r}")

    @property
    def t_b(self) -> float:
        """T_b: the whole backward computation."""
        return sum(self.backward)

    @property
    def t_c(self) -> float:
        """T_c: the whole communication."""
        return sum(self.communication)

    @property
    def t_s(self) -> float:
        """The sum of h_s: all pushes."""
        return sum(self.send)


def ssgd_time(costs: Costs) -> float:
    """Return one iteration of SSGD by equation 2.

    ``T_f + T_b + h_c^1`` if the backward computation of layers 1 to L-1 takes longer than the communication
    of layers 2 to L, else ``T_f + T_c + h_b^L``.
    """
    if sum(costs.backward[:-1]) > sum(costs.communication[1:]):
        return costs.forward + costs.t_b + costs.communication[0]
    return costs.forward + costs.t_c + costs.backward[-1]


def case(costs: Costs) -> int:
    """Return the case of Fig. 2 that applies: 1, 2, or 3.

    In case 2, sending alone takes longer than an iteration's computation: ``sum h_s >= T_b + T_f + h_loc^1``.
    In case 3, the iteration after a pull computes for longer than the pull takes: ``T_c + h_b^L <= T_f + 2
    T_b + h_loc^1`` (in words below equation 4 of the paper). Case 1 is everything else.
    """
    if costs.t_s >= costs.forward + costs.t_b + costs.local_update:
        return 2
    if costs.t_c + costs.backward[-1] <= costs.forward + 2 * costs.t_b + costs.local_update:
        return 3
    return 1


def ssd_time(costs: Costs, k: int) -> float:
    """Return the mean time of an iteration of SSD-SGD with a delay of k steps, by equation 4.

    In case 3 it is ``T_f + T_b + h_loc^1`` for every k. The equation assumes that a pull and the next push do
    not overlap. On a full-duplex network they do, and measured times are shorter than in case 2. Raises
    ``ValueError`` for k below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k!r}")
    f, b, last, local = costs.forward, costs.t_b, costs.backward[-1], costs.local_update
    which = case(costs)
    if which == 3:
        return f + b + local
    if which == 1:
        return f + b + local + (costs.t_c + last - f - 2 * b - local) / k
    return costs.t_s + (costs.t_c + last - b - costs.t_s) / k
