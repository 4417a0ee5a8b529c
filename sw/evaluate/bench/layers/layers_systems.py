# SPDX-License-Identifier: BSD-2-Clause
"""The training systems that ``inceptionn bench layers`` compares, with one small interface."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from .... import DEFAULT_CODEC, Codec, CodecName
from ....collectives import MEAN, allreduce_comp
from ....layers.parameter_server import MomentumSGD, ParameterServer, Partition
from ....layers.ssd_sgd import SSDSGD
from ....layers.traffic import Traffic
from ....transport import Transport
from ...training import Batch, Floats, Model, Parameters, flatten, unflatten


class Job(NamedTuple):
    """The settings that all systems share; ``bound``: of the codec, to whose range gradients are scaled."""

    rate: float
    momentum: float
    seed: int
    steps: int
    bound: float
    warm_up: int = 0
    """Steps of SSGD at the beginning of SSD-SGD."""


class Run(ABC):
    """One training, at one rank. Every rank makes one and calls the same methods."""

    transport: Transport
    traffic: Traffic

    @abstractmethod
    def step(self, batch: Batch) -> None:
        """Run one step with this rank's samples."""

    @abstractmethod
    def parameters(self) -> Parameters:
        """Return the weights learnt so far, at every rank."""

    def close(self) -> None:
        """End it; the transport can be used again."""
        self.transport.barrier()


class _Group(Run):
    """Parameter server, every rank worker and server."""

    def __init__(self, transport: Transport, model: Model, job: Job, **settings: Any) -> None:
        rate = job.rate / transport.size if settings.get("mode") == "async" else job.rate
        rule = MomentumSGD(rate, job.momentum)
        self.model = model
        self.group = ParameterServer(transport, model.initial(job.seed), rule, **settings)
        assert self.group.worker is not None
        self.worker, self.traffic = self.group.worker, self.group.traffic

    def parameters(self) -> Parameters:
        return self.worker.pull()

    def close(self) -> None:
        self.group.close()


class _Servers(_Group):
    def __init__(self, transport: Transport, model: Model, job: Job, **settings: Any) -> None:
        super().__init__(transport, model, job, **settings)
        self.weights = self.worker.pull()

    def step(self, batch: Batch) -> None:
        self.worker.push(self.model.gradients(self.weights, batch))
        self.weights = self.worker.pull()

    def parameters(self) -> Parameters:
        return self.weights


class _SSD(_Group):
    def __init__(self, transport: Transport, model: Model, job: Job, k: int, **settings: Any) -> None:
        super().__init__(transport, model, job, **settings)
        self.trainer = SSDSGD(self.worker, k, job.warm_up, job.rate)

    def step(self, batch: Batch) -> None:
        self.trainer.step(self.model.gradients(self.trainer.weights, batch))

    def close(self) -> None:
        self.trainer.finish()
        super().close()


class _AllReduce(Run):
    """Every rank keeps all weights; gradients by ring (INCEPTIONN's Algorithm 1)."""

    def __init__(self, transport: Transport, model: Model, job: Job, **settings: Any) -> None:
        self.transport, self.model, self.settings = transport, model, settings
        self.traffic = Traffic()
        initial = model.initial(job.seed)
        self.vector = flatten(initial)
        self.rule = MomentumSGD(job.rate, job.momentum)
        self.weights = unflatten(self.vector, initial)

    def step(self, batch: Batch) -> None:
        own = flatten(self.model.gradients(self.weights, batch))
        before = self.transport.bytes_sent
        allreduce_comp(self.transport, None, own, MEAN, **self.settings)
        raw = 2 * own.nbytes * (self.transport.size - 1) // self.transport.size
        self.traffic.count("gradients", self.transport.bytes_sent - before, raw)
        self.apply(own)

    def apply(self, mean: Floats) -> None:
        """Update the weights."""
        self.rule.update(Partition(0, "", 0, 0, mean.size), self.vector, mean, step=0)

    def parameters(self) -> Parameters:
        return self.weights


