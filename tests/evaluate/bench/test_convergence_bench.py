# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench convergence``."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inceptionn import Codec
from inceptionn.codec import scale_exponent
from inceptionn.evaluate.bench.trainings import convergence as bench
from inceptionn.wire import variant


def test_equal_bytes() -> None:
    source = np.random.default_rng(1)
    gradients = [(source.standard_normal(5000) * 0.01).astype(np.float32) for _ in range(3)]
    k = bench.bound_of_equal_bytes(gradients, 6, 4)

    def size(mode: str, k: int) -> int:
        codec = Codec(2.0**-k, *variant(mode))
        return sum(len(codec.compress(x, scale=scale_exponent(x, codec.codec) - 2)) for x in gradients)

    assert size("planes", k) <= size("bounded", 6) < size("planes", k + 1)
    assert k > 6


def test_a_training_is_the_same_with_every_transport_of_exact_values() -> None:
    """Raw sums in a ring; compressed ones differ, and take fewer bytes."""
    runs = {
        name: bench.trained("mlp", name, k, 3, 8, 1)[0]
        for name, k in ((bench.RAW, None), (bench.BOUNDED, 8), (bench.EQUAL_BOUND, 8))
    }
    again, gradients = bench.trained("mlp", bench.RAW, None, 3, 8, 1)
    assert again == runs[bench.RAW]
    assert len(gradients) == 8
    sent = {name: run["sent"] for name, run in runs.items()}
    assert sent[bench.RAW] > 4 * sent[bench.BOUNDED] > 6 * sent[bench.EQUAL_BOUND]
    for run in runs.values():
        assert run["steps"] == list(range(1, 9))
        assert run["losses"][-1] < run["losses"][0]
        assert run["losses"] == pytest.approx(runs[bench.RAW]["losses"], rel=0.2)


def test_the_command(made_by: Callable[..., Any]) -> None:
    command = "bench convergence --steps 4 --seeds 2 --models mlp --workers 2 --seed 3"
    text, facts, rows, _ = made_by(command, csv=True, plot=True)
    assert "2 workers, 4 steps, 2 seeds, bound 2**-6, scale auto; " in text
    runs = facts["runs"]
    assert [(run["variant"], run["seed"]) for run in runs] == [
        (variant, seed)
        for variant in ("raw", "bounded", "planes, equal bound", "planes, equal bytes")
        for seed in (3, 4)
    ]
    assert "planes, equal bytes" in text
    heading, *lines = rows
    assert heading == "model,variant,k,seed,steps,accuracy,sent,loss"
    assert len(lines) == len(runs)
