# SPDX-License-Identifier: BSD-2-Clause
"""A training step with and without compression, or local updates, and whether the difference is worth it."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from ...collectives import default_group_size, one_step_is_faster
from .costs import Form, Host, Link
from .exchange import (
    Exchange,
    agreement,
    hierarchical,
    one_step,
    parameter_server,
    ring,
    worker_aggregator,
)

Dtype = Literal["float32", "bfloat16"]
"""Type of the gradients' values as they are exchanged."""
Topology = Literal["ring", "hierarchical", "worker-aggregator", "parameter-server"]
TOPOLOGIES: tuple[Topology, ...] = get_args(Topology)
RING_RAW, RING_BF16 = "ring raw", "ring bf16"

WORTH, LITTLE = 1.10, 1.02
"""Speed-ups of a step from which on compression pays, or pays a little."""


@dataclass(frozen=True)
class Scenario:
    """A training system. Sizes in bytes, times in seconds, rates in bits per second.

    ``size``: of the gradient as it is exchanged, so 2 bytes per value where ``gradients`` is "bfloat16".
    ``compute``: a step without the exchange. ``overlap``: the share of ``compute`` during which exchanges can
    run. ``buckets``: exchanges per step. ``form``: what compresses; `predict` sets the rest of it.
    ``down``: whether the way from aggregator or servers is compressed too (weights are not in the paper).
    ``oversubscription``: how many times less bandwidth a host has across groups (hierarchical).
    ``local_steps``: steps of every host between two exchanges, which are then of the weights' differences
    (DiLoCo); 1 for gradients in every step. ``overlap`` is then of all these steps.

    Raises ``ValueError`` for impossible values, with the value.
    """

    size: float
    compute: float
    nodes: int
    link: Link
    form: Form
    topology: Topology = "ring"
    host: Host = field(default_factory=Host)
    gradients: Dtype = "float32"
    buckets: int = 1
    overlap: float = 0.0
    group: int | None = None
    oversubscription: float = 1.0
    down: bool = False
    local_steps: int = 1

    def __post_init__(self) -> None:
        ratio = self.form.ratio(1)
        rules = (
            ("size", self.size, 4 <= self.size <= 1e14, "4 B to 100 TB"),
            ("step time", self.compute, 0 <= self.compute <= 1e5, "0 to 100000 s"),
            ("nodes", self.nodes, 2 <= self.nodes <= 1_000_000, "2 to 1000000"),
            ("bandwidth", self.link.bandwidth, 1e3 <= self.link.bandwidth <= 1e14, "1 kbit/s to 100 Tbit/s"),
            ("latency", self.link.latency, 0 <= self.link.latency <= 60, "0 to 60 s"),
            ("buckets", self.buckets, 1 <= self.buckets <= 1_000_000, "1 to 1000000"),
            ("overlap", self.overlap, 0 <= self.overlap <= 1, "0 to 1"),
            ("oversubscription", self.oversubscription, self.oversubscription >= 1, "at least 1"),
            ("group", self.group, self.group is None or 1 <= self.group <= self.nodes, f"1 to {self.nodes}"),
            ("local steps", self.local_steps, 1 <= self.local_steps <= 1_000_000, "1 to 1000000"),
            ("MTU", self.link.mtu, 576 <= self.link.mtu <= 9216, "576 to 9216"),
            ("topology", self.topology, self.topology in TOPOLOGIES, f"one of {', '.join(TOPOLOGIES)}"),
            ("ratio", ratio, ratio >= 0.5, "at least 0.5"),
        )
        for name, value, right, rule in rules:
            if not right or (isinstance(value, float) and not math.isfinite(value)):
                raise ValueError(f"{name} must be {rule}, not {value!r}")

    @property
    def returns_raw(self) -> bool:
        """True if aggregator or servers send their result raw."""
        return self.topology in ("worker-aggregator", "parameter-server") and not self.down

    @property
    def ratios(self) -> tuple[float, float]:
        """The ratios of a gradient and of the result, 1 where sent raw, over the gradients' own bytes."""
        ratio = self.form.of_bf16.ratio if self.gradients == "bfloat16" else self.form.ratio
        return ratio(1), 1.0 if self.returns_raw else ratio(self.nodes)

    @property
    def coded(self) -> tuple[float, Form]:
        """The bytes of the values that the codec takes, and their form: fp32 but for lanes of bf16."""
        if self.gradients == "bfloat16" and self.form.bf16_lanes:
            return 2 * self.values, self.form.of_bf16
        return 4 * self.values, self.form

    @property
    def values(self) -> float:
        """Gradient values."""
        return self.size / (2 if self.gradients == "bfloat16" else 4)

    @property
    def groups_of(self) -> int:
        """Ranks in a group of the hierarchy."""
        return self.group or default_group_size(self.nodes)