class _GradiVeQ(_AllReduce):
    """The same with the convolutions compressed by PCA; phases a tenth and a third of the paper's length."""

    def __init__(self, transport: Transport, model: Model, job: Job, codec: CodecName | None) -> None:
        super().__init__(transport, model, job)
        used = {name: Codec(job.bound, codec, threads=1) for name in ("codec", "rest_codec") if codec}
        self.exchange = import_module("inceptionn.layers.gradiveq").GradiVeQ(
            transport, self.weights, warm_up=10, sampling=30, compressed=120, **used
        )
        self.traffic = self.exchange.traffic

    def step(self, batch: Batch) -> None:
        self.apply(flatten(self.exchange.all_reduce(self.model.gradients(self.weights, batch))))


class _Parallax(Run):
    def __init__(self, transport: Transport, model: Model, job: Job) -> None:
        parallax = import_module("inceptionn.layers.parallax")
        rule = partial(parallax.MomentumSGD, job.rate, job.momentum)
        self.transport, self.runner = transport, parallax.get_runner(model, transport, rule)
        self.traffic = self.runner.traffic

    def step(self, batch: Batch) -> None:
        self.runner.run(batch)

    def parameters(self) -> Parameters:
        found: Parameters = self.runner.gathered()
        return found


def _adt(model: Model, job: Job) -> Any:
    """Make AWP with its paper's increment, and a threshold and interval for a short run.

    Norms only grow here, as there is no weight decay: below a negative threshold, like the paper's, no layer
    would ever get more than its first byte.
    """
    a2dtwp = import_module("inceptionn.layers.a2dtwp")
    keys = a2dtwp.weight_keys(model.initial(job.seed))
    return a2dtwp.AdtEncoding(a2dtwp.AWP(keys, threshold=1e-3, interval=max(1, job.steps // 8)))


def _codec(job: Job, codec: CodecName | None) -> dict[str, Any]:
    return {"codec": Codec(job.bound, codec, threads=1), "path": "software", "scale": "auto"} if codec else {}


@dataclass(frozen=True)
class System:
    """``title`` for tables; ``make``: makes a `Run` of a transport, a model, a job and a codec or None.

    ``warm_up``: steps until traffic and time are steady; ``cycle``: steps after which they repeat. ``forms``:
    the ends of the names that it has.
    """

    title: str
    make: Callable[[Transport, Model, Job, CodecName | None], Run]
    forms: tuple[str, ...] = ("", "+codec", "+planes")
    warm_up: int = 2
    cycle: int = 1
    adaptive: bool = False
    """True if its traffic changes during a training: then the mean over the whole training counts."""
    codec: CodecName | None = None

    def open(self, transport: Transport, model: Model, job: Job) -> Run:
        """Begin a training."""
        return self.make(transport, model, job, self.codec)

    def coded(self, form: str) -> "System":
        """Return the system in one of the forms."""
        codec, text = FORMS[form]
        return replace(self, title=self.title + text, codec=codec)


FORMS: dict[str, tuple[CodecName | None, str]] = {
    "": (None, ""), "+codec": (DEFAULT_CODEC, ", codec"), "+planes": ("planes", ", planes"),
}  # fmt: skip


def ssd(k: int) -> System:
    """Make SSD-SGD with a delay of k."""
    return System(
        f"SSD-SGD, k = {k}", lambda t, m, j, c: _SSD(t, m, j, k, **_codec(j, c)), warm_up=k, cycle=k
    )


_KINDS = {
    "ssgd": System("PS, SSGD", lambda t, m, j, c: _Servers(t, m, j, **_codec(j, c))),
    "asgd": System("PS, ASGD", lambda t, m, j, c: _Servers(t, m, j, mode="async"), ("",)),
    "ssd": ssd(5),
    "a2dtwp": System(
        "A2DTWP, PS", lambda t, m, j, c: _Servers(t, m, j, encoding=_adt(m, j), **_codec(j, c)),
        ("", "+codec"), adaptive=True,
    ),
    "parallax": System("Parallax", lambda t, m, j, c: _Parallax(t, m, j), ("",), 12),
    "gradiveq": System("GradiVeQ", _GradiVeQ, warm_up=42, adaptive=True),
    "ring": System("ring", lambda t, m, j, c: _AllReduce(t, m, j, **(_codec(j, c) or {"path": "off"}))),
}  # fmt: skip
SYSTEMS = {name + form: kind.coded(form) for name, kind in _KINDS.items() for form in kind.forms}
"""By name; a further one needs a `Run` and a line above. GradiVeQ is timed in a compressed phase."""
CONVOLUTIONS = ("gradiveq", "gradiveq+codec", "gradiveq+planes")
"""Systems for models with convolutions."""
