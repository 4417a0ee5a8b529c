# SPDX-License-Identifier: BSD-2-Clause
"""One rank of ``inceptionn bench layers``: what runs in each host.

    python -m inceptionn.evaluate.bench.layers.layers_rank PLAN [RANK]

Rank 0 prints one JSON line per case.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ....transport import Transport
from ...training import Batches, Dataset, Model, digits, loop
from ..common.rank import Plan, report, run
from .layers_systems import SYSTEMS, Job, Run


def main(transport: Transport, plan: Plan) -> None:
    """Run the plan."""
    data, model = digits(plan["seed"]), model_of(plan)
    for case in plan["cases"]:
        report(transport, {**case, **WHAT[case["what"]](transport, model, data, plan, case)})


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
        for step in range(system.settle):
            run.step(batches.at(step))
        start = time.perf_counter()
        for step in range(system.settle, system.settle + counted):
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


if __name__ == "__main__":
    run(main)