class Option(NamedTuple):
    """One way to exchange, and seconds of a step with its share of the exchange, if that is not in each."""

    name: str
    exchange: Exchange
    step: float


@dataclass(frozen=True)
class Prediction:
    """Step times with compression and of the ways it competes with, and the verdict.

    ``raw``, ``bf16``: rings of the gradients as they are, and in bf16. ``plain``, ``plain_bf16``: the
    scenario's own topology without the codec, so that the codec is not credited with what the topology gains.
    """

    scenario: Scenario
    raw: Option
    bf16: Option
    plain: Option
    plain_bf16: Option
    compressed: Option

    @property
    def options(self) -> list[Option]:
        """All of them, each once, the compressed one last."""
        every = (self.raw, self.bf16, self.plain, self.plain_bf16, self.compressed)
        return list({option.name: option for option in every}.values())

    @property
    def fastest(self) -> Option:
        """The fastest without the codec."""
        return min(self.options[:-1], key=lambda option: option.step)

    @property
    def over_raw(self) -> float:
        """Times as fast as a ring of the gradients as they are, whole step."""
        return self.raw.step / self.compressed.step

    @property
    def over_bf16(self) -> float:
        """Times as fast as a ring in bf16, whole step."""
        return self.bf16.step / self.compressed.step

    @property
    def gain(self) -> float:
        """Times as fast as the fastest way without the codec."""
        return self.fastest.step / self.compressed.step

    @property
    def verdict(self) -> str:
        """One of "yes", "a little", "not beside bf16", "no" and "not at this bound"."""
        if self.drops_values:
            return "not at this bound"
        if self.gain >= WORTH:
            return "yes"
        if self.gain >= LITTLE:
            return "a little"
        raw = min(self.raw.step, self.plain.step) / self.compressed.step
        return "not beside bf16" if raw >= WORTH else "no"

    @property
    def drops_values(self) -> bool:
        """True if the bound is coarser than 1 / (16 N), so that error feedback can diverge."""
        known = self.scenario.form.collectives
        return known is not None and known.bound is not None and 16 * self.scenario.nodes * known.bound > 1

    def reasons(self) -> list[str]:
        """Return the reasons in words, the strongest first."""
        scene, fastest, exchange = self.scenario, self.fastest, self.compressed.exchange
        link, where, engine = scene.link.bandwidth, scene.form.where, scene.form.engine
        share = (fastest.step - scene.compute) / fastest.step if fastest.step else 0.0
        limit = exchange.limit if self.gain < WORTH else ""
        in_nic, halves = where in ("nic", "inline"), scene.gradients == "bfloat16"
        lanes = "; engines without lanes of bf16 take them as fp32, so hosts send twice the bytes"
        one_ring = self.plain.step / self.raw.step
        each = scene.size / scene.buckets / scene.nodes
        blocks = f"{scene.buckets} bucket{'s' * (scene.buckets > 1)}, blocks of {each / 1e3:.3g} kB"
        waiting = min(1.0, exchange.latency / exchange.seconds)
        finest = math.ceil(math.log2(16 * scene.nodes))
        told = {
            f"the scale makes room for the sum of {scene.nodes} ranks, so too many values become zero: keep "
            f"the bound at 2^-{finest}, 1 / (16 N), or less, or take the scale \"rms\"": self.drops_values,
            f"the step is compute-bound: without a codec a {fastest.name} adds {100 * share:.1f} % to it":
                share < 0.1,
            "the cable between host and inline device is no faster than the network's link, and carries raw "
            "values": where == "inline" and scene.form.cable <= link,
            f"latency and messages take {100 * waiting:.0f} % of the exchange "
            f"({blocks}): fewer and larger buckets help, a codec does not": limit == "latency",
            "the link is faster than the host: codec and TCP take longer than the wire":
                limit == "processor" and where == "software",
            f"the engines take {engine / 1e9:g} Gbit/s of uncompressed values and the link {link / 1e9:g}: "
            "the engines are the limit, whatever the ratio": limit == "device" and where == "nic",
            f"the hosts' TCP stacks are the limit ({scene.host.stack / 1e9:.2g} GB/s per processor): they "
            "move raw values whatever the NIC does": limit == "processor" and in_nic,
            f"gradients are bf16 already, half the bytes{lanes * (in_nic and not scene.form.bf16_lanes)}":
                halves,
            f"{fastest.name} gains as much, without a codec":
                self.verdict == "not beside bf16" and not halves,
            f"a ring without any codec is {one_ring:.2f} times as fast as a raw aggregator":
                scene.topology == "worker-aggregator" and one_ring > WORTH,
            f"groups alone make a step {1 / one_ring:.2f} times as fast as one raw ring; "
            f"the codec's own part is {self.gain:.2f}":
                scene.topology == "hierarchical" and WORTH * one_ring < 1,
            "weights come back raw: only one of the two ways shrinks": scene.returns_raw,
            f"exchange {_milliseconds(fastest.exchange.seconds)} ({fastest.name}) to "
            f"{_milliseconds(exchange.seconds)}; the {exchange.limit} is the limit then": self.gain >= LITTLE,
        }  # fmt: skip
        return [text for text, holds in told.items() if holds] or ["the exchange is no faster with the codec"]


