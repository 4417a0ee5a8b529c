# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench gradiveq``: all-reduce in the compressed domain against raw and QSGD; trainings."""

from statistics import median
from typing import Annotated, Any

from .... import Codec
from ....commands import report
from ....commands.console import Table, new_progress
from ....commands.study import Study, flat, measurement
from ....layers.gradiveq import GradiVeQ
from ....layers.parameter_server import Cosine, MomentumSGD, Partition
from ....netns import Network, rate_text, require
from ....transport import LoopbackTransport
from ...training import Batches, digits, flatten, model_of, unflatten
from ..common.job import lines_of
from ..common.threads import on_ranks
from .gradiveq_rank import VALUES

RANK = "inceptionn.evaluate.bench.layers.gradiveq_rank"
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
    plan = {
        "repeats": repeats, "ratio": RATIO, "dimension": dimension,
        "bound": 2.0**-BOUND, "seed": seed,
    }  # fmt: skip
    times: dict[float, dict[str, Any]] = {rate: {} for rate in chosen}
    with new_progress(study.console) as progress, Network(hosts) as network:
        task = progress.add_task("", total=len(chosen) * len(TITLES))
        for rate in chosen:
            network.shape(rate)
            for line in lines_of(network, RANK, plan):
                times[rate][line["variant"]] = {**line, "seconds": median(line["seconds"])}
                progress.update(task, advance=1, description=rate_text(rate))
    title = f"All-reduce of ResNet-32's convolutions, {VALUES} values, {hosts} hosts"
    study.show(times_table(times, plan, title))
    study.facts |= {"plan": plan, "times": {str(int(rate)): lines for rate, lines in times.items()}}
    study.rows = [
        {"rate": int(rate), **flat(line)} for rate, lines in times.items() for line in lines.values()
    ]


def times_table(times: dict[float, dict[str, Any]], plan: dict[str, Any], title: str) -> Table:
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


def settings(name: str, steps: int) -> dict[str, Any]:
    """Return the arguments of `GradiVeQ` for a training by name."""
    codec = Codec(2.0**-BOUND, threads=1)
    warm_up = min(WARM_UP, steps // 10)
    short = {} if steps >= 500 else {"sampling": max(2, steps // 10), "compressed": max(1, steps // 2)}
    by_name: dict[str, dict[str, Any]] = {
        "raw": {"warm_up": steps},
        "QSGD, 4 bits": {"warm_up": 0, "sampling": max(2, steps)},
        "GradiVeQ": {"warm_up": warm_up, **short},
        "GradiVeQ, codec": {"warm_up": warm_up, **short, "codec": codec, "rest_codec": codec},
    }
    return by_name[name]


NAMES = ("raw", "QSGD, 4 bits", "GradiVeQ", "GradiVeQ, codec")


def training(arguments: dict[str, Any], steps: int, seed: int, workers: int = 4) -> dict[str, float]:
    """Train once over loopback: momentum 0.9, a rate of 0.04 that falls along half a cosine.

    Returns accuracy, 0..1, and ratios of bytes, in all and by phase.
    """
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
