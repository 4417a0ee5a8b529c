# SPDX-License-Identifier: BSD-2-Clause
"""The paper's model of iteration times: equations 2, 3, 4 and 7, in seconds.

Layers are numbered from 1 at the input; gradients become ready from layer L down to layer 1, and
communication of one layer follows that of another. A program that pushes all gradients at once, after the
backward computation, is the case L = 1: then ``h_b^L = T_b``, and equation 2 is ``T_f + T_b + T_c``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def layer_communication(send: float, pull: float, sync: float, update: float) -> float:
    """Equation 3: ``h_c = h_s + h_r + h_sync + h_up``, one layer's push, pull, wait and update."""
    return send + pull + sync + update


@dataclass(frozen=True)
class Costs:
    """What an iteration is made of; sequences have one entry per layer, layer 1 first.

    ``forward``: T_f. ``backward``: h_b. ``communication``: h_c, from `layer_communication`. ``send``: h_s.
    ``local_update``: h_loc^1, that of the first layer, since the next iteration begins after it.

    ``ValueError`` for sequences of different lengths, none at all, or a time below 0.
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


def _bound_by_computation(costs: Costs) -> bool:
    """Which case of equation 2: whether the backward computation hides all communication but layer 1's."""
    return sum(costs.backward[:-1]) > sum(costs.communication[1:])


def ssgd_time(costs: Costs) -> float:
    """Equation 2: one iteration of SSGD.

    ``T_f + T_b + h_c^1`` if the backward computation of layers 1 to L-1 takes longer than the communication
    of layers 2 to L, else ``T_f + T_c + h_b^L``.
    """
    if _bound_by_computation(costs):
        return costs.forward + costs.t_b + costs.communication[0]
    return costs.forward + costs.t_c + costs.backward[-1]


def case(costs: Costs) -> int:
    """Which case of Fig. 2 applies: 1, 2, or 3.

    2: sending alone takes longer than an iteration's computation, ``sum h_s >= T_b + T_f + h_loc^1``. 3: the
    computation of the iteration after a pull ends later than the pull, ``T_c + h_b^L <= T_f + 2 T_b +
    h_loc^1`` (the paper says so in words, below equation 4). 1: otherwise.
    """
    if costs.t_s >= costs.forward + costs.t_b + costs.local_update:
        return 2
    if costs.t_c + costs.backward[-1] <= costs.forward + 2 * costs.t_b + costs.local_update:
        return 3
    return 1


def ssd_time(costs: Costs, k: int) -> float:
    """Equation 4: the mean iteration of SSD-SGD with a delay of k steps. ``ValueError`` for k below 1.

    Case 3 is ``T_f + T_b + h_loc^1`` whatever k is. The equation assumes that a pull and the next push do not
    overlap. On a network that sends and receives at the same time they do, and measured times are shorter
    than case 2 says.
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


def gain(costs: Costs, k: int) -> float:
    """Equation 7: what k iterations of SSD-SGD save over k of SSGD, where SSGD is bound by communication.

    Case 1: ``(k-1)(T_c - T_b + h_b^L - h_loc^1) + (T_f + T_b)``. Case 2, with the sum of h_s taken for ``T_c
    / 2``: ``k T_f + (k-1)/2 T_c + (k-1) h_b^L + T_b``. (Section 2.2 has T_c above twice the sum of h_s;
    equation 7 sets them equal "for simplicity".) ``ValueError`` in case 3, which the paper does not cover,
    where SSGD is bound by computation, and for k below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k!r}")
    f, b, last = costs.forward, costs.t_b, costs.backward[-1]
    which = case(costs)
    if which == 3:
        raise ValueError("equation 7 is for cases 1 and 2; here the computation ends after the pull (case 3)")
    if _bound_by_computation(costs):
        raise ValueError(
            "equation 7 is for SSGD bound by communication; here layers 1 to L-1 compute for "
            f"{sum(costs.backward[:-1]):g} s and layers 2 to L communicate for "
            f"{sum(costs.communication[1:]):g} s"
        )
    if which == 1:
        return (k - 1) * (costs.t_c - b + last - costs.local_update) + f + b
    return k * f + (k - 1) / 2 * costs.t_c + (k - 1) * last + b
