# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench gradiveq``: all-reduce in the compressed domain against raw and QSGD, and training."""

from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from statistics import mean, median
from typing import Annotated, Any

from .... import Codec
from ....commands import report
from ....commands.console import Table, new_progress, tracked
from ....layers.gradiveq import GradiVeQ
from ....layers.parameter_server import Cosine, MomentumSGD, Partition
from ....netns import Network, rate_text, require
from ....transport import LoopbackTransport
from ...study import Figure, Study, flat, measurement
from ...training import Batches, digits, flatten, model_of, unflatten
from ...training.data import require_digits
from ..common.job import lines_of
from ..common.threads import on_ranks
from .gradiveq_parts import PARTS, parts_of
from .gradiveq_rank import VALUES

RANK = "inceptionn.evaluate.bench.layers.gradiveq_rank"
PORT = 29560
TIMEOUT, PATIENCE = 60.0, 600.0
"""Seconds without progress, of a rank and of all."""
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
RATIO, POINT = 8.0, 1.0
Runs = list[dict[str, float]]
"""Accuracy (0..1) and ratios of bytes by phase, of one training each."""


@measurement("gradiveq")
def gradiveq(
    study: Study,
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one worker each.")] = 4,
    rates: Annotated[str, report.listed("Bits per second of every link.")] = "100m,1g",
    repeats: Annotated[int, report.whole(1, 1000, "All-reduces of each kind; medians count.")] = 15,
    dimension: Annotated[
        int, report.whole(1, 4096, "Most columns of the second compressors: sampling steps less 1.")
    ] = 99,
    steps: Annotated[int, report.whole(1, 100_000, "Steps of each training.")] = 530,
    seeds: Annotated[int, report.whole(1, 100, "Trainings to take the mean accuracy of.")] = 2,
    seed: report.FirstSeed = 0,
    only: Annotated[str, report.listed("Some of times, parts, training.")] = "times,parts,training",
    quick: Annotated[bool, report.quick(repeats=5, steps=60, seeds=1)] = False,
) -> None:
    """Compare GradiVeQ with raw and 4-bit QSGD: times and their parts, bytes and accuracy of training.

    About eight minutes, with --quick one. Training needs torch.

    Times (needs root): one all-reduce of the convolutions of ResNet-32 between hosts with rate-limited links,
    including compression and decompression. Compressors have K/8 columns (the paper's average ratio), or at
    most as many as 100 sampling steps allow. Parts: what one rank computes for that, in processor time.
    Training: a network of three convolutions learns scikit-learn's digits at 4 workers in one process.
    """
    parts = report.choices(only, ("times", "parts", "training"), "--only")
    chosen = report.rates(rates)
    if "training" in parts:
        require_digits()
        model_of("cnn")
    rows: list[dict[str, Any]] = []
    study.rows = rows
    if "times" in parts:
        require()
        plan = {
            "port": PORT, "timeout": TIMEOUT, "repeats": repeats, "ratio": RATIO, "dimension": dimension,
            "bound": 2.0**-BOUND, "seed": seed,
        }  # fmt: skip
        times: dict[float, dict[str, Any]] = {rate: {} for rate in chosen}
        with new_progress(study.console) as progress, Network(hosts) as network:
            task = progress.add_task("", total=len(chosen) * len(TITLES))
            for rate in chosen:
                network.shape(rate)
                for line in lines_of(network, RANK, plan, PATIENCE):
                    times[rate][line["variant"]] = {**line, "seconds": median(line["seconds"])}
                    progress.update(task, advance=1, description=rate_text(rate))
        title = f"All-reduce of ResNet-32's convolutions, {VALUES} values, {hosts} hosts"
        study.show(times_table(times, plan, title))
        by_rate = {str(int(rate)): lines for rate, lines in times.items()}
        study.facts |= {"plan": plan, "times": by_rate}
        for at, lines in by_rate.items():
            rows += [{"what": "time", "rate": at, **flat(line)} for line in lines.values()]
    if "parts" in parts:
        settings_of = {"ratio": RATIO, "dimension": dimension, "repeats": repeats}
        study.facts["parts"] = milliseconds = parts_of(settings_of)
        study.show(parts_table(milliseconds, settings_of))
        rows += [{"what": "parts", "variant": name, **line} for name, line in milliseconds.items()]
    if "training" in parts:
        trained = trainings(steps, range(seed, seed + seeds), study.console)
        study.show(training_table(trained, steps, seeds))
        study.figures += training_figures(trained)
        study.facts |= {"trained_steps": steps, "training": trained}
        rows += [
            {"what": "training", "variant": name, "seed": seed + place, **line}
            for name, runs in trained.items() for place, line in enumerate(runs)
        ]  # fmt: skip


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


def parts_table(milliseconds: dict[str, dict[str, float]], plan: dict[str, Any]) -> Table:
    """Tabulate processor time of one rank, one row per variant."""
    title = "What a rank computes, ms of processor time"
    table = Table(title, "", *PARTS)
    for name, parts in milliseconds.items():
        table.add_row(TITLES[name].format(**plan), *(f"{parts[p]:.2f}" if p in parts else "-" for p in PARTS))
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


def trainings(steps: int, seeds: Sequence[int], console: Any) -> dict[str, Runs]:
    """Measure accuracy (0..1) and ratios of bytes of each training, one per seed."""
    found: dict[str, Runs] = {}
    for name, seed in tracked(console, list(product(NAMES, seeds)), itemgetter(0)):
        found.setdefault(name, []).append(training(settings(name, steps), steps, seed))
    return found


def training(arguments: dict[str, Any], steps: int, seed: int, workers: int = 4) -> dict[str, float]:
    """Train once over loopback: momentum 0.9, a rate of 0.04 that falls along half a cosine."""
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


def training_table(trained: dict[str, Runs], steps: int, seeds: int) -> Table:
    """Tabulate accuracy, and how many times fewer bytes were sent, by phase."""
    kinds = ("warm-up", "sampling", "compressed", "rest", "all")
    channels = "-".join(map(str, CHANNELS))
    title = f"CNN {channels} on digits, 4 workers, {steps} steps, mean of {seeds} seeds; fewer bytes than raw"
    table = Table(title, "", "accuracy", "points over raw", *kinds)
    base = mean(run["accuracy"] for run in trained["raw"])
    for name, runs in trained.items():
        accuracy = mean(run["accuracy"] for run in runs)
        ratios = [f"{mean(run[kind] for run in runs):.1f}x" if kind in runs[0] else "-" for kind in kinds]
        table.add_row(name, f"{100 * accuracy:.2f} %", f"{100 * (accuracy - base):+.2f}", *ratios)
    return table


def training_figures(trained: dict[str, Runs]) -> list[Figure]:
    """Return the targets for bytes and accuracy."""
    base = mean(run["accuracy"] for run in trained["raw"])
    figures = []
    for name in ("GradiVeQ", "GradiVeQ, codec"):
        lost = 100 * (base - mean(run["accuracy"] for run in trained[name]))
        figures += [
            Figure(f"{name}: bytes of raw / bytes, all phases", mean(r["all"] for r in trained[name]), RATIO),
            Figure(f"{name}: accuracy lost", lost, POINT, most=True, unit="points"),
        ]
    return figures
