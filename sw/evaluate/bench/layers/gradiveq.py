# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench gradiveq``: all-reduce in the compressed domain against raw and QSGD; trainings."""

import time
from collections.abc import Callable
from statistics import median
from typing import Annotated, Any

import numpy as np

from .... import Codec
from ....collectives import Compressed, Parts, Raw, WireForm, all_reduce_steps, ring
from ....commands import report
from ....commands.console import Table, tracked
from ....commands.study import Study, flat, measurement
from ....layers.gradiveq import QSGD, CompressedDomain, Compressor, GradiVeQ, Run, Slicing
from ....layers.parameter_server import Cosine, MomentumSGD, Partition
from ....netns import Network, rate_text, require
from ....transport import LoopbackTransport, Transport
from ...training import Batches, Floats, digits, flatten, model_of, unflatten
from ..common.job import Line, lines_of, on_ranks
from ..common.rank import Plan, tell

TITLES = {
    "raw": "ring, raw",
    "qsgd": "ring, 4-bit QSGD",
    "gradiveq": "GradiVeQ, d = K/{ratio:g}",
    "gradiveq+codec": "GradiVeQ, d = K/{ratio:g}, codec",
    "gradiveq-few": "GradiVeQ, d <= K/{ratio:g}, {dimension}",
    "gradiveq-few+codec": "GradiVeQ, d <= K/{ratio:g}, {dimension}, codec",
}
CHANNELS = (32, 64, 64)
WARM_UP = 30
BOUND = 12
"""Error bound of the codec on compressed slices, 2**-k, relative to the largest sample's power of two."""
RATIO = 8.0


@measurement("gradiveq")
def gradiveq(
    study: Study,
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one worker each.")] = 4,
    rates: Annotated[str, report.listed("Bits per second of every link.")] = "100m,1g",
    repeats: Annotated[int, report.whole(1, 1000, "All-reduces of each kind; medians count.")] = 15,
    dimension: Annotated[
        int, report.whole(1, 4096, "Most columns of the second compressors: sampling steps less 1.")
    ] = 99,
    seed: report.Seed = 0,
    quick: Annotated[bool, report.quick(repeats=5)] = False,
) -> None:
    """Compare GradiVeQ's all-reduce with a raw one and with 4-bit QSGD. Needs root.

    About two minutes, with --quick one.

    An all-reduce of the convolutions of ResNet-32 between hosts with rate-limited links, including
    compression and decompression. Compressors have K/8 columns (the paper's average ratio), or at most as
    many as 100 sampling steps allow. Trainings: `inceptionn reproduce gradiveq`.
    """
    chosen = report.rates(rates)
    require()
    plan = plan_of(repeats, dimension, seed)
    times: dict[float, dict[str, Line]] = {}
    with Network(hosts) as network:
        for rate in tracked(study.console, chosen, rate_text):
            network.shape(rate)
            times[rate] = timed(network, plan)
    title = f"All-reduce of ResNet-32's convolutions, {VALUES} values, {hosts} hosts"
    study.show(times_table(times, plan, title))
    study.facts |= {"plan": plan, "times": {str(int(rate)): lines for rate, lines in times.items()}}
    study.rows = [
        {"rate": int(rate), **flat(line)} for rate, lines in times.items() for line in lines.values()
    ]


def plan_of(repeats: int, dimension: int, seed: int) -> dict[str, Any]:
    """Return what the ranks measure."""
    bound = 2.0**-BOUND
    return {"repeats": repeats, "ratio": RATIO, "dimension": dimension, "bound": bound, "seed": seed}


def timed(network: Network, plan: dict[str, Any]) -> dict[str, Line]:
    """Return a line by variant, with the median of its seconds."""
    lines = lines_of(network, at_host, plan)
    return {line["variant"]: {**line, "seconds": median(line["seconds"])} for line in lines}


def times_table(times: dict[float, dict[str, Line]], plan: dict[str, Any], title: str) -> Table:
    """Tabulate milliseconds and ratios, per rate."""
    columns = ["", "kB sent", "fewer bytes"]
    for rate in times:
        columns += [f"{rate_text(rate)}\nms", "raw / this", "QSGD / this"]
    table = Table(title, *columns)
    first = next(iter(times.values()))
    for name, text in TITLES.items():
        cells = [f"{first[name]['sent'] / 1e3:.0f}", f"{first['raw']['sent'] / first[name]['sent']:.1f}x"]
        for lines in times.values():
            seconds = lines[name]["seconds"]
            cells += [
                f"{1e3 * seconds:.1f}", f"{lines['raw']['seconds'] / seconds:.2f}x",
                f"{lines['qsgd']['seconds'] / seconds:.2f}x",
            ]  # fmt: skip
        table.add_row(text.format(**plan), *cells)
    return table


