# SPDX-License-Identifier: BSD-2-Clause
"""What `DiLoCo` sends: the mean of a fragment's differences, and anchors to ranks that join a group.

Both run in the thread of the process group's connections.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future as Result
from dataclasses import dataclass
from typing import Any

import torch

from ...collectives import MismatchError, bcast_comp
from ...collectives.agreement import MOST, agree, is_whole
from ...collectives.allreduce import all_reduce
from ...collectives.call import Feedback
from ...collectives.ledger import Ledger, counted
from ...collectives.requests import plan
from ...collectives.settings import Settings
from ...collectives.values.finite import all_finite
from ...transport import Transport
from ..link import Link
from .fragment import Fragment

NAME = "local updates"
"""The name in messages about ranks that differ."""


@dataclass(frozen=True)
class Exchange:
    """The mean over all ranks of a fragment's differences, in their memory; all ranks have it, or none.

    ``how`` gives settings and error feedback of the call. ``terms`` must be equal at all ranks.
    ``untracked`` has names of parameters that are trained and in no fragment.

    The all-reduce is complete at a rank before it is at another one. So all confirm it, and a rank that is
    lost before that leaves the others with the residual and the usual scales that they had.
    """

    transport: Transport
    fragment: Fragment
    values: torch.Tensor
    ledger: Ledger
    how: Callable[[Transport, Fragment], tuple[Settings, Feedback]]
    terms: dict[str, Any]
    untracked: Sequence[str]

    def run(self) -> None:
        """Replace the values by their mean.

        Raises ``ValueError`` for values that are not finite and for ``untracked`` parameters, the errors of
        `allreduce_comp`, and `MismatchError` at the other ranks.
        """
        fragment, values = self.fragment, self.values.numpy()
        try:
            if self.untracked:
                raise ValueError(f"{self.untracked[0]} is trained now and was not before: make a new DiLoCo")
            if not all_finite(values):
                raise ValueError(f"{fragment.label}: weights or their changes are not finite")
            settings, feedback = self.how(self.transport, fragment)
            before = fragment.kept()
        except Exception as error:  # the other ranks wait for the agreement
            agree(self.transport, {"collective": NAME}, None, error)
            raise
        try:
            with counted(self.transport, self.ledger, fragment.label):
                plan(self.transport, None, all_reduce, None, values, settings, feedback, self.terms).run()
            agree(self.transport, {"collective": f"{NAME}, complete"}, None, None)
        except BaseException:
            fragment.restore(before)
            raise


@dataclass(frozen=True)
class Flight:
    """An exchange in flight: the inner step at which it began, its values and its end.

    ``values`` become their mean. Without a link they are the mean already.
    """

    begun: int
    values: torch.Tensor
    link: Link | None = None
    result: Result[None] | None = None

    def wait(self) -> None:
        """Wait for the end, or raise the exchange's error."""
        if self.link is not None and self.result is not None:
            self.link.run_until(self.result)
            self.result.result()


def begin(exchange: Exchange, link: Link, step: int) -> Flight:
    """Hand an exchange to the connections' thread. Raises `TransportError` if they are closed."""
    return Flight(step, exchange.values, link, link.submit(exchange.run))


def take_over(
    transport: Transport, fragments: Sequence[Fragment], steps: int, terms: dict[str, Any]
) -> tuple[int, bool]:
    """Give all ranks the anchors and momenta of the furthest one, where any differ.

    Return the inner steps of that rank, and whether this rank has other anchors now. Then its residuals are
    dropped. The furthest has most outer steps, then most inner steps, then the lowest number. Raises
    `MismatchError` if ``terms`` differ, and changes nothing in case of an error.
    """
    outer, together = [each.outer for each in fragments], [each.together for each in fragments]
    mine = [steps, outer, together, [each.digest() for each in fragments]]
    found = agree(transport, {"collective": NAME, **terms}, mine, None, _is_place)
    for rank, each in enumerate(found):
        if {len(part) for part in each[1:]} != {len(fragments)}:
            raise MismatchError(f"rank {rank} sent a malformed agreement")
    furthest = max(range(len(found)), key=lambda rank: (sum(found[rank][1]), found[rank][0], -rank))
    if all(each == mine for each in found):
        return steps, False
    arrays = [(each.anchor.clone(), each.momentum.clone()) for each in fragments]
    for array in (one for pair in arrays for one in pair):
        bcast_comp(transport, array.numpy(), furthest, path="off")
    theirs = found[furthest]
    if theirs == mine:
        return steps, False
    for number, fragment in enumerate(fragments):
        fragment.anchor, fragment.momentum = arrays[number]
        fragment.outer, fragment.together = theirs[1][number], theirs[2][number]
        fragment.feedback.reset()
    return theirs[0], True


def _is_place(value: Any) -> bool:
    """Tell whether a rank's message is its inner steps, and by fragment two counts and a digest."""
    match value:
        case [steps, list(outer), list(together), list(digests)]:
            whole = all(is_whole(each, range(MOST)) for each in (steps, *outer, *together))
            return whole and all(isinstance(each, str) for each in digests)
    return False
