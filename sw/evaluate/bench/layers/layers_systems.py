# SPDX-License-Identifier: BSD-2-Clause
"""The training systems that ``inceptionn bench layers`` compares, with one small interface."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from .... import DEFAULT_CODEC, Codec, CodecName
from ....collectives import MEAN, allreduce_comp
from ....layers.parameter_server import MomentumSGD, ParameterServer, Partition, Worker
from ....layers.ssd_sgd import SSDSGD
from ....layers.traffic import Traffic
from ....transport import Transport
from ...training import Batch, Floats, Gradients, Model, Parameters, flatten, unflatten


class Job(NamedTuple):
    """What all systems share; ``bound``: of the codec, to whose range gradients are scaled."""

    transport: Transport
    model: Model
    rate: float
    momentum: float
    seed: int
    steps: int
    bound: float
    warm_up: int = 0
    """Steps of SSGD at the beginning of SSD-SGD."""


class Run(NamedTuple):
    """One training, at one rank. Every rank makes one and calls the same functions.

    ``step``: run one step with this rank's samples. ``parameters``: return the weights learnt so far, at
    every rank. ``close``: end it; the transport can be used again.
    """

    traffic: Traffic
    step: Callable[[Batch], object]
    parameters: Callable[[], Parameters]
    close: Callable[[], None]


def _group(job: Job, **settings: Any) -> tuple[ParameterServer, Worker]:
    """Make a parameter server, every rank worker and server."""
    rate = job.rate / job.transport.size if settings.get("mode") == "async" else job.rate
    rule = MomentumSGD(rate, job.momentum)
    group = ParameterServer(job.transport, job.model.initial(job.seed), rule, **settings)
    assert group.worker is not None
    return group, group.worker


def _servers(job: Job, **settings: Any) -> Run:
    group, worker = _group(job, **settings)
    weights = worker.pull()

    def step(batch: Batch) -> None:
        nonlocal weights
        worker.push(job.model.gradients(weights, batch))
        weights = worker.pull()

    return Run(group.traffic, step, lambda: weights, group.close)


def _ssd(job: Job, k: int, **settings: Any) -> Run:
    group, worker = _group(job, **settings)
    trainer = SSDSGD(worker, k, job.warm_up, job.rate)

    def step(batch: Batch) -> None:
        trainer.step(job.model.gradients(trainer.weights, batch))

    def close() -> None:
        trainer.finish()
        group.close()

    return Run(group.traffic, step, worker.pull, close)


def _replicated(job: Job, traffic: Traffic, mean: Callable[[Gradients], Floats]) -> Run:
    """Keep all weights at every rank, which applies the mean that ``mean`` makes of all ranks' gradients."""
    initial = job.model.initial(job.seed)
    vector = flatten(initial)
    weights = unflatten(vector, initial)
    rule, whole = MomentumSGD(job.rate, job.momentum), Partition(0, "", 0, 0, vector.size)

    def step(batch: Batch) -> None:
        rule.update(whole, vector, mean(job.model.gradients(weights, batch)), step=0)

    return Run(traffic, step, lambda: weights, job.transport.barrier)


def _ring(job: Job, codec: CodecName | None) -> Run:
    """All-reduce gradients by ring (INCEPTIONN's Algorithm 1)."""
    transport, traffic, settings = job.transport, Traffic(), _codec(job, codec) or {"path": "off"}

    def mean(gradients: Gradients) -> Floats:
        own, before = flatten(gradients), transport.bytes_sent
        allreduce_comp(transport, None, own, MEAN, **settings)
        raw = 2 * own.nbytes * (transport.size - 1) // transport.size
        traffic.count("gradients", transport.bytes_sent - before, raw)
        return own

    return _replicated(job, traffic, mean)


def _gradiveq(job: Job, codec: CodecName | None) -> Run:
    """Compress convolutions by PCA; phases are a tenth and a third of the paper's length."""
    used = {name: Codec(job.bound, codec, threads=1) for name in ("codec", "rest_codec") if codec}
    exchange = import_module("inceptionn.layers.gradiveq").GradiVeQ(
        job.transport, job.model.initial(job.seed), warm_up=10, sampling=30, compressed=120, **used
    )
    return _replicated(job, exchange.traffic, lambda gradients: flatten(exchange.all_reduce(gradients)))


def _parallax(job: Job) -> Run:
    parallax = import_module("inceptionn.layers.parallax")
    rule = partial(parallax.MomentumSGD, job.rate, job.momentum)
    runner = parallax.get_runner(job.model, job.transport, rule)
    return Run(runner.traffic, runner.run, runner.gathered, job.transport.barrier)


def _adt(job: Job) -> Any:
    """Make AWP with its paper's increment, and a threshold and interval for a short run.

    Norms only grow here, as there is no weight decay: below a negative threshold, like the paper's, no layer
    would ever get more than its first byte.
    """
    a2dtwp = import_module("inceptionn.layers.a2dtwp")
    keys = a2dtwp.weight_keys(job.model.initial(job.seed))
    return a2dtwp.AdtEncoding(a2dtwp.AWP(keys, threshold=1e-3, interval=max(1, job.steps // 8)))


def _codec(job: Job, codec: CodecName | None) -> dict[str, Any]:
    return {"codec": Codec(job.bound, codec, threads=1), "path": "software", "scale": "auto"} if codec else {}


@dataclass(frozen=True)
class System:
    """``title`` for tables; ``make``: makes a `Run` of a job and a codec or None.

    ``warm_up``: steps until traffic and time are steady; ``cycle``: steps after which they repeat. ``forms``:
    the ends of the names that it has.
    """

    title: str
    make: Callable[[Job, CodecName | None], Run]
    forms: tuple[str, ...] = ("", "+codec", "+planes")
    warm_up: int = 2
    cycle: int = 1
    adaptive: bool = False
    """True if its traffic changes during a training: then the mean over the whole training counts."""
    codec: CodecName | None = None

    def open(self, job: Job) -> Run:
        """Begin a training."""
        return self.make(job, self.codec)


FORMS: dict[str, tuple[CodecName | None, str]] = {
    "": (None, ""), "+codec": (DEFAULT_CODEC, ", codec"), "+planes": ("planes", ", planes"),
}  # fmt: skip


def ssd(k: int) -> System:
    """Make SSD-SGD with a delay of k."""
    return System(f"SSD-SGD, k = {k}", lambda job, c: _ssd(job, k, **_codec(job, c)), warm_up=k, cycle=k)


_KINDS = {
    "ssgd": System("PS, SSGD", lambda job, c: _servers(job, **_codec(job, c))),
    "asgd": System("PS, ASGD", lambda job, c: _servers(job, mode="async"), ("",)),
    "ssd": ssd(5),
    "a2dtwp": System(
        "A2DTWP, PS", lambda job, c: _servers(job, encoding=_adt(job), **_codec(job, c)),
        ("", "+codec"), adaptive=True,
    ),
    "parallax": System("Parallax", lambda job, c: _parallax(job), ("",), 12),
    "gradiveq": System("GradiVeQ", _gradiveq, warm_up=42, adaptive=True),
    "ring": System("ring", _ring),
}  # fmt: skip
SYSTEMS = {
    name + form: replace(kind, title=kind.title + FORMS[form][1], codec=FORMS[form][0])
    for name, kind in _KINDS.items()
    for form in kind.forms
}
"""By name; a further one needs a `Run` and a line above. GradiVeQ is timed in a compressed phase."""
CONVOLUTIONS = ("gradiveq", "gradiveq+codec", "gradiveq+planes")
"""Systems for models with convolutions."""