def settings(steps: int) -> dict[str, dict[str, Any]]:
    """Return the arguments of `GradiVeQ` for each training by name."""
    codec = Codec(2.0**-BOUND, threads=1)
    warm_up = min(WARM_UP, steps // 10)
    short = {} if steps >= 500 else {"sampling": max(2, steps // 10), "compressed": max(1, steps // 2)}
    return {
        "raw": {"warm_up": steps},
        "QSGD, 4 bits": {"warm_up": 0, "sampling": max(2, steps)},
        "GradiVeQ": {"warm_up": warm_up, **short},
        "GradiVeQ, codec": {"warm_up": warm_up, **short, "codec": codec, "rest_codec": codec},
    }


def training(arguments: dict[str, Any], steps: int, seed: int, workers: int = 4) -> dict[str, float]:
    """Train once over loopback; return accuracy, 0..1, and ratios of bytes, in all and by phase."""
    model, data = model_of("cnn", channels=CHANNELS), digits(seed)

    def rank(transport: LoopbackTransport) -> dict[str, float]:
        weights = flatten(model.initial(seed))
        parameters = unflatten(weights, model.initial(seed))  # they share memory
        rule, whole = MomentumSGD(Cosine(0.04, steps), 0.9), Partition(0, "", 0, 0, weights.size)
        exchange = GradiVeQ(transport, parameters, **arguments, seed=seed)
        batches = Batches(data.train, 16, transport.rank, workers, seed)
        for step in range(steps):
            own = model.gradients(parameters, batches.at(step))
            rule.update(whole, weights, flatten(exchange.all_reduce(own)), step)
        traffic = exchange.traffic.of_all(transport)
        ratios = {kind: traffic.raw[kind] / sent for kind, sent in traffic.sent.items() if sent}
        total = sum(traffic.raw.values()) / traffic.total
        return {"accuracy": model.accuracy(parameters, data.test), "all": total, **ratios}

    return on_ranks(workers, rank)[0]


RESNET_32 = (
    (16, 3, 3, 3), *[(16, 16, 3, 3)] * 10, (32, 16, 3, 3), *[(32, 32, 3, 3)] * 9, (64, 32, 3, 3),
    *[(64, 64, 3, 3)] * 9,
)  # fmt: skip
"""The convolutions of the paper's network for 32 x 32 pixels: 461,232 values, 1.84 MB."""
VALUES = sum(int(np.prod(shape)) for shape in RESNET_32)


def at_host(transport: Transport, plan: Plan) -> None:
    """Time the variants at a host; rank 0 prints a line for each."""
    calls = variants(transport, plan)
    lines: dict[str, Line] = {name: {"variant": name, "seconds": [], "sent": 0} for name in calls}
    for turn in range(plan["repeats"] + 1):  # the first one warms up
        for name, call in calls.items():
            transport.barrier()
            before, start = transport.bytes_sent, time.perf_counter()
            call()
            slowest = max(transport.exchange(time.perf_counter() - start))
            lines[name]["sent"] = sum(transport.exchange(transport.bytes_sent - before))
            if turn:
                lines[name]["seconds"].append(slowest)
    for line in lines.values():
        tell(transport, line)


def compressors(ratio: float, most: int) -> dict[int, Floats]:
    """Make orthonormal columns by K: K/ratio, ``most`` at most; time depends on their number alone."""
    random = np.random.default_rng(0)
    found = {}
    for size in {shape[0] * shape[1] for shape in RESNET_32}:
        d = max(1, min(most, round(size / ratio)))
        found[size] = np.linalg.qr(random.standard_normal((size, d)))[0].astype(np.float32)
    return found


def variants(transport: Transport, plan: Plan) -> dict[str, Callable[[], object]]:
    """Return the timed calls by name; each makes this worker's gradients their mean, in slices."""
    size = transport.size
    random = np.random.default_rng((plan["seed"], transport.rank))
    gradients = [random.standard_normal(shape, np.float32) * np.float32(1e-3) for shape in RESNET_32]
    slicings = [Slicing(str(number), shape) for number, shape in enumerate(RESNET_32)]
    codec = Codec(plan["bound"], threads=1)

    def scalar(form: Callable[[], WireForm]) -> Callable[[], object]:
        def call() -> None:
            flat = np.concatenate([gradient.reshape(-1) for gradient in gradients])
            used = form()
            ring(used, range(size), flat, flat, Parts(flat.size, size), all_reduce_steps(size))

        return call

    def linear(ratio: float, most: int, coded: bool) -> Callable[[], object]:
        columns, scale = compressors(ratio, most), 5 if coded else 0
        means = [np.zeros((s.count, s.size), np.float32) for s in slicings]
        runs = [
            Run(Compressor(columns[s.size], mean), s.count, scale)
            for s, mean in zip(slicings, means, strict=True)
        ]

        def call() -> None:
            own = [slicing.cut(gradient) for slicing, gradient in zip(slicings, gradients, strict=True)]
            domain = CompressedDomain(runs, own, 1 / size)
            domain.reduce(Compressed(transport, codec) if coded else Raw(transport))
            for slicing, mean in zip(slicings, domain.sums, strict=True):
                slicing.joined(mean)

        return call

    qsgd = QSGD(4, seed=(0, transport.rank))
    ratio, most = plan["ratio"], plan["dimension"]
    return {
        "raw": scalar(lambda: Raw(transport)),
        "qsgd": scalar(lambda: Compressed(transport, qsgd)),
        "gradiveq": linear(ratio, VALUES, False),
        "gradiveq+codec": linear(ratio, VALUES, True),
        "gradiveq-few": linear(ratio, most, False),
        "gradiveq-few+codec": linear(ratio, most, True),
    }
