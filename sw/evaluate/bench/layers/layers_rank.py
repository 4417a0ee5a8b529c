# SPDX-License-Identifier: BSD-2-Clause
"""One rank of ``inceptionn bench layers`` and ``ssd-sgd``: what runs in each host.

    python -m inceptionn.evaluate.bench.layers.layers_rank PLAN [RANK]

Rank 0 prints one JSON line per case.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ....layers.ssd_sgd import GLU
from ....transport import Transport
from ...training import Batches, Dataset, Model, copy_of, digits, loop
from ..common.rank import Plan, report, run
from .layers_systems import SYSTEMS, Job, Run, System, ssd


def main(transport: Transport, plan: Plan) -> None:
    """Run the plan."""
    data, model = digits(plan["seed"]), model_of(plan)
    for case in plan["cases"]:
        report(transport, {**case, **WHAT[case["what"]](transport, model, data, plan, case)})


def model_of(plan: Plan) -> Model:
    """Return the classifier of 8 x 8 pixels that the plan names."""
    sizes = tuple(plan["sizes"])
    return loop.model_of(plan["model"], **{"channels" if plan["model"] == "cnn" else "hidden": sizes})


def system_of(case: dict[str, Any]) -> System:
    """Return the system that a case names, or SSD-SGD with the k that it gives."""
    return SYSTEMS[case["system"]] if "system" in case else ssd(case["k"], case["codec"])


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
    system = system_of(case)
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
    """Test accuracy along a training, at rank 0, as [step, accuracy]; mean bytes per step by class."""
    job = job_of(plan, case["steps"], case["warm_up"])
    run: Run = system_of(case).open(transport, model, job)
    batches = Batches(data.train, plan["batch"], transport.rank, transport.size, plan["seed"])
    curve = []
    for step in range(case["steps"] + 1):
        if step % case["every"] == 0 or step == case["steps"]:
            found = run.parameters()
            if transport.rank == 0:
                curve.append([step, model.accuracy(found, data.test)])
        if step < case["steps"]:
            run.step(batches.at(step))
    run.close()
    return {"curve": curve, "sent": run.traffic.of_all(transport).per_step(case["steps"])}


def parts(
    transport: Transport, model: Model, data: Dataset, plan: Plan, case: dict[str, Any]
) -> dict[str, Any]:
    """Measure the parts of an iteration in the time model, each by itself.

    Times are in seconds at the slowest rank. ``computation``: T_f + T_b, all ranks computing. ``local``: a
    GLU update of all layers. ``send``: pushes in a row. ``communication``: T_c, a push and a pull in a row.
    """
    settings = system_of(case).open
    job = job_of(plan, case["steps"])
    batches = Batches(data.train, plan["batch"], transport.rank, transport.size, plan["seed"])
    weights = copy_of(model.initial(plan["seed"]))
    rule = GLU(job.momentum, 0.0)
    rule.start(weights, 5)
    found = {}
    gradients = model.gradients(weights, batches.at(0))

    def mean(call: Callable[[], object], steps: int) -> float:
        call()
        start = time.perf_counter()
        for _ in range(steps):
            call()
        return (time.perf_counter() - start) / steps

    transport.barrier()
    found["computation"] = mean(lambda: model.gradients(weights, batches.at(0)), case["steps"])
    transport.barrier()
    found["local"] = mean(lambda: rule.update(weights, gradients, weights, 1e-6), case["steps"])
    run: Any = settings(transport, model, job)
    worker = run.group.worker
    worker.pull()
    found["send"] = _until_applied(worker, gradients, case["steps"])
    found["communication"] = mean(lambda: (worker.push(gradients), worker.pull()), case["steps"])
    run.group.close()
    every = transport.exchange(found)
    return {name: max(each[name] for each in every) for name in found}


def _until_applied(worker: Any, gradients: Any, steps: int) -> float:
    """Measure seconds per push of a row of them, until the last one has been applied everywhere.

    One pull, of the smallest key, confirms that.
    """
    smallest = min(gradients, key=lambda key: gradients[key].size)
    start = time.perf_counter()
    for _ in range(steps):
        worker.push(gradients)
    worker.pull([smallest])
    return (time.perf_counter() - start) / steps


WHAT: dict[str, Callable[..., dict[str, Any]]] = {"time": timed, "train": trained, "parts": parts}


if __name__ == "__main__":
    run(main)
