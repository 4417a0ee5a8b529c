# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench layers``: training systems side by side, between hosts whose links have a rate."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Annotated, Any

import typer

from ....commands import report
from ....commands.console import Table, new_progress
from ....netns import Network, bits_per_second, rate_text, require
from ....system.options import one_of
from ...study import Curve, Draw, Figure, Panel, Study, flat, measurement, panels
from ...training import count_of
from ...training.data import require_digits
from ..common.job import lines_of
from .layers_rank import model_of
from .layers_systems import CONVOLUTIONS, SYSTEMS

RANK = "inceptionn.evaluate.bench.layers.layers_rank"
PORT = 29540
TIMEOUT = 60.0
"""Seconds without progress after which a rank gives up."""
PATIENCE = 600.0
"""Seconds that one case may take."""
RATE, MOMENTUM = 0.05, 0.9
WARM_UP = 60
"""Steps of SSGD before SSD-SGD in training runs."""
MODELS = {"cnn": ("64,128", 16), "mlp": ("512,512", 128)}
"""Layer sizes, and samples per worker and step, at which 100 Mbit/s is too slow for them."""
POINTS = 20
"""Points of a curve."""
BOUND_BY_COMMUNICATION = "100m"
SPEEDUP = 1.7


@measurement("layers", plot=True)
def layers(
    study: Study,
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one worker and one server each.")] = 4,
    rates: Annotated[str, report.listed("Bits per second of every link, such as 100m.")] = "100m,1g,10g",
    systems: Annotated[
        str, report.listed(f"Of {', '.join(SYSTEMS)}.", show_default="all of them")
    ] = ",".join(SYSTEMS),
    model: Annotated[str, one_of(MODELS, "{}.", metavar="MODEL")] = "cnn",
    sizes: Annotated[str | None, report.listed("Channels of the convolutions, or hidden units.")] = None,
    batch: Annotated[
        int, report.whole(0, 256, "Samples per worker and step; 0: 16, of a perceptron 128.")
    ] = 0,
    steps: Annotated[int, report.whole(1, 10_000, "Timed steps of each round.")] = 15,
    rounds: Annotated[int, report.whole(1, 100, "Rounds over all systems at each rate; medians count.")] = 3,
    trained: Annotated[int, report.whole(1, 100_000, "Training steps for the final accuracy.")] = 300,
    bound: report.Bound = 10,
    seed: report.Seed = 0,
    quick: Annotated[bool, report.quick(steps=10, rounds=1, trained=60, rates="100m,1g")] = False,
) -> None:
    """Measure bytes per step, iteration time and final accuracy of each training system. Needs root.

    About fifteen minutes, with --quick three. All but the perceptron needs torch.

    A small convolutional network, or a perceptron, learns scikit-learn's digits. Times are the slowest rank's
    mean over the timed steps, computation included; hosts share this machine's processors. Each system is
    trained once to the end, at the highest rate; only ASGD's result depends on the rate. A2DTWP and GradiVeQ
    send different amounts as training proceeds: their bytes are means over the run.
    """
    chosen = report.choices(systems, tuple(SYSTEMS), "--systems")
    if model != "cnn":
        chosen = [name for name in chosen if name not in CONVOLUTIONS]
    chosen_rates = report.rates(rates)
    require_digits()
    require()
    plan = plan_of(model, sizes, batch, bound, seed)
    results = _measured(study, hosts, chosen_rates, plan, *_cases(chosen, steps, rounds, trained))
    model_made = model_of(plan)
    study.conditions.append(
        f"{hosts} hosts, each worker and server; {model_made.name}, "
        f"{4 * count_of(model_made.initial()) / 1e6:.2f} MB of gradients, batch {plan['batch']} per worker; "
        f"error bound 2**-{bound}"
    )
    study.show(*(table_of(results, rate) for rate in chosen_rates))
    study.figures += figures_of(results) if model == "mlp" else []
    study.facts |= {
        "hosts": hosts, "plan": plan, "trained_steps": trained, "train": results["train"],
        "time": {str(int(rate)): found for rate, found in results["time"].items()},
    }  # fmt: skip
    study.rows = [
        {"rate": rate, **flat(line), "accuracy": results["train"][name]["curve"][-1][1]}
        for rate, found in results["time"].items() for name, line in found.items()
    ]  # fmt: skip
    study.plot(charts(results), 5 * len(chosen_rates), 5.2)


