# SPDX-License-Identifier: BSD-2-Clause
"""One rank of Table II's training: rank 0 aggregates, the others are workers.

Workers send gradients to the aggregator, which sums them, updates the weights and sends these back
(Fig. 2 of the paper). Rank 0 prints one line with the seconds of each part per iteration.
"""

import time

import numpy as np

from ....transport import Transport
from ...bench.common.rank import Plan, tell
from ...training import MLP, Batches, digits, flatten, unflatten
from .digits import HIDDEN, RATE

PARTS = ("Forward pass", "Backward pass", "Gradient sum", "Communicate", "Update")


def main(transport: Transport, plan: Plan) -> None:
    """Run the iterations of the plan, after one that is not timed."""
    model, samples = MLP(64, HIDDEN), digits(plan["seed"])
    parameters = model.initial(plan["seed"])
    vector = flatten(parameters)
    workers = transport.size - 1
    spent = dict.fromkeys(PARTS, 0.0)
    if transport.rank:
        batches = Batches(samples.train, plan["batch"], transport.rank - 1, workers, plan["seed"])
    velocity, into = np.zeros_like(vector), np.empty_like(vector)
    for step in range(plan["steps"] + 1):
        if step == 1:
            spent = dict.fromkeys(PARTS, 0.0)
        transport.barrier()
        began = time.perf_counter()
        if transport.rank:
            batch = batches.at(step)
            parameters = unflatten(vector, parameters)
            model.logits(parameters, batch.inputs)
            forward = time.perf_counter() - began
            gradient = flatten(model.gradients(parameters, batch))
            both = time.perf_counter() - began - forward
            transport.isend(0, gradient).wait()
            transport.irecv_into(0, vector).wait()
            spent["Forward pass"] += forward
            spent["Backward pass"] += max(0.0, both - forward)
        else:
            total, summing = np.zeros_like(vector), 0.0
            for worker in range(1, transport.size):
                transport.irecv_into(worker, into).wait()
                at = time.perf_counter()
                total += into
                summing += time.perf_counter() - at
            at = time.perf_counter()
            velocity = np.float32(0.9) * velocity - np.float32(RATE / workers) * total
            vector = vector + velocity
            spent["Update"] += time.perf_counter() - at
            spent["Gradient sum"] += summing
            for request in [transport.isend(worker, vector) for worker in range(1, transport.size)]:
                request.wait()
        spent["Communicate"] += time.perf_counter() - began  # less the rest, below
    found = transport.exchange(spent)
    whole = max(each["Communicate"] for each in found)
    mean = {part: max(each[part] for each in found) / plan["steps"] for part in PARTS}
    # The forward pass is made twice here (once by itself, to be timed): its second time is no exchange.
    rest = sum(mean[part] for part in PARTS if part != "Communicate") + mean["Forward pass"]
    mean["Communicate"] = max(0.0, whole / plan["steps"] - rest)
    tell(transport, {"parts": mean})
