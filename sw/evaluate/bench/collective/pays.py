# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench pays``: the model of ``inceptionn pays`` against measured all-reduces."""

from collections.abc import Sequence
from itertools import product
from statistics import median
from typing import Annotated, NamedTuple

import numpy as np
import typer

from .... import BOUNDED, PLANES, Codec
from ....collectives import BFloat16, default_group_size
from ....commands import report
from ....commands.console import tracked
from ....commands.speed import Floats
from ....commands.study import Columns, Curve, Draw, Figure, Panel, Study, measurement, panels
from ....netns import Network, rate_text, require
from ....system.programs import usable_processors
from ...pays import measure
from ...pays.costs import Form, Host, Link
from ...pays.exchange import Exchange, hierarchical, ring, worker_aggregator
from ...pays.ratios import constant, of_values
from ..common import data
from ..common.job import lines_of
from ..common.rows import groups
from . import allreduce_rank
from .variants import AGGREGATOR, HIERARCHICAL, RING_BF16, RING_BOUNDED, RING_PLANES, RING_RAW, VARIANTS

MODELLED = (
    RING_RAW, RING_BF16, RING_BOUNDED, RING_PLANES, "hierarchical bounded", "worker-aggregator raw",
    "worker-aggregator bounded, up", "worker-aggregator bounded, both",
)  # fmt: skip
ETHERNET_HEADER = 14
"""The bytes that the token buckets count beside IP packets."""
SAMPLE = 1 << 20
"""Values from which ratios are learned."""
SMALL = 1024
"""Values of the all-reduces whose time is the cost of messages."""
TARGET = 15.0
"""Percent, of the median error."""


class Point(NamedTuple):
    """A measured all-reduce and its prediction: seconds; ``rate`` in bits per second, ``size`` in bytes."""

    hosts: int
    rate: float
    data: str
    size: int
    variant: str
    measured: float
    predicted: float
    limit: str

    @property
    def error(self) -> float:
        """Percent that the prediction is above the measurement."""
        return 100 * (self.predicted / self.measured - 1)


@measurement("pays", plot=True)
def pays(
    study: Study,
    hosts: Annotated[str, report.listed("Numbers of hosts.")] = "2,4,8",
    rates: Annotated[str, report.listed("Bits per second of every link.")] = "200m,1g,4g",
    sizes: Annotated[str, report.listed("MB of values per host.")] = "4,16",
    kinds: Annotated[str, typer.Option("--data", help="synthetic, real, or both.")] = "synthetic",
    bound: report.Bound = 10,
    repeats: Annotated[int, report.whole(1, 100, "Rounds; the median counts.")] = 3,
    seed: report.Seed = 1,
    quick: Annotated[bool, report.quick(hosts="4", sizes="4", rates="500m,2g", repeats=2)] = False,
) -> None:
    """Compare predicted and measured times of all-reduces between shaped hosts. Needs root.

    About three minutes.

    The model gets the rates of the links, ratios from a sample of the values, and the machine's rates: codec,
    sums, the cost of a message and of a byte in TCP. These come from unshaped rings that are not compared.
    The shaped measurements are not used for the prediction.
    """
    chosen_hosts = report.numbers(hosts, 2, 16, "--hosts")
    chosen_sizes = report.numbers(sizes, 1, 1024, "--sizes")
    most = chosen_sizes[-1]
    chosen_rates = report.rates(rates)
    chosen = report.choices(kinds, (data.SYNTHETIC, data.REAL), "--data")
    require()
    points: list[Point] = []
    machines = {}
    for count in chosen_hosts:
        with Network(count) as network:
            made = {kind: data.arrays(kind, most * 250_000, seed, count) for kind in chosen}
            arrays = {
                (kind, mb): data.saved(network.folder, f"{kind}-{mb}", [x[: mb * 250_000] for x in every])
                for (kind, every), mb in product(made.items(), chosen_sizes)
            }
            host = calibrated(network, arrays, 2.0**-bound, most)
            machines[count] = vars(host)
            codecs = {kind: used(data.arrays(kind, SAMPLE, seed, 1)[0], bound) for kind in chosen}
            for rate in tracked(study.console, chosen_rates, rate_text):
                network.shape(rate)
                link = Link(rate, 0.0, network.mtu, ETHERNET_HEADER, network.burst)
                for (kind, mb, variant), seconds in measured(network, arrays, 2.0**-bound, repeats).items():
                    size = mb * 1_000_000
                    found = predicted(variant, size, count, link, host, codecs[kind])
                    about = count, rate, kind, size, variant
                    points.append(Point(*about, seconds, found.seconds, found.limit))
    study.conditions.append(f"error bound 2**-{bound}")
    study.table("Model against measurement", POINTS, points)
    study.rows = [{**point._asdict(), "error_percent": point.error} for point in points]
    for name in ("rate", "variant", "hosts", "limit"):
        errors = {
            rate_text(case) if name == "rate" else str(case): [abs(row["error_percent"]) for row in rows]
            for (case,), rows in groups(study.rows, name).items()
        }
        study.table(f"Errors by {name}", ERRORS, errors.items())
    study.figures.append(Figure("median error of the model", median_error(points), TARGET, True, "%"))
    study.facts |= {"error_bound": 2.0**-bound, "hosts": machines, "points": study.rows}
    study.plot(chart_of(points), 6.4, 5.4)


