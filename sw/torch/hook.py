# SPDX-License-Identifier: BSD-2-Clause
"""`compress_hook`: DDP's gradients through the codec, bucket by bucket, while the backward pass goes on."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future as Result
from copy import deepcopy
from dataclasses import replace
from os import PathLike
from typing import Any, Unpack
from weakref import WeakKeyDictionary, finalize, ref

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from ..codec import Codec
from ..codec.scaling import joined_sections
from ..collectives.agreement import agree
from ..collectives.error_feedback import ErrorFeedback
from ..collectives.ledger import Ledger, Statistics
from ..collectives.settings import ALGORITHMS as ALL_ALGORITHMS
from ..collectives.settings import Algorithm, GradientKeywords, Settings, check_names
from ..collectives.values.stream_codec import StreamCodec, check_codec
from ..system.integers import integer
from ..wire import CodecName
from .bucket import BucketCall
from .hook_checks import check_call, check_size, decay_of
from .host_copy import HostCopy, future_of, lanes_of, takes
from .left_out import Known, LeftOut, has
from .link import Link, link_of
from .reporting import LOGGER, Reporter, ScalarWriter
from .residuals import PlacedResiduals, Residuals
from .saved_state import SavedState, inner_of
from .transport import group_of, rank_of, ranks_of

NAME = "compressed gradients"
"""The name in messages about ranks that differ."""

SMALLEST = 4096
"""Values of a bucket below which compression saves less than it costs."""

ALGORITHMS = tuple(name for name in ALL_ALGORITHMS if name != "paper_baseline")
"""The algorithms whose sum has a term from every rank."""

Schedule = Callable[[int], StreamCodec | CodecName | None]


_DEFAULT = "default (the NICs', else planes at 2^-10)"


class CompressState:
    """The state of `compress_hook` and of FSDP's hooks: how to compress, the step, the residuals.

    A state serves one DDP module. A module that is wrapped anew gets a new state, and `load_state_dict`.

    ::

        state = CompressState(warm_up=100)
        ddp.register_comm_hook(state, compress_hook)

    Parameters
    ----------
    process_group
        DDP's process group; None means the default one. Its store brings the ranks together at the first
        bucket.
    codec
        An `inceptionn.Codec`, its name, or another one with its methods; a function of the step (counted from
        0) that gives one, for a schedule of bounds. Default: that of the NICs where there are some, else
        ``Codec(2**-10, "planes")``, as in `allreduce_comp`.
        Assign `codec` to change it between two steps, the same at all ranks.
    error_feedback
        Add each step's compression error to the next gradient. A number sets the decay factor; 0 is False.
        The residuals take as much host memory as the gradients. None: in `compress_hook` with planes, whose
        residuals are all that compression takes from the sums. Of a spike, and of a mean that is not finite,
        nothing comes back: see `ErrorFeedback`.
    warm_up
        Steps at the beginning whose gradients travel raw, by torch's own all-reduce.
    smallest
        Buckets of fewer values travel raw.
    leave_out, module
        Patterns of the names of parameters, or of modules, that travel raw, such as ``("*.bias", "norm*")``,
        and the model whose names they are. For `compress_hook` alone. A bucket with both kinds is copied, and
        sent in two calls.
    log_every, tensorboard
        Rank 0 logs a line every ``log_every`` steps and one at the end (INFO, logger ``inceptionn.torch``).
        It writes scalars into a folder for TensorBoard, or with an object that has ``add_scalar``.
    settings
        ``path``, ``scale``, ``algorithm``, ``group_size``, ``legs``, ``upper`` and ``sub_block`` of
        `inceptionn.collectives.allreduce_comp`, without the algorithm "paper_baseline". The NICs are found
        by its probe. With scale "rms", take a bound of 2^-4 or 2^-5. With scale "tensor", for `compress_hook`
        alone, each parameter has its own. Of a bucket with more than 4,096 parameters, small neighbours share
        one.

    `statistics` tells what compression does; ``print(state)`` shows it. Attributes: ``step``, which DDP's
    last bucket advances (with FSDP and groups: call `advance`); ``compressed`` and ``raw``, calls so far.
    ``ValueError``, ``TypeError`` for wrong settings.

    ``warm_up``, ``smallest``, ``leave_out`` and the step decide what travels raw. So the ranks compare them
    before the first bucket, in each step of the warm-up, and after a change. If they differ, all raise
    `MismatchError`.

    An error of a schedule at one rank is raised at every rank.

    An error of the transport, such as `PeerLost` with the rank that is gone, is raised by the backward pass,
    as a ``RuntimeError`` that names it, at every rank.
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | None = None,
        *,
        codec: StreamCodec | CodecName | Schedule | None = None,
        error_feedback: bool | float | None = None,
        warm_up: int = 0,
        smallest: int = SMALLEST,
        leave_out: Sequence[str] = (),
        module: torch.nn.Module | None = None,
        log_every: int = 0,
        tensorboard: ScalarWriter | str | PathLike[str] | None = None,
        **settings: Unpack[GradientKeywords],
    ) -> None:
        self.process_group = process_group
        self.codec = codec
        check_names(type(self).__name__, settings, GradientKeywords.__annotations__)
        self.by_tensor = settings.get("scale") == "tensor"
        self._settings = Settings(**settings, sections=() if self.by_tensor else None)
        self._settings.check(ranks_of(process_group), ALGORITHMS)
        self.warm_up = integer("warm_up", warm_up, 0)
        self.smallest = integer("smallest", smallest, 0)
        self.step = self.compressed = self.raw = 0
        self.left_out = LeftOut(module, leave_out)
        self.ledger = Ledger()
        self._reporter = Reporter(self.ledger, log_every, tensorboard, rank_of(process_group))
        self._begin()
        self.residuals: Residuals | None = None
        self.feeds_back_by_default = error_feedback is None
        if decay := decay_of(error_feedback):
            self.residuals = Residuals(ErrorFeedback(Codec(), decay))

    def _begin(self) -> None:
        """Make what belongs to one module in one process, and is in no copy."""
        self._agreed: WeakKeyDictionary[Link, tuple[int, int, int]] = WeakKeyDictionary()
        self._parameters: Known | None = None
        """The module's after its first step; `_first` until then."""
        self._first: Known = {}
        if not self._reporter.idle:
            finalize(self, self._reporter.end)  # at the program's end, too

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the process group, connections and a writer of scalars, for pickle and copies.

        A copy has the default group, unless its ``process_group`` is set, and serves a module wrapped anew.
        """
        if self.process_group is not None:
            LOGGER.warning("a copy of %r has the default process group; set its process_group", self)
        dropped = {"process_group": None, "_agreed": None, "_parameters": None, "_first": None}
        return {**vars(self), **dropped}

    def __copy__(self) -> "CompressState":
        shared = [self._codec, *self.left_out.parameters()]
        return deepcopy(self, {id(each): each for each in shared})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    @property
    def codec(self) -> StreamCodec | None:
        """The codec of the present step."""
        if self._schedule is None:
            return self._codec
        codec = self._schedule(self.step)
        return None if codec is None else check_codec(codec)

    @codec.setter
    def codec(self, codec: StreamCodec | CodecName | Schedule | None) -> None:
        """Use another codec or schedule from here on, the same at all ranks."""
        self._codec: StreamCodec | None = None
        self._schedule: Schedule | None = None
        self._assigned = hasattr(self, "step")
        if codec is not None and not hasattr(codec, "compress") and not isinstance(codec, str):
            if not callable(codec):
                raise TypeError(f"codec must be a codec or a function of the step, not {codec!r}")
            self._schedule = codec
        else:
            self._codec = None if codec is None else check_codec(codec)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of all steps' collectives."""
        return self._settings.algorithm

    @property
    def settings(self) -> Settings:
        """The settings of the present step's collectives."""
        return replace(self._settings, codec=self.codec)

    def advance(self) -> None:
        """End a step: for FSDP and compressed groups, which cannot know when a step ends."""
        self._count_step()
        if isinstance(self.residuals, PlacedResiduals):
            self.residuals.begin_step()
        self._report(self.step)

    def _count_step(self) -> None:
        self.ledger.raw_steps += self.step < self.warm_up
        self.step += 1

    def _report(self, step: int) -> None:
        if not self._reporter.idle:
            self._reporter.step(step, group_of(self.process_group).rank())

    def _report_in_turn(self, step: int) -> None:
        """Report after the compressed buckets that still wait for the connections; the step waits for all."""
        link_of(self.process_group).call(lambda: self._report(step))

    def statistics(self) -> Statistics:
        """Return what the gradients of this state have cost this rank so far, by bucket and in all."""
        return self.ledger.statistics()

    def reset_residuals(self) -> None:
        """Forget what error feedback has kept, between two steps and best at all ranks.

        For a step that was not applied, and for weights from elsewhere. It needs no other rank, and does
        nothing without error feedback.
        """
        if self.residuals is not None:
            self.residuals.reset()

    def __repr__(self) -> str:
        """Return the settings and the step."""
        codec = "a schedule" if self._schedule else _DEFAULT if self._codec is None else self._codec.name
        settings = self._settings
        feedback = "no error feedback" if self.residuals is None else "error feedback"
        text = (
            f"<CompressState step {self.step}, codec {codec}, path {settings.path}, scale {settings.scale}, "
        )
        text += f"{settings.algorithm}, {feedback}, warm_up {self.warm_up}, smallest {self.smallest}"
        return text + (f", leave_out {', '.join(self.left_out.patterns)}>" if self.left_out.names else ">")

    def __str__(self) -> str:
        """Return the settings, the step and a table of the statistics."""
        return f"{textwrap.fill(repr(self), 110)}\n{self.statistics()}"

    def agree(self, group: dist.ProcessGroup | None, error: Exception | None = None) -> None:
        """Check once with all ranks of a group that they send the same gradients raw.

        Raises `MismatchError` at every rank if they differ, or if another rank has an ``error``. This rank
        raises its own. If the others need no comparison, it takes the place of their next agreement.
        """
        link = link_of(group)
        now = min(self.step, self.warm_up), self.warm_up, self.smallest
        if error is None and self._agreed.get(link) == now:
            return
        terms = {
            "step": self.step, "warm_up": self.warm_up, "smallest": self.smallest,
            "leave_out": self.left_out.patterns, "parameters left out": self.left_out.names,
        }  # fmt: skip
        link.call(lambda: agree(link.transport, {"collective": NAME, **terms}, None, error))
        self._agreed[link] = now

    def chosen(
        self,
        tensor: torch.Tensor,
        group: dist.ProcessGroup | None,
        legs: int = 2,
        error: Exception | None = None,
        *,
        name: str | None = None,
        values: int | None = None,
    ) -> Settings | None:
        """Return the settings that compress a gradient, after `agree`; None if torch sends it unchanged.

        Count the call. ``legs`` of a ring that the gradient passes: 2 for an all-reduce, 1 for a
        reduce-scatter. ``name`` is that of the part in the statistics. ``values``: how many are not left out,
        if not all. Raises the schedule's error, or the one given, at once. The other ranks raise
        `MismatchError` here or in the collective that follows.
        """
        settings = None
        try:
            if not self._is_raw(tensor, values):
                settings = self.settings
        except Exception as problem:  # the schedule's
            error = error or problem
        self.agree(group, error)
        if settings is None:
            self._count_raw(tensor, group, legs, name)
        else:
            self.compressed += 1
        return settings

    def _count_raw(
        self, tensor: torch.Tensor, group: dist.ProcessGroup | None, legs: int, name: str | None
    ) -> None:
        self.raw += 1
        ranks = group_of(group).size()
        values = lanes_of(tensor)
        if tensor.layout is torch.sparse_coo:  # all ranks' values and places go to all ranks
            size = (ranks - 1) * (tensor._values().nbytes + tensor._indices().nbytes)
        else:
            size = legs * (ranks - 1) * tensor.numel() * tensor.element_size() // ranks
        self.ledger.add_torch(name or f"{values} values", values, size)

    def _is_raw(self, tensor: torch.Tensor, values: int | None = None) -> bool:
        values = lanes_of(tensor) if values is None else values
        return self.step < self.warm_up or values < max(1, self.smallest) or not takes(tensor)

    def mean(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Return the mean of all ranks' gradients of a bucket, in its memory; see `compress_hook`."""
        buffer, parameters, last = bucket.buffer(), bucket.parameters(), bucket.is_last()
        kept, left = self.left_out.split(parameters)
        label = f"bucket {bucket.index()}, {lanes_of(buffer)} values"
        wrong: ValueError | None = None
        try:
            check_size(bucket)
            self._check_module(parameters, last)
        except ValueError as error:
            wrong = error
        try:
            settings = self.chosen(buffer, self.process_group, 2, wrong, name=label, values=kept.count)
        except Exception as error:
            refused: Result[None] = Result()
            refused.set_exception(error)
            return future_of(refused, [], lambda: buffer)
        residuals = self.residuals
        layout = None if residuals is None else (residuals, residuals.layout(parameters, kept.parameters))
        if last:
            self._count_step()
        step = self.step
        if settings is None:
            sent = allreduce_hook(self.process_group, bucket)
            if last and not self._reporter.idle:
                self._report_in_turn(step)
            return sent
        if self.by_tensor:
            settings = replace(settings, sections=joined_sections(list(map(lanes_of, kept.parameters))))
        link, copy = link_of(self.process_group), HostCopy(buffer)
        feeds_back = layout is not None and self._feeds_back(settings, link)
        call = BucketCall(
            link.transport, copy, kept, left, settings, layout if feeds_back else None, self.ledger, label,
            lambda: self._report(step) if last else None,
        )  # fmt: skip
        result = link.submit(call.run)
        if last and copy.device is None:
            link.run_until(result)  # the backward pass is over
        return future_of(result, [copy], lambda: buffer)

    def _feeds_back(self, settings: Settings, link: Link) -> bool:
        """Tell whether a call of these settings has error feedback, by default or as wanted."""
        codec = None if settings.codec is None else check_codec(settings.codec)
        used = codec or link.transport.nic_codec  # None: planes
        return used is None or used.sums_exactly or not self.feeds_back_by_default

    def _check_module(self, parameters: list[torch.Tensor], last: bool) -> None:
        """Raise ``ValueError`` if a bucket has a parameter that the first step's buckets did not have."""
        if self._parameters is None:
            self._first |= {id(parameter): ref(parameter) for parameter in parameters}
            if last:
                # Anew, so that no rank sends the step's last bucket where another one finds an error.
                self._agreed.pop(link_of(self.process_group), None)
                self.left_out.check(self._first)
                if self.residuals is not None:
                    self.residuals.check(len(self._first))
                self._parameters = self._first
            return
        for parameter in parameters:
            if not has(self._parameters, parameter):
                raise ValueError(
                    f"this CompressState serves another module, whose step is {self.step}: a DDP module "
                    "needs a state of its own"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return the step (and with it warm-up and schedule), this rank's residuals and an assigned codec.

        It has only tensors, numbers and text. Residuals, and the usual scales by which spikes are known, are
        this rank's own, so every rank saves its own.
        """
        assigned: Any = self._codec if self._assigned and isinstance(inner_of(self._codec), Codec) else None
        if self.residuals is None:
            return SavedState(self.step, 0, {}, {}, assigned).as_dict()
        kept, scales = self.residuals.by_parameter(), self.residuals.scales()
        return SavedState(self.step, self.residuals.count, kept, scales, assigned).as_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a `state_dict`, before the first step of a newly wrapped module.

        ``ValueError`` for another dictionary, for residuals where ``error_feedback`` is off, or for a
        residual of another size than its parameter; nothing is changed. Before the first step the parameters
        are not known. Then the first compressed bucket raises it, at every rank.
        """
        saved = SavedState.read(state)
        if saved.residuals and self.residuals is None:
            raise ValueError("the state has residuals, but error_feedback is off")
        if self.residuals is not None:
            self.residuals.load(saved.residuals, saved.scales, saved.parameters)
        if saved.codec is not None:
            self.codec = saved.codec
        self.step = saved.step


def compress_hook(
    state: CompressState, bucket: dist.GradBucket, *outputs: Any
) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket's gradients, compressed, as DDP's communication hook; same bits at all ranks.

    It returns at once; a thread of the process group compresses, sends and sums one bucket after the other
    while the backward pass makes the next ones. Works on buckets of any floating-point type, and inside
    torch's ``fp16_compress_wrapper`` and ``bf16_compress_wrapper``. Sparse gradients travel raw.

    Raises ``TypeError`` for another state, and if it is FSDP's hook.
    """
    check_call(compress_hook, CompressState, state, bucket)
    return state.mean(bucket)