def _milliseconds(seconds: float) -> str:
    """Return a time with three digits, and without an exponent."""
    return f"{float(f'{1e3 * seconds:.3g}'):,.10g} ms"


def takes_one_step(scene: Scenario, size: float, form: Form) -> bool:
    """Tell whether the collectives add a bucket of ``size`` bytes of values in one step, not in a ring."""
    known = form.collectives
    if known is None or not known.exact:
        return False
    return one_step_is_faster(size / form.bytes_per_value, scene.nodes, scene.link.latency, known.bound)


def exchange_of(scene: Scenario, size: float, form: Form, topology: Topology) -> Exchange:
    """Return one exchange of a step, of a bucket of ``size`` bytes of values as ``form`` counts them.

    It follows an `agreement`.
    """
    link = replace(scene.link, latency=scene.link.latency + form.delay(scene.link))
    if topology == "ring" and takes_one_step(scene, size, form):
        return one_step(size, scene.nodes, link, scene.host, form)
    if topology == "ring":
        return ring(size, scene.nodes, link, scene.host, form)
    if topology == "hierarchical":
        upper = replace(link, bandwidth=link.bandwidth / scene.oversubscription)
        return hierarchical(size, scene.nodes, link, scene.host, form, scene.groups_of, upper)
    back = form if scene.down else Form(bytes_per_value=form.bytes_per_value)
    system = worker_aggregator if topology == "worker-aggregator" else parameter_server
    return system(size, scene.nodes, link, scene.host, form, back)


def predict(scene: Scenario) -> Prediction:
    """Predict the times of a step. A cast to bf16 costs nothing here, as on a GPU. It takes milliseconds."""
    raw = Form(bytes_per_value=2 if scene.gradients == "bfloat16" else 4)
    half = Form(bytes_per_value=2)
    names = {"software": "software codec", "nic": "NIC", "inline": "inline devices", "none": "nothing"}
    where = names[scene.form.where]

    every = scene.local_steps

    def option(name: str, size: float, form: Form, topology: Topology) -> Option:
        moving = exchange_of(scene, size / scene.buckets, form, topology)
        agreeing = agreement(scene.link, form).times(1 if every == 1 else 2)  # local updates confirm the end
        exchange = Exchange.of(agreeing, moving).times(scene.buckets)
        step = scene.compute + max(0.0, exchange.seconds / every - scene.overlap * scene.compute)
        return Option(name if every == 1 else f"{name}, every {every} steps", exchange, step)

    return Prediction(
        scene,
        option(RING_RAW, scene.size, raw, "ring"),
        option(RING_BF16, 2 * scene.values, half, "ring"),
        option(f"{scene.topology} raw", scene.size, raw, scene.topology),
        option(f"{scene.topology} bf16", 2 * scene.values, half, scene.topology),
        option(f"{scene.topology}, {where}", *scene.coded, scene.topology),
    )


def compared(every_step: Prediction, local: Prediction) -> tuple[float, str]:
    """Compare the fastest way to exchange gradients in every step with the fastest of local updates.

    Returns how many times as many steps local updates may take to the same loss, and still end as soon; and
    the answer in a line.
    """
    one, other = (min(found.options, key=lambda way: way.step) for found in (every_step, local))
    allowed = one.step / other.step
    soonest, later = (other, one) if allowed > 1 else (one, other)
    text = f'At equal numbers of steps "{soonest.name}" ends soonest, '
    text += f'{later.step / soonest.step:.3g} times as fast as "{later.name}".'
    if allowed > 1:
        text += f" It does unless it needs more than {allowed:.3g} times as many steps to the same loss."
    return allowed, text