def measured(
    network: Network, arrays: dict[tuple[str, int], list[str]], bound: float, repeats: int,
    variants: tuple[str, ...] = MODELLED,
) -> dict[tuple[str, int, str], float]:  # fmt: skip
    """Measure median seconds by kind, MB and variant."""
    plan = {
        "bound": bound, "ops": ["sum"],
        "arrays": {f"{kind} {size}": paths for (kind, size), paths in arrays.items()},
        "rounds": dict.fromkeys(variants, repeats),
    }  # fmt: skip
    found: dict[tuple[str, int, str], float] = {}
    for case, lines in groups(lines_of(network, allreduce_rank.main, plan), "data", "variant").items():
        kind, size = case[0].split()
        found[kind, int(size), case[1]] = median(line["seconds"] for line in lines)
    return found


def calibrated(
    network: Network, arrays: dict[tuple[str, int], list[str]], bound: float, largest: int
) -> Host:
    """Measure these hosts' rates on this machine, by unshaped raw rings of few and of many values."""
    network.shape(None)
    kind, _ = next(iter(arrays))
    files = arrays[kind, largest]
    small = data.saved(network.folder, "small", [np.load(path, mmap_mode="r")[:SMALL] for path in files])
    both = {("unshaped", 0): small, ("unshaped", largest): files}
    found = measured(network, both, bound, 7, (RING_RAW,))
    times = {size: seconds for (_, size, _), seconds in found.items()}
    steps = 2 * (network.size - 1)
    shared = min(network.size, usable_processors())
    machine = measure.host()
    size = largest * 1_000_000
    moved = 2 * (network.size - 1) / network.size * size
    # All hosts' processor time passes through the shared processors.
    processor = times[largest] * shared / network.size
    adding = moved / 2 / machine.add
    message = times[0] / steps / 2
    messages = steps * max(1, round(size / network.size / (1 << 19))) * message * shared / network.size
    stack = moved / max(0.2 * processor, processor - adding - messages)
    return Host(machine.add, stack, message, shared)


def used(sample: Floats, bound: int) -> dict[str, Form]:
    """Return the codecs of the variants: ratios of a sample of the values, rates of this machine."""
    forms = {"bf16": Form("software", constant(2.0), measure.coder(BFloat16(), repeats=5))}
    for variant in (BOUNDED, PLANES):
        codec = Codec(2.0**-bound, *variant, threads=1)
        coder = measure.coder(codec, sample, repeats=5)
        forms[variant.name] = Form("software", of_values(sample, codec), coder)
    return forms


def predicted(
    variant: str, size: int, hosts: int, link: Link, host: Host, codecs: dict[str, Form]
) -> Exchange:
    """Return the model's time of a variant of the bench; ``codecs``: of `used`."""
    way, raw = VARIANTS[variant], Form()
    form = next((found for name, found in codecs.items() if name in variant), raw)
    if way.algorithm == HIERARCHICAL:
        return hierarchical(size, hosts, link, host, form, default_group_size(hosts))
    if way.algorithm == AGGREGATOR:
        return worker_aggregator(size, hosts, link, host, form, form if way.legs == "both" else raw)
    return ring(size, hosts, link, host, form)


def median_error(points: Sequence[Point]) -> float:
    """Return the median error in percent, of the magnitudes."""
    return median(abs(point.error) for point in points)


POINTS: Columns[Point] = {
    "": lambda point: f"{point.variant}, {point.data}",
    "hosts": lambda point: str(point.hosts),
    "rate": lambda point: rate_text(point.rate),
    "MB": lambda point: f"{point.size / 1e6:g}",
    "measured, ms": lambda point: f"{point.measured * 1e3:.1f}",
    "model, ms": lambda point: f"{point.predicted * 1e3:.1f}",
    "error": lambda point: f"{point.error:+.0f} %",
    "limit": lambda point: point.limit,
}
ERRORS: Columns[tuple[str, list[float]]] = {
    "": lambda group: group[0],
    "points": lambda group: str(len(group[1])),
    "median": lambda group: f"{median(group[1]):.1f} %",
    "largest": lambda group: f"{max(group[1]):.0f} %",
}


def chart_of(points: Sequence[Point]) -> Draw:
    """Return what plots predicted over measured times, both logarithmic, with the band of 15 %."""
    curves = [
        Curve(variant, [1e3 * p.measured for p in mine], [1e3 * p.predicted for p in mine], "o")
        for variant in dict.fromkeys(point.variant for point in points)
        if (mine := [point for point in points if point.variant == variant])
    ]
    ends = [1e3 * end(point.measured for point in points) for end in (min, max)]
    for factor, style in ((1.0, "0.4"), (1 + TARGET / 100, "0.8"), (1 / (1 + TARGET / 100), "0.8")):
        curves.append(Curve("", ends, [factor * end for end in ends], style))
    title = f"{len(points)} all-reduces, median error {median_error(points):.1f} % (band: 15 %)"
    scales = {"xscale": "log", "yscale": "log", "xlabel": "measured, ms", "ylabel": "model, ms"}
    return panels([Panel(curves=curves, axes={"title": title, **scales})], columns=3)
