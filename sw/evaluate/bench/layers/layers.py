# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench layers``: training systems side by side, between hosts whose links have a rate."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Annotated, Any

from ....commands import report
from ....commands.study import Columns, Figure, Study, flat, measurement
from ....netns import Network, rate_text, require
from ....system.options import one_of
from ....transport import Transport
from ...training import Batches, Dataset, Model, count_of, digits, loop
from ...training.data import require_digits
from ..common.job import Line, counted, lines_of, on_ranks
from ..common.rank import Plan, tell
from .layers_systems import CONVOLUTIONS, SYSTEMS, Job, Run, System, ssd

RATE, MOMENTUM = 0.05, 0.9
WARM_UP = 60
"""Steps of SSGD before SSD-SGD in training runs."""
MODELS: dict[str, tuple[Sequence[int], int]] = {"cnn": ((64, 128), 16), "mlp": ((512, 512), 128)}
"""Layer sizes, and samples per worker and step, at which 100 Mbit/s is too slow for them."""
BOUND_BY_COMMUNICATION = 1e8
SPEEDUPS = {("ssd", "ssgd"): 1.7, ("ssd+codec", "ssd"): 1.0, ("ssd+codec", "ssgd+codec"): 1.0}
"""Targets: steps per second of a system over those of another."""


