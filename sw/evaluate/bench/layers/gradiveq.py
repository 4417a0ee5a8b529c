# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench gradiveq``: all-reduce in the compressed domain against raw and QSGD, and training."""

from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from statistics import mean, median
from typing import Annotated, Any

import numpy as np

from .... import Codec
from ....commands import report
from ....commands.console import CsvFile, JsonFile, Table, new_progress, tracked
from ....layers.gradiveq import GradiVeQ
from ....netns import Network, rate_text, require
from ....transport import LoopbackTransport
from ...training import CNN, Batches, digits
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


def gradiveq(
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
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
) -> None:
    """Compare GradiVeQ with raw and 4-bit QSGD: times and their parts, bytes and accuracy of training.

    About eight minutes, with --quick one.

    Times (needs root): one all-reduce of the convolutions of ResNet-32 between hosts with rate-limited links,
    including compression and decompression. Compressors have K/8 columns (the paper's average ratio), or at
    most as many as 100 sampling steps allow. Parts: what one rank computes for that, in processor time.
    Training: a network of three convolutions learns scikit-learn's digits at 4 workers in one process.
    """
    parts = report.choices(only, ("times", "parts", "training"), "--only")
    chosen = report.rates(rates)
    out = report.Report(seed, json_file, csv_file)
    if "training" in parts:
        require_digits()
    found: dict[str, Any] = {"bench": "gradiveq"}
    figures: list[report.Figure] = []
    out.show_conditions()
    if "times" in parts:
        require()
        plan = {
            "port": PORT, "timeout": TIMEOUT, "repeats": repeats, "ratio": RATIO, "dimension": dimension,
            "bound": 2.0**-BOUND, "seed": seed,
        }  # fmt: skip
        times: dict[float, dict[str, Any]] = {rate: {} for rate in chosen}
        with new_progress(out.console) as progress, Network(hosts) as network:
            task = progress.add_task("", total=len(chosen) * len(TITLES))
            for rate in chosen:
                network.shape(rate)
                for line in lines_of(network, RANK, plan, PATIENCE):
                    times[rate][line["variant"]] = {**line, "seconds": median(line["seconds"])}
                    progress.update(task, advance=1, description=rate_text(rate))
        out.console.print(
            times_table(
                times, plan, f"All-reduce of ResNet-32's convolutions, {VALUES} values, {hosts} hosts"
            )
        )
        found |= {"plan": plan, "times": {str(int(rate)): lines for rate, lines in times.items()}}
    if "parts" in parts:
        settings_of = {"ratio": RATIO, "dimension": dimension, "repeats": repeats}
        milliseconds = parts_of(settings_of)
        out.console.print(parts_table(milliseconds, settings_of))
        found["parts"] = milliseconds
    if "training" in parts:
        trained = study(steps, range(seed, seed + seeds), out.console)
        out.console.print(training_table(trained, steps, seeds))
        figures += training_figures(trained)
        found |= {"trained_steps": steps, "training": trained}
    out.show_figures(figures)
    out.write(found, rows_of(found, seed))


def rows_of(found: dict[str, Any], first_seed: int) -> list[dict[str, Any]]:
    """Return rows of the measurements.

    They are times by rate and variant, parts by variant, training runs by seed.
    """
    times, parts, trained = (found.get(name, {}) for name in ("times", "parts", "training"))
    return [
        *(
            {"what": "time", "rate": rate, **report.flat(line)}
            for rate, lines in times.items() for line in lines.values()
        ),
        *({"what": "parts", "variant": name, **line} for name, line in parts.items()),
        *(
            {"what": "training", "variant": name, "seed": first_seed + place, **line}
            for name in trained for place, line in enumerate(trained[name])
        ),
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


def study(steps: int, seeds: Sequence[int], console: Any) -> dict[str, list[dict[str, float]]]:
    """Measure accuracy (0..1) and ratios of bytes of each training, one per seed."""
    found: dict[str, list[dict[str, float]]] = {}
    for name, seed in tracked(console, list(product(NAMES, seeds)), itemgetter(0)):
        found.setdefault(name, []).append(training(settings(name, steps), steps, seed))
    return found


def training(arguments: dict[str, Any], steps: int, seed: int, workers: int = 4) -> dict[str, float]:
    """Train once over loopback: momentum 0.9, a rate of 0.04 that falls along half a cosine."""
    model, data = CNN(channels=CHANNELS), digits(seed)

    def rank(transport: LoopbackTransport) -> dict[str, float]:
        parameters = model.initial(seed)
        momenta = {key: np.zeros_like(value) for key, value in parameters.items()}
        exchange = GradiVeQ(transport, parameters, **arguments, seed=seed)
        batches = Batches(data.train, 16, transport.rank, workers, seed)
        for step in range(steps):
            mean_gradient = exchange.all_reduce(model.gradients(parameters, batches.at(step)))
            rate = np.float32(0.02 * (1 + np.cos(np.pi * step / steps)))
            for key, gradient in mean_gradient.items():
                momenta[key] = np.float32(0.9) * momenta[key] - rate * gradient
                parameters[key] = parameters[key] + momenta[key]
        traffic = exchange.traffic.of_all(transport)
        ratios = {kind: traffic.raw[kind] / sent for kind, sent in traffic.sent.items() if sent}
        total = sum(traffic.raw.values()) / traffic.total
        return {"accuracy": model.accuracy(parameters, data.test), "all": total, **ratios}

    return on_ranks(workers, rank)[0]


def training_table(trained: dict[str, list[dict[str, float]]], steps: int, seeds: int) -> Table:
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


def training_figures(trained: dict[str, list[dict[str, float]]]) -> list[report.Figure]:
    """Return the targets for bytes and accuracy."""
    base = mean(run["accuracy"] for run in trained["raw"])
    figures = []
    for name in ("GradiVeQ", "GradiVeQ, codec"):
        lost = 100 * (base - mean(run["accuracy"] for run in trained[name]))
        figures += [
            report.Figure(
                f"{name}: bytes of raw / bytes, all phases", mean(r["all"] for r in trained[name]), RATIO
            ),
            report.Figure(f"{name}: accuracy lost", lost, POINT, most=True, unit="points"),
        ]
    return figures