def _cases(
    names: list[str], steps: int, rounds: int, trained: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the cases to time at each rate, and those to train to the end at one of them."""
    timing = [{"what": "time", "system": name, "steps": steps, "trained": trained} for name in names]
    common = {"steps": trained, "warm_up": min(WARM_UP, trained // 4), "every": max(1, trained // POINTS)}
    return timing * rounds, [{"what": "train", "system": name, **common} for name in names]


def _measured(
    study: Study,
    hosts: int,
    rates: list[float],
    plan: dict[str, Any],
    timing: list[dict[str, Any]],
    training: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return lines by system.

    They are under "time" by rate, with the median of seconds; under "train" once.
    """
    times: dict[float, dict[str, list[dict[str, Any]]]] = {}
    trainings: dict[str, dict[str, Any]] = {}
    with new_progress(study.console) as progress, Network(hosts) as network:
        task = progress.add_task("", total=len(timing) * len(rates) + len(training))

        def advance(rate: float, line: dict[str, Any]) -> None:
            title = SYSTEMS[line["system"]].title
            progress.update(task, advance=1, description=f"{rate_text(rate)}: {title}")

        for rate in rates:
            cases = timing + (training if rate == max(rates) else [])
            for line in measured(network, rate, plan, cases, advance):
                if line["what"] == "train":
                    trainings[line["system"]] = line
                else:
                    times.setdefault(rate, {}).setdefault(line["system"], []).append(line)
    return {
        "time": {
            rate: {
                name: {**lines[0], "seconds": median(line["seconds"] for line in lines)}
                for name, lines in found.items()
            }
            for rate, found in times.items()
        },
        "train": trainings,
    }


def plan_of(model: str, sizes: str | None, batch: int, bound: int, seed: int) -> dict[str, Any]:
    """Return what all cases share; ``sizes`` None and ``batch`` 0 mean the model's own."""
    widths, samples = MODELS[model]
    found: dict[str, Any] = {"model": model}
    try:
        found["sizes"] = [int(word) for word in (widths if sizes is None else sizes).split(",")]
        model_of(found).initial()
    except ValueError as error:
        raise typer.BadParameter(f"--sizes takes whole numbers, not {sizes!r} ({error})") from error
    return {
        **found, "port": PORT, "timeout": TIMEOUT, "seed": seed, "batch": batch or samples,
        "rate": RATE, "momentum": MOMENTUM, "bound": 2.0**-bound,
    }  # fmt: skip


def measured(
    network: Network,
    rate: float,
    plan: dict[str, Any],
    cases: Sequence[dict[str, Any]],
    advance: Callable[[float, dict[str, Any]], None],
) -> Iterator[dict[str, Any]]:
    """Run cases on the hosts at a rate; yield each one's results."""
    network.shape(rate)
    for line in lines_of(network, RANK, {**plan, "cases": list(cases)}, PATIENCE):
        advance(rate, line)
        yield line


def table_of(results: dict[str, Any], rate: float) -> Table:
    """Tabulate system by bytes per step, iteration time and final accuracy, at one rate."""
    found = results["time"][rate]
    columns = ("", "kB/step", "by class", "ms/step", "steps/s", "vs SSGD", "accuracy")
    table = Table(f"{rate_text(rate)}", *columns)
    base = found["ssgd"]["seconds"] if "ssgd" in found else None
    for name, line in found.items():
        sent = (results["train"][name] if SYSTEMS[name].adaptive else line)["sent"]
        classes = ", ".join(f"{kind} {size / 1e3:.0f}" for kind, size in sent.items() if size >= 500)
        curve = results["train"][name]["curve"]
        table.add_row(
            SYSTEMS[name].title,
            f"{sum(sent.values()) / 1e3:.0f}",
            classes,
            f"{1e3 * line['seconds']:.1f}",
            f"{1 / line['seconds']:.1f}",
            "-" if base is None else f"{base / line['seconds']:.2f}x",
            f"{100 * curve[-1][1]:.1f} %",
        )
    return table


def figures_of(results: dict[str, Any]) -> list[Figure]:
    """Return the targets of SSD-SGD, at the rate where communication is the limit."""
    rate = bits_per_second(BOUND_BY_COMMUNICATION)
    found = results["time"].get(rate, {})
    if not {"ssgd", "ssgd+codec", "ssd", "ssd+codec"} <= found.keys():
        return []
    seconds = {name: line["seconds"] for name, line in found.items()}
    at = rate_text(rate)
    return [
        Figure(f"SSD-SGD, k = 5: steps/s over SSGD, {at}", seconds["ssgd"] / seconds["ssd"], SPEEDUP),
        Figure(
            f"SSD-SGD with codec: steps/s over SSD-SGD, {at}", seconds["ssd"] / seconds["ssd+codec"], 1.0
        ),
        Figure(
            f"SSD-SGD with codec: steps/s over SSGD with codec, {at}",
            seconds["ssgd+codec"] / seconds["ssd+codec"], 1.0,
        ),
    ]  # fmt: skip


def charts(results: dict[str, Any]) -> Draw:
    """Plot accuracy over time, one panel per rate. The training's steps take the measured time per step."""
    found = []
    for rate, lines in results["time"].items():
        curves = []
        for name, line in lines.items():
            steps, accuracies = zip(*results["train"][name]["curve"], strict=True)
            seconds, percent = [step * line["seconds"] for step in steps], [100 * a for a in accuracies]
            curves.append(Curve(SYSTEMS[name].title, seconds, percent, "--" if "codec" in name else "-"))
        axes = {
            "title": rate_text(rate), "xlabel": "seconds", "xscale": "symlog",
            "ylabel": "test accuracy, %", "ylim": (70, 100),
        }  # fmt: skip
        found.append(Panel(curves=curves, axes=axes))
    return panels(found, columns=4, sharey=True)
