# SPDX-License-Identifier: BSD-2-Clause
"""`DiLoCo`: training with local updates, whose differences are averaged through the codec every H steps.

Each rank takes H *inner* steps with an optimizer of its own. Then all average how far they have moved from
the *anchor*, the weights that they had in common, and move the anchor by an *outer* step: SGD with Nesterov
momentum on this mean, as on a gradient. That is DiLoCo (Douillard et al. 2023, arXiv:2311.08105, algorithm
1). Fragments that take turns, and an outer step that comes while inner steps go on, are those of Streaming
DiLoCo (Douillard et al. 2025, arXiv:2501.18512, algorithm 2).
"""

import textwrap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

import torch
import torch.distributed as dist

from ...codec import Codec
from ...codec.scaling import joined_sections
from ...collectives import MEAN
from ...collectives.agreement import agree
from ...collectives.call import Feedback
from ...collectives.error_feedback import ErrorFeedback
from ...collectives.ledger import Ledger, Statistics
from ...collectives.settings import GradientKeywords, Settings, check_names
from ...collectives.values.stream_codec import StreamCodec, check_codec
from ...system.integers import integer
from ...transport import Transport
from ...wire import CodecName
from ..hook import ALGORITHMS
from ..hook_checks import check_number, decay_of
from ..link import link_of
from ..saved_state import entries, whole
from .exchange import NAME, Exchange, Flight, begin, take_over
from .fragment import Fragment, digest_of, split, trained, untracked


def default_codec(ranks: int) -> Codec:
    """Return the codec of `DiLoCo` for some ranks: planes, bound by `ErrorFeedback.local_exponent`."""
    return Codec(2.0 ** -ErrorFeedback.local_exponent(ranks), "planes")


