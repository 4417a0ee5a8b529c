# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench ssd-sgd``: times per step next to the paper's model, and accuracy by delay."""

from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer

from ....commands import report
from ....commands.console import Table, new_progress, tracked
from ....layers.parameter_server import MomentumSGD, ParameterServer
from ....layers.ssd_sgd import LOCAL_UPDATES, SSDSGD, Costs, case, ssd_time, ssgd_time
from ....netns import Network, rate_text, require
from ....transport import LoopbackTransport
from ...study import Columns, Figure, Study, flat, measurement
from ...training import MLP, Batches, digits
from ...training.data import require_digits
from ..common.threads import on_ranks
from .layers import MOMENTUM, RATE, SPEEDUP, WARM_UP, measured, plan_of

DELAYS = (1, 2, 3, 4, 5)
PARTS = ("computation", "local", "send", "communication")
POINT = 0.5
"""Points of accuracy that SSD-SGD may be below SSGD."""
UPDATED = 5
"""The delay at which local updates are compared (Fig. 5)."""


@measurement("ssd-sgd")
def ssd_sgd(
    study: Study,
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one worker and one server each.")] = 4,
    rate: Annotated[str, typer.Option(help="Bits per second of every link.")] = "100m",
    hidden: Annotated[int, report.whole(1, 8192, "Units of each of the two hidden layers.")] = 512,
    batch: Annotated[int, report.whole(1, 256, "Samples per worker and step.")] = 128,
    steps: Annotated[int, report.whole(1, 10_000, "Timed steps of each delay.")] = 20,
    rounds: Annotated[int, report.whole(1, 100, "Rounds over all delays; medians count.")] = 3,
    trained: Annotated[int, report.whole(20, 100_000, "Steps of each training.")] = 300,
    seeds: Annotated[int, report.whole(1, 100, "Trainings to take the mean accuracy of.")] = 5,
    bound: report.Bound = 10,
    seed: report.FirstSeed = 0,
    only: Annotated[str, report.listed("times, accuracy, or both.")] = "times,accuracy",
    quick: Annotated[bool, report.quick(steps=10, rounds=1, trained=100, seeds=2)] = False,
) -> None:
    """Compare SSD-SGD with SSGD: time per step for k = 1..5, with the codec and without, and final accuracy.

    About five minutes, with --quick one.

    Times (needs root): a perceptron with two hidden layers between hosts with rate-limited links, next to the
    prediction of equations 2 and 4 from its measured parts. Accuracy: a perceptron with 48 hidden units on
    scikit-learn's digits, 4 workers, the mean of several seeds; the network has no influence on it.
    """
    parts = report.choices(only, ("times", "accuracy"), "--only")
    bits = report.rate(rate)
    if "accuracy" in parts:
        require_digits()
    rows: list[dict[str, Any]] = []
    study.rows = rows
    if "times" in parts:
        require()
        plan = plan_of("mlp", f"{hidden},{hidden}", batch, bound, seed)
        few = max(5, steps // 4)
        forms = ({"codec": False}, {"codec": True})
        cases = [{"what": "parts", "k": 0, **form, "steps": few} for form in forms]
        cases += [{"what": "time", "k": k, **form, "steps": steps} for form in forms for k in (0, *DELAYS)]
        cases *= rounds
        lines: list[dict[str, Any]] = []
        with new_progress(study.console) as progress, Network(hosts) as network:
            task = progress.add_task("", total=len(cases))

            def advance(at: float, line: dict[str, Any]) -> None:
                progress.update(task, advance=1, description=f"{line['what']}, k = {line['k']}")

            lines += measured(network, bits, plan, cases, advance)
        study.show(
            times_table(lines, f"{hosts} hosts, {rate_text(bits)}, 64-{hidden}-{hidden}-10, batch {batch}")
        )
        study.figures += time_figures(lines)
        rows += map(flat, lines)
        study.facts |= {"rate": bits, "hosts": hosts, "plan": plan, "times": lines}
    if "accuracy" in parts:
        accuracies = trainings(trained, range(seed, seed + seeds), study.console)
        title = f"Final test accuracy, digits, 4 workers, {trained} steps, mean of {seeds} seeds"
        study.table(
            title, ACCURACIES, [(name, accuracies["SSGD"], found) for name, found in accuracies.items()]
        )
        study.figures += accuracy_figures(accuracies)
        rows += [
            {"what": "accuracy", "configuration": name, "seed": seed + place, "accuracy": accuracy}
            for name, found in accuracies.items() for place, accuracy in enumerate(found)
        ]  # fmt: skip
        study.facts |= {"accuracy": accuracies, "trained_steps": trained}


ACCURACIES: Columns[tuple[str, list[float], list[float]]] = {
    "": lambda row: row[0],
    "accuracy": lambda row: f"{100 * np.mean(row[2]):.2f} %",
    "points over SSGD": lambda row: f"{100 * (np.mean(row[2]) - np.mean(row[1])):+.2f}",
    "lowest": lambda row: f"{100 * min(row[2]):.2f}",
    "highest": lambda row: f"{100 * max(row[2]):.2f}",
}
"""Of a configuration's name, SSGD's accuracies and its own: mean and range over the seeds."""


def median_of(lines: list[dict[str, Any]], what: str, k: int, codec: bool, name: str = "seconds") -> float:
    """Return the median over the rounds."""
    return median(
        line[name] for line in lines if (line["what"], line["k"], line["codec"]) == (what, k, codec)
    )


def costs_of(parts: dict[str, Any]) -> Costs:
    """Return the costs of one layer (L = 1): all gradients are pushed after the backward computation.

    Forward and backward are measured together; where L is 1, equations 2 and 4 need no more.
    """
    compute = parts["computation"]
    sent = min(parts["send"], parts["communication"])
    return Costs(compute / 3, (2 * compute / 3,), (parts["communication"],), (sent,), parts["local"])


def times_table(lines: list[dict[str, Any]], title: str) -> Table:
    """Tabulate measured and modelled times per step."""
    columns = ("", "ms/step", "steps/s over SSGD", "model, ms", "model / measured", "case")
    table = Table(f"Time per step: {title}", *columns)
    for codec in (False, True):
        parts = {name: median_of(lines, "parts", 0, codec, name) for name in PARTS}
        costs = costs_of(parts)
        found = {k: median_of(lines, "time", k, codec) for k in (0, *DELAYS)}
        with_codec = ", codec" if codec else ""
        for name in PARTS:
            table.add_row(f"{name}{with_codec}", f"{1e3 * parts[name]:.1f}", "", "", "", "", style="dim")
        for k, seconds in found.items():
            model = ssd_time(costs, k) if k else ssgd_time(costs)
            table.add_row(
                f"SSD-SGD, k = {k}{with_codec}" if k else f"SSGD{with_codec}",
                f"{1e3 * seconds:.1f}",
                f"{found[0] / seconds:.2f}x",
                f"{1e3 * model:.1f}",
                f"{model / seconds:.2f}",
                str(case(costs)) if k else "",
            )
        table.add_section()
    return table


def time_figures(lines: list[dict[str, Any]]) -> list[Figure]:
    """Return the targets for iteration rates."""
    found = {(k, codec): median_of(lines, "time", k, codec) for k in (0, 5) for codec in (False, True)}
    both = found[5, True]
    return [
        Figure("k = 5: steps/s over SSGD", found[0, False] / found[5, False], SPEEDUP),
        Figure("k = 5 with codec: steps/s over k = 5 without", found[5, False] / both, 1.0),
        Figure("k = 5 with codec: steps/s over SSGD with codec", found[0, True] / both, 1.0),
    ]


def trainings(steps: int, seeds: Sequence[int], console: Any) -> dict[str, list[float]]:
    """Measure final accuracies by configuration, one per seed.

    They are SSGD, k = 1..5 with GLU, and k = 5 with others.
    """
    configurations: dict[str, tuple[int, str]] = {"SSGD": (0, "glu")}
    configurations |= {f"k = {k}, glu": (k, "glu") for k in DELAYS}
    configurations |= {f"k = {UPDATED}, {name}": (UPDATED, name) for name in LOCAL_UPDATES if name != "glu"}
    found: dict[str, list[float]] = {}
    for title, seed in tracked(console, list(product(configurations, seeds)), itemgetter(0)):
        found.setdefault(title, []).append(final_accuracy(*configurations[title], steps, seed))
    return found


def final_accuracy(k: int, update: str, steps: int, seed: int, workers: int = 4) -> float:
    """Test accuracy, 0..1, after one training over loopback; k = 0 is SSGD."""
    model, data = MLP(64, (48,), 10), digits(seed)
    warm_up = min(WARM_UP, steps // 4) if k else steps

    def rank(transport: LoopbackTransport) -> float:
        with ParameterServer(transport, model.initial(seed), MomentumSGD(RATE, MOMENTUM)) as group:
            assert group.worker is not None
            trainer = SSDSGD(group.worker, max(1, k), warm_up, RATE, LOCAL_UPDATES[update]())
            batches = Batches(data.train, 16, transport.rank, workers, seed)
            weights = trainer.weights
            for step in range(steps):
                weights = trainer.step(model.gradients(weights, batches.at(step)))
            return model.accuracy(trainer.finish(), data.test)

    return on_ranks(workers, rank)[0]


def accuracy_figures(accuracies: dict[str, list[float]]) -> list[Figure]:
    """Return the targets for accuracies."""
    base = 100 * float(np.mean(accuracies["SSGD"]))
    return [
        Figure(
            f"k = {k}, GLU: accuracy below SSGD",
            base - 100 * float(np.mean(accuracies[f"k = {k}, glu"])), POINT, most=True, unit="points",
        )
        for k in DELAYS[:4]
    ]  # fmt: skip