@measurement("layers")
def layers(
    study: Study,
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one worker and one server each.")] = 4,
    rates: Annotated[str, report.listed("Bits per second of every link, such as 100m.")] = "100m,1g,10g",
    systems: Annotated[str, report.some_of(SYSTEMS)] = ",".join(SYSTEMS),
    model: Annotated[str, one_of(MODELS, "{}.", metavar="MODEL")] = "cnn",
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
    sizes, batch = MODELS[model]
    plan = plan_of(model, sizes, batch, bound, seed)
    timing = [{"what": "time", "system": name, "steps": steps, "trained": trained} for name in chosen]
    timing *= rounds
    training = [
        {"what": "train", "system": name, "steps": trained, "warm_up": min(WARM_UP, trained // 4)}
        for name in chosen
    ]
    times: dict[float, dict[str, list[Line]]] = {rate: {name: [] for name in chosen} for rate in chosen_rates}
    ends: dict[str, Line] = {}
    with Network(hosts) as network:
        for rate in chosen_rates:
            cases = timing + (training if rate == max(chosen_rates) else [])
            network.shape(rate)
            lines = lines_of(network, at_host, {**plan, "cases": cases})
            text = partial("{}: {[system]}".format, rate_text(rate))
            for line in counted(study.console, lines, len(cases), text):
                if line["what"] == "train":
                    ends[line["system"]] = line
                else:
                    times[rate][line["system"]].append(line)
    learner = model_of(plan)
    study.conditions.append(
        f"{hosts} hosts, each worker and server; {learner.name}, "
        f"{4 * count_of(learner.initial()) / 1e6:.2f} MB of gradients, batch {batch} per worker; "
        f"error bound 2**-{bound}"
    )
    for rate, found in times.items():
        rows = rows_of(found, ends)
        study.table(rate_text(rate), COLUMNS, rows)
        study.figures += figures_of(rows, rate) if model == "mlp" else []
        study.rows = [*study.rows, *({"rate": rate, **flat(row)} for row in rows)]
    study.facts |= {
        "hosts": hosts, "plan": plan, "trained_steps": trained, "train": ends,
        "time": {str(int(rate)): found for rate, found in times.items()},
    }  # fmt: skip


def plan_of(model: str, sizes: Sequence[int], batch: int, bound: int, seed: int) -> dict[str, Any]:
    """Return what all cases share."""
    common = {"model": model, "sizes": sizes, "seed": seed, "batch": batch}
    return {**common, "rate": RATE, "momentum": MOMENTUM, "bound": 2.0**-bound}


def rows_of(times: dict[str, list[Line]], ends: dict[str, Line]) -> list[Line]:
    """Return a row by system: median ``seconds``, bytes per step, accuracy, and speed over that of SSGD."""
    seconds = {name: median(line["seconds"] for line in lines) for name, lines in times.items()}
    return [
        {
            "system": name, "seconds": seconds[name], "accuracy": ends[name]["accuracy"],
            "sent": (ends[name] if SYSTEMS[name].adaptive else lines[0])["sent"],
            "faster": seconds["ssgd"] / seconds[name] if "ssgd" in seconds else None,
        }
        for name, lines in times.items()
    ]  # fmt: skip


def figures_of(rows: Sequence[Line], rate: float) -> list[Figure]:
    """Return the targets of SSD-SGD, for a perceptron at the rate where communication is the limit."""
    seconds = {row["system"]: row["seconds"] for row in rows}
    if rate != BOUND_BY_COMMUNICATION or not {name for names in SPEEDUPS for name in names} <= seconds.keys():
        return []
    return [
        Figure(
            f"{SYSTEMS[ours].title}: steps/s over {SYSTEMS[other].title}",
            seconds[other] / seconds[ours], least,
        )
        for (ours, other), least in SPEEDUPS.items()
    ]  # fmt: skip


COLUMNS: Columns[Line] = {
    "": lambda row: SYSTEMS[row["system"]].title,
    "kB/step": lambda row: f"{sum(row['sent'].values()) / 1e3:.0f}",
    "by class": lambda row: ", ".join(f"{kind} {n / 1e3:.0f}" for kind, n in row["sent"].items() if n >= 500),
    "ms/step": lambda row: f"{1e3 * row['seconds']:.1f}",
    "steps/s": lambda row: f"{1 / row['seconds']:.1f}",
    "vs SSGD": lambda row: "-" if row["faster"] is None else f"{row['faster']:.2f}x",
    "accuracy": lambda row: f"{100 * row['accuracy']:.1f} %",
}


def final_accuracy(k: int, steps: int, seed: int) -> float:
    """Return the accuracy, 0..1, of a perceptron by SSD-SGD of four ranks, with a delay of k; 0 is SSGD."""
    plan, data = plan_of("mlp", (48,), 16, 10, seed), digits(seed)
    case = {"steps": steps, "warm_up": min(WARM_UP, steps // 4)}
    system = ssd(k) if k else SYSTEMS["ssgd"]
    found = on_ranks(4, lambda transport: trained(transport, model_of(plan), data, plan, case, system))
    return float(found[0]["accuracy"])


def at_host(transport: Transport, plan: Plan) -> None:
    """Run the plan's cases; rank 0 prints a line for each."""
    data, model = digits(plan["seed"]), model_of(plan)
    for case in plan["cases"]:
        tell(transport, {**case, **WHAT[case["what"]](transport, model, data, plan, case)})


def model_of(plan: Plan) -> Model:
    """Return the classifier of 8 x 8 pixels that the plan names."""
    sizes = tuple(plan["sizes"])
    return loop.model_of(plan["model"], **{"channels" if plan["model"] == "cnn" else "hidden": sizes})


def begun(
    transport: Transport, model: Model, data: Dataset, plan: Plan, system: System, steps: int, warm: int = 0
) -> tuple[Run, Batches]:
    """Begin a training of so many steps, with those of warm-up; return it with this rank's batches."""
    job = Job(transport, model, plan["rate"], plan["momentum"], plan["seed"], steps, plan["bound"], warm)
    batches = Batches(data.train, plan["batch"], transport.rank, transport.size, plan["seed"])
    return system.open(job), batches


def timed(transport: Transport, model: Model, data: Dataset, plan: Plan, case: Line) -> Line:
    """Measure seconds per step at the slowest rank, and the bytes per step of all ranks by class.

    Bytes are the difference of two runs, with and without the steps that are counted. So the start and the
    end of a run do not count, nor do the steps until traffic is steady.
    """
    system = SYSTEMS[case["system"]]
    steps = -(-case["steps"] // system.cycle) * system.cycle
    sent: list[Counter[str]] = []
    seconds = 0.0
    for timed_steps in (0, steps):
        run, batches = begun(transport, model, data, plan, system, case.get("trained", steps))
        for step in range(system.warm_up):
            run.step(batches.at(step))
        start = time.perf_counter()
        for step in range(system.warm_up, system.warm_up + timed_steps):
            run.step(batches.at(step))
        seconds = time.perf_counter() - start
        run.close()
        sent.append(run.traffic.of_all(transport).sent)
    kinds = sorted(sent[0].keys() | sent[1].keys())
    slowest = max(transport.exchange(seconds / steps))
    return {
        "seconds": slowest, "steps": steps,
        "sent": {kind: (sent[1][kind] - sent[0][kind]) / steps for kind in kinds},
    }  # fmt: skip


def trained(
    transport: Transport, model: Model, data: Dataset, plan: Plan, case: Line, system: System | None = None
) -> Line:
    """Measure the test accuracy after a training, 0..1, and mean bytes per step by class."""
    steps, system = case["steps"], system or SYSTEMS[case["system"]]
    run, batches = begun(transport, model, data, plan, system, steps, case["warm_up"])
    for step in range(steps):
        run.step(batches.at(step))
    accuracy = model.accuracy(run.parameters(), data.test)
    run.close()
    return {"accuracy": accuracy, "sent": run.traffic.of_all(transport).per_step(steps)}


WHAT: dict[str, Callable[..., Line]] = {"time": timed, "train": trained}
