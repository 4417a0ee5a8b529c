# SPDX-License-Identifier: BSD-2-Clause
"""A rank's computations in one all-reduce of ``inceptionn bench gradiveq``, one by one, without a network.

    python -m inceptionn.evaluate.bench.layers.gradiveq_parts '{"ratio": 8, "dimension": 99, "repeats": 15}'

Prints one JSON line: milliseconds of processor time by variant and part, the minimum of all rounds. A process
of its own, so that the linear algebra can be held to one thread, as at the ranks.
"""

import json
import subprocess
import sys
import time
from functools import partial
from typing import Any

import numpy as np

from ....commands.speed import Calls, best_seconds
from ....layers.gradiveq import QSGD, Compressor, Slicing
from ..common.job import one_thread
from .gradiveq_rank import RESNET_32, VALUES, compressors

PARTS = ("cut", "compress", "decompress", "join")
"""From gradients to slices, to compressed slices (eq. 3), to slices (eq. 5), to gradients.

For QSGD, the two middle columns are quantise and restore.
"""


def parts_of(plan: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Run this module as a process of one thread; return milliseconds by variant and part."""
    argv = [sys.executable, "-m", "inceptionn.evaluate.bench.layers.gradiveq_parts", json.dumps(plan)]
    done = subprocess.run(argv, env=one_thread(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def measured(ratio: float, dimension: int, repeats: int) -> dict[str, dict[str, float]]:
    """Measure as the module says; ``dimension``: the most columns of variant "gradiveq-few"."""
    random = np.random.default_rng(0)
    gradients = [random.standard_normal(shape, np.float32) * np.float32(1e-3) for shape in RESNET_32]
    slicings = [Slicing(str(number), shape) for number, shape in enumerate(RESNET_32)]
    cut = [slicing.cut(gradient) for slicing, gradient in zip(slicings, gradients, strict=True)]
    calls: Calls = {
        "cut": lambda: [s.cut(gradient) for s, gradient in zip(slicings, gradients, strict=True)],
        "join": lambda: [s.joined(slices) for s, slices in zip(slicings, cut, strict=True)],
    }
    for name, most in (("gradiveq", VALUES), ("gradiveq-few", dimension)):
        columns = compressors(ratio, most)
        used = [Compressor(columns[s.size], np.zeros((s.count, s.size), np.float32)) for s in slicings]
        sums = [c.compress(slices, 0) for c, slices in zip(used, cut, strict=True)]
        calls[f"{name} compress"] = partial(_each, "compress", used, cut)
        calls[f"{name} decompress"] = partial(_each, "decompress", used, sums)
    flat = np.concatenate([gradient.reshape(-1) for gradient in gradients])
    qsgd = QSGD(4)
    stream = bytes(qsgd.compress(flat))
    calls["qsgd compress"] = lambda: qsgd.compress(flat)
    calls["qsgd decompress"] = lambda: qsgd.decompress(stream, flat.size)
    best = {name: 1e3 * took for name, took in best_seconds(calls, repeats, clock=time.thread_time).items()}
    found = {
        name: {part: best[f"{name} {part}"] for part in ("compress", "decompress")}
        for name in ("qsgd", "gradiveq", "gradiveq-few")
    }
    for name in ("gradiveq", "gradiveq-few"):
        found[name] |= {part: best[part] for part in ("cut", "join")}
    return found


def _each(method: str, used: list[Compressor], values: list[Any]) -> None:
    for compressor, slices in zip(used, values, strict=True):
        getattr(compressor, method)(slices, 0)


if __name__ == "__main__":
    print(json.dumps(measured(**json.loads(sys.argv[1]))), flush=True)
