# SPDX-License-Identifier: BSD-2-Clause
"""One rank of ``inceptionn bench gradiveq``: what runs in each host.

    python -m inceptionn.evaluate.bench.layers.gradiveq_rank PLAN [RANK]

Rank 0 prints one JSON line per variant.
"""

import time
from collections.abc import Callable

import numpy as np

from .... import Codec
from ....collectives import Compressed, Parts, Raw, WireForm, all_reduce_steps, ring
from ....layers.gradiveq import QSGD, CompressedDomain, Compressor, Run, Slicing
from ....transport import Transport
from ...training import Floats
from ..common.rank import Plan, report, run

RESNET_32 = (
    (16, 3, 3, 3), *[(16, 16, 3, 3)] * 10, (32, 16, 3, 3), *[(32, 32, 3, 3)] * 9, (64, 32, 3, 3),
    *[(64, 64, 3, 3)] * 9,
)  # fmt: skip
"""The convolutions of the paper's network for 32 x 32 pixels: 461,232 values, 1.84 MB."""
VALUES = sum(int(np.prod(shape)) for shape in RESNET_32)


def main(transport: Transport, plan: Plan) -> None:
    """Run the plan."""
    calls = variants(transport, plan)
    found: dict[str, list[float]] = {name: [] for name in calls}
    sent: dict[str, int] = {}
    for turn in range(plan["repeats"] + 1):  # the first one warms up
        for name, call in calls.items():
            transport.barrier()
            before, start = transport.bytes_sent, time.perf_counter()
            call()
            slowest = max(transport.exchange(time.perf_counter() - start))
            sent[name] = sum(transport.exchange(transport.bytes_sent - before))
            if turn:
                found[name].append(slowest)
    for name, seconds in found.items():
        report(transport, {"variant": name, "seconds": seconds, "sent": sent[name]})


def compressors(ratio: float, most: int) -> dict[int, Floats]:
    """Make orthonormal columns by K: K/ratio of them, ``most`` at most.

    Time depends on their number alone.
    """
    random = np.random.default_rng(0)
    found = {}
    for size in {shape[0] * shape[1] for shape in RESNET_32}:
        d = max(1, min(most, round(size / ratio)))
        found[size] = np.linalg.qr(random.standard_normal((size, d)))[0].astype(np.float32)
    return found


def variants(transport: Transport, plan: Plan) -> dict[str, Callable[[], object]]:
    """Return the timed calls by name, each in slices.

    A call goes from the gradients of this worker to their mean.
    """
    size = transport.size
    random = np.random.default_rng((plan["seed"], transport.rank))
    gradients = [random.standard_normal(shape, np.float32) * np.float32(1e-3) for shape in RESNET_32]
    slicings = [Slicing(str(number), shape) for number, shape in enumerate(RESNET_32)]
    codec = Codec(plan["bound"], threads=1)

    def scalar(form: Callable[[], WireForm]) -> Callable[[], object]:
        def call() -> None:
            flat = np.concatenate([gradient.reshape(-1) for gradient in gradients])
            used = form()
            ring(used, range(size), flat, flat, Parts(flat.size, size), all_reduce_steps(size))

        return call

    def linear(ratio: float, most: int, coded: bool) -> Callable[[], object]:
        columns = compressors(ratio, most)
        runs = [
            Run(
                Compressor(columns[s.size], np.zeros((s.count, s.size), np.float32)),
                s.count,
                5 if coded else 0,
            )
            for s in slicings
        ]

        def call() -> None:
            own = [slicing.cut(gradient) for slicing, gradient in zip(slicings, gradients, strict=True)]
            domain = CompressedDomain(runs, own, 1 / size)
            domain.reduce(Compressed(transport, codec) if coded else Raw(transport))
            for slicing, mean in zip(slicings, domain.sums, strict=True):
                slicing.joined(mean)

        return call

    qsgd = QSGD(4, seed=(0, transport.rank))
    ratio, most = plan["ratio"], plan["dimension"]
    return {
        "raw": scalar(lambda: Raw(transport)),
        "qsgd": scalar(lambda: Compressed(transport, qsgd)),
        "gradiveq": linear(ratio, VALUES, False),
        "gradiveq+codec": linear(ratio, VALUES, True),
        "gradiveq-few": linear(ratio, most, False),
        "gradiveq-few+codec": linear(ratio, most, True),
    }


if __name__ == "__main__":
    run(main)
