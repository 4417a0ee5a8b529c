# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench layers``: training systems side by side, between hosts whose links have a rate."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Annotated, Any

from ....commands import report
from ....commands.console import new_progress
from ....commands.study import Columns, Figure, Study, flat, measurement
from ....netns import Network, rate_text, require
from ....system.options import one_of
from ....transport import LoopbackTransport, Transport
from ...training import MLP, Batches, Dataset, Model, count_of, digits, loop
from ...training.data import require_digits
from ..common.job import lines_of, on_ranks
from ..common.rank import Plan, tell
from .layers_systems import CONVOLUTIONS, SYSTEMS, Job, Run, ssd

RATE, MOMENTUM = 0.05, 0.9
WARM_UP = 60
"""Steps of SSGD before SSD-SGD in training runs."""
MODELS: dict[str, tuple[Sequence[int], int]] = {"cnn": ((64, 128), 16), "mlp": ((512, 512), 128)}
"""Layer sizes, and samples per worker and step, at which 100 Mbit/s is too slow for them."""
BOUND_BY_COMMUNICATION = 1e8
SPEEDUPS = {("ssd", "ssgd"): 1.7, ("ssd+codec", "ssd"): 1.0, ("ssd+codec", "ssgd+codec"): 1.0}
"""Targets: steps per second of a system over those of another."""
Line = dict[str, Any]
"""What rank 0 prints."""


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
    with new_progress(study.console) as progress, Network(hosts) as network:
        task = progress.add_task("", total=len(timing) * len(chosen_rates) + len(training))
        for rate in chosen_rates:
            cases = timing + (training if rate == max(chosen_rates) else [])
            network.shape(rate)
            for line in lines_of(network, at_host, {**plan, "cases": cases}):
                name = line["system"]
                progress.update(task, advance=1, description=f"{rate_text(rate)}: {SYSTEMS[name].title}")
                if line["what"] == "train":
                    ends[name] = line
                else:
                    times[rate][name].append(line)
    model_made = model_of(plan)
    study.conditions.append(
        f"{hosts} hosts, each worker and server; {model_made.name}, "
        f"{4 * count_of(model_made.initial()) / 1e6:.2f} MB of gradients, batch {batch} per worker; "
        f"error bound 2**-{bound}"
    )
    for rate, lines in times.items():
        rows = rows_of(lines, ends)
        study.table(rate_text(rate), COLUMNS, rows)
        study.figures += figures_of(rows, rate) if model == "mlp" else []
        study.rows = [*study.rows, *({"rate": rate, **flat(row)} for row in rows)]
    study.facts |= {
        "hosts": hosts, "plan": plan, "trained_steps": trained, "train": ends,
        "time": {str(int(rate)): found for rate, found in times.items()},
    }  # fmt: skip


def plan_of(model: str, sizes: Sequence[int], batch: int, bound: int, seed: int) -> dict[str, Any]:
    """Return what all cases share."""
    return {
        "model": model, "sizes": sizes, "seed": seed, "batch": batch,
        "rate": RATE, "momentum": MOMENTUM, "bound": 2.0**-bound,
    }  # fmt: skip


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


def final_accuracy(k: int, steps: int, seed: int, workers: int = 4) -> float:
    """Return the accuracy, 0..1, of a perceptron by SSD-SGD over loopback, with a delay of k; 0 is SSGD."""
    model, data = MLP(64, (48,), 10), digits(seed)
    job = Job(RATE, MOMENTUM, seed, steps, 0.0, min(WARM_UP, steps // 4))
    system = ssd(k) if k else SYSTEMS["ssgd"]

    def rank(transport: LoopbackTransport) -> float:
        run = system.open(transport, model, job)
        return accuracy_of(run, transport, model, data, 16, seed, steps)

    return on_ranks(workers, rank)[0]


def at_host(transport: Transport, plan: Plan) -> None:
    """Run the plan's cases; rank 0 prints a line for each."""
    data, model = digits(plan["seed"]), model_of(plan)
    for case in plan["cases"]:
        tell(transport, {**case, **WHAT[case["what"]](transport, model, data, plan, case)})


def model_of(plan: Plan) -> Model:
    """Return the classifier of 8 x 8 pixels that the plan names."""
    sizes = tuple(plan["sizes"])
    return loop.model_of(plan["model"], **{"channels" if plan["model"] == "cnn" else "hidden": sizes})


def job_of(plan: Plan, steps: int, warm_up: int = 0) -> Job:
    """Return the job that the plan describes."""
    return Job(plan["rate"], plan["momentum"], plan["seed"], steps, plan["bound"], warm_up)


def timed(
    transport: Transport, model: Model, data: Dataset, plan: Plan, case: dict[str, Any]
) -> dict[str, Any]:
    """Measure seconds per step at the slowest rank, and the bytes per step of all ranks by class.

    Bytes are the difference of two runs, with and without the steps that are counted. So the start and the
    end of a run do not count, nor do the steps until traffic is steady.
    """
    system = SYSTEMS[case["system"]]
    steps = -(-case["steps"] // system.cycle) * system.cycle
    batches = Batches(data.train, plan["batch"], transport.rank, transport.size, plan["seed"])
    sent: list[Counter[str]] = []
    seconds = 0.0
    for counted in (0, steps):
        run = system.open(transport, model, job_of(plan, case.get("trained", steps)))
        for step in range(system.warm_up):
            run.step(batches.at(step))
        start = time.perf_counter()
        for step in range(system.warm_up, system.warm_up + counted):
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
    transport: Transport, model: Model, data: Dataset, plan: Plan, case: dict[str, Any]
) -> dict[str, Any]:
    """Measure the test accuracy after a training, and mean bytes per step by class."""
    run = SYSTEMS[case["system"]].open(transport, model, job_of(plan, case["steps"], case["warm_up"]))
    accuracy = accuracy_of(run, transport, model, data, plan["batch"], plan["seed"], case["steps"])
    return {"accuracy": accuracy, "sent": run.traffic.of_all(transport).per_step(case["steps"])}


def accuracy_of(
    run: Run, transport: Transport, model: Model, data: Dataset, batch: int, seed: int, steps: int
) -> float:
    """Train to the end; return the test accuracy, 0..1."""
    batches = Batches(data.train, batch, transport.rank, transport.size, seed)
    for step in range(steps):
        run.step(batches.at(step))
    accuracy = model.accuracy(run.parameters(), data.test)
    run.close()
    return accuracy


WHAT: dict[str, Callable[..., dict[str, Any]]] = {"time": timed, "train": trained}