class DiLoCo:
    """Local updates of a model: inner steps at each rank, and an outer step of all ranks every few of them.

    ::

        diloco = DiLoCo(model, optimizer, every=16)
        for inputs, labels in batches:  # each rank's own
            optimizer.zero_grad()
            loss(model(inputs), labels).backward()
            optimizer.step()
            diloco.step()

    All ranks of a group make it together, as they make DDP. Where their weights differ, all get those of rank
    0. So load a checkpoint after this, the model's before the state of this object.

    Parameters
    ----------
    model
        A module that is whole at each rank, without DDP around it. All its trained parameters are
        synchronised, of any floating-point or complex type; frozen ones and buffers stay each rank's own.
    optimizer
        The inner optimizer, of any kind. It is the user's to step; here its parameters are checked.
    every
        Inner steps between two outer steps of a parameter (H), 1 or more.
    group
        A process group with any backend; None means the default one.
    codec, error_feedback
        As in `CompressState`, but no function of the step; the default is `default_codec`. Each fragment has
        a residual.
    fragments
        Parts of the model that take turns: an exchange has fewer bytes, and there are as many more.
    delay
        Inner steps that go on while an exchange is in flight, 0 to ``every`` - 1.
    mixing
        With a delay, the share of a rank's present weights that it keeps when the anchor arrives, 0 to 1.
    outer_lr, outer_momentum
        Rate and momentum of the outer SGD.
    settings
        ``path``, ``scale``, ``algorithm``, ``group_size``, ``legs``, ``upper`` and ``sub_block`` of
        `inceptionn.collectives.allreduce_comp`, without the algorithm "paper_baseline".

    Attributes: ``steps``, inner steps so far; ``group``. Memory on the host: three float32 copies of the
    parameters, and in an exchange two more of a fragment.

    Ranks that differ in parameters (names, types, shapes) or any setting raise `MismatchError` with the
    first difference, before data move. A wrong argument at one rank (``TypeError``, ``ValueError``) is a
    `MismatchError` at the others.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        every: int = 16,
        *,
        group: dist.ProcessGroup | None = None,
        codec: StreamCodec | CodecName | None = None,
        error_feedback: bool | float | None = None,
        fragments: int = 1,
        delay: int = 0,
        mixing: float = 0.5,
        outer_lr: float = 0.7,
        outer_momentum: float = 0.9,
        **settings: Unpack[GradientKeywords],
    ) -> None:
        self.group, self.steps, self.ledger, self._model = group, 0, Ledger(), model
        self._flights: dict[int, Flight] = {}
        try:
            self._parameters = trained(model, optimizer)
            self.every = integer("every", every, 1)
            most = min(self.every, len(self._parameters))
            count = integer("fragments", fragments, 1, most, unit=" (at most the parameters, and every)")
            self.delay = integer("delay", delay, 0, self.every - 1, unit=" steps")
            self.mixing = check_number("mixing", mixing, 1)
            self.outer_lr = check_number("outer_lr", outer_lr, 1000)
            self.outer_momentum = check_number("outer_momentum", outer_momentum, 1)
            check_names(type(self).__name__, settings, GradientKeywords.__annotations__)
            sections = () if settings.get("scale") == "tensor" else None
            self._settings = Settings(MEAN, **settings, codec=codec, sections=sections)
            self._settings.check(None, ALGORITHMS)
            parts, decay = split(self._parameters, count), decay_of(error_feedback)
            self._decay = None if error_feedback is None else decay
            self._fragments = [Fragment(f"fragment {n}", part, decay) for n, part in enumerate(parts)]
        except Exception as error:  # the other ranks wait
            self._join(error)
        else:
            for fragment in self._fragments:
                fragment.put()  # rounds float64 weights to their anchor: ranks compare anchors alone
            self._join()

    def step(self) -> bool:
        """Count an inner step, after the optimizer's; tell whether weights have changed.

        With H steps and F fragments, an exchange of fragment f (from 0) begins whenever the steps modulo H
        are H (f + 1) / F, rounded down, or 0 for the last one. The outer step follows ``delay`` steps later.

        Raises `MismatchError` at every rank, before data move, if ranks have resumed at different steps, if
        one has values that are not finite, or trains a parameter that was frozen before. Raises
        `TransportError`, such as `PeerLost`, if a rank is lost, within the group's time-out. After an error,
        anchor, momentum and residual are those before the exchange, weights as the inner steps have left
        them. The group is over after a `TransportError`: go on by `regroup`.
        """
        self.steps += 1
        landing = [n for n, flight in self._flights.items() if self.steps - flight.begun >= self.delay]
        for number in landing:
            self._land(number, self.mixing)
        begun = [n for n in range(len(self._fragments)) if self._is_due(n)]
        for number in begun:
            self._begin(number)
            if not self.delay:
                self._land(number)
        return bool(landing or begun and not self.delay)

    def synchronize(self) -> None:
        """Give all ranks the same weights now, before an evaluation or at the end. All ranks call it.

        Exchanges in flight end first. Fragments whose weights differ have an outer step. Raises as `step`,
        and `MismatchError` if ranks have taken different numbers of inner steps.
        """
        for number in list(self._flights):
            self._land(number, self.mixing)
        link, terms = link_of(self.group), {"collective": f"{NAME}, synchronize", "step": self.steps}
        link.call(lambda: agree(link.transport, terms, None, None))
        for number, fragment in enumerate(self._fragments):
            if fragment.together != self.steps:
                self._begin(number)
                self._land(number)

    def regroup(self, group: dist.ProcessGroup | None = None) -> None:
        """Go on in another group, such as one without a rank that was lost, or with a new one.

        All its ranks call this; a new rank makes its `DiLoCo` at the same time. They get anchor, momentum and
        steps of the rank that is furthest (of those, the first), and its anchor as their weights, unless all
        have the same. A rank that gets them drops its residuals. With a delay, exchanges in flight end first;
        those that have failed are dropped, and what they have had to send is in the next one.

        Raises as the constructor; nothing has changed then but the group.
        """
        for number in list(self._flights):
            with suppress(Exception):
                self._land(number, self.mixing)
        self.group = group
        self._join()

    def statistics(self) -> Statistics:
        """Return what the exchanges have cost this rank so far, by fragment and in all."""
        return self.ledger.statistics()

    def state_dict(self) -> dict[str, Any]:
        """Return steps, anchors, momenta and this rank's residuals. Every rank saves its own, with its model.

        It has only tensors, numbers and text. An exchange in flight is waited for, and its mean saved; its
        error is raised.
        """
        for flight in self._flights.values():
            flight.wait()
        arrived = {number: (each.begun, each.values) for number, each in self._flights.items()}
        parts = [each.state_dict(arrived.get(number)) for number, each in enumerate(self._fragments)]
        return {"steps": self.steps, "weights": digest_of(self._parameters.values()), "fragments": parts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a `state_dict`, to the same bits. Load the model's and the optimizer's states first.

        All ranks load; the next exchange raises `MismatchError` at all of them if their steps differ.
        ``ValueError`` for another dictionary, other fragments, or if the model does not have the weights that
        it had; nothing is changed then.
        """
        entries("the state", state, {"steps", "weights", "fragments"})
        steps = whole("steps", state["steps"])
        parts = state["fragments"]
        if not isinstance(parts, list) or len(parts) != len(self._fragments):
            raise ValueError(f"the state must have {len(self._fragments)} fragments")
        for fragment, part in zip(self._fragments, parts, strict=True):
            fragment.check(part)
        if state["weights"] != digest_of(self._parameters.values()):
            raise ValueError("the model has other weights than it had then: load the model's state first")
        for flight in self._flights.values():
            with suppress(Exception):
                flight.wait()
        self._flights.clear()
        self.steps = steps
        for number, (fragment, part) in enumerate(zip(self._fragments, parts, strict=True)):
            if (arrived := fragment.load_state_dict(part)) is not None:
                self._flights[number] = Flight(*arrived)

    def __repr__(self) -> str:
        """Return the settings and the step."""
        settings = self._settings
        codec = "default (the NICs', else by the number of ranks)"
        codec = codec if settings.codec is None else check_codec(settings.codec).name
        feedback = "with planes" if self._decay is None else self._decay or "none"
        return (
            f"<DiLoCo step {self.steps}, every {self.every}, codec {codec}, path {settings.path}, "
            f"scale {settings.scale}, {settings.algorithm}, error feedback {feedback}, "
            f"fragments {len(self._fragments)}, delay {self.delay}>"
        )

    def __str__(self) -> str:
        """Return the settings, the step and a table of the statistics."""
        return f"{textwrap.fill(repr(self), 110)}\n{self.statistics()}"

    def _is_due(self, number: int) -> bool:
        count = len(self._fragments)
        return self.steps % self.every == self.every * (number + 1) // count % self.every

    def _begin(self, number: int) -> None:
        """Begin the exchange of a fragment's difference."""
        fragment, link = self._fragments[number], link_of(self.group)
        terms = {"step": self.steps, "step, outer": fragment.outer, "fragment": number}
        values, new = fragment.difference(), untracked(self._model, self._parameters)
        exchange = Exchange(link.transport, fragment, values, self.ledger, self._how, terms, new)
        self._flights[number] = begin(exchange, link, self.steps)

    def _land(self, number: int, keep: float = 0.0) -> None:
        """Wait for a fragment's mean, move the anchor by it, and put the anchor into the weights."""
        flight, fragment = self._flights.pop(number), self._fragments[number]
        flight.wait()
        fragment.step(flight.values, self.outer_lr, self.outer_momentum)
        fragment.put(keep)
        if not keep:
            fragment.together = self.steps

    def _how(self, transport: Transport, fragment: Fragment | None = None) -> tuple[Settings, Feedback]:
        """Return settings and error feedback of a fragment's exchange, or what all have in common."""
        codec, sections = self._settings.codec, self._settings.sections
        if codec is None and (transport.nic_codec is None or self._settings.path in ("software", "off")):
            codec = default_codec(transport.size)
        if sections is not None and fragment is not None:
            sections = joined_sections(fragment.sizes)
        used = transport.nic_codec if codec is None else check_codec(codec)
        feeds_back = bool(used and used.sums_exactly) if self._decay is None else self._decay > 0
        settings = replace(self._settings, codec=codec, sections=sections)
        return settings, (fragment.feedback, 0) if feeds_back and fragment is not None else None

    def _terms(self, transport: Transport) -> dict[str, Any]:
        """Return what must be equal at all ranks. Raises for settings that do not suit their number."""
        stated: dict[str, Any] = {
            "every": self.every, "fragments": len(self._fragments), "delay": self.delay,
            "mixing": self.mixing, "outer_lr": self.outer_lr, "outer_momentum": self.outer_momentum,
            "error_feedback": self._decay,
        }  # fmt: skip
        for name, each in self._parameters.items():
            stated[f"parameter {name}"] = f"{each.dtype} {list(each.shape)}"
        return {**stated, **self._how(transport)[0].check(transport.size, ALGORITHMS).terms()}

    def _join(self, wrong: Exception | None = None) -> None:
        """Agree with all ranks of the group and give them one anchor, or raise an error at all of them."""
        link = link_of(self.group)

        def call() -> tuple[int, bool]:
            try:
                if wrong is not None:
                    raise wrong
                terms = self._terms(link.transport)
            except Exception as error:
                agree(link.transport, {"collective": NAME}, None, error)
                raise
            return take_over(link.transport, self._fragments, self.steps, terms)

        self.steps, taken = link.call(call)
        for fragment in self._fragments if taken else ():
            fragment.put()
