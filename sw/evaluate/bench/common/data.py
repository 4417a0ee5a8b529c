# SPDX-License-Identifier: BSD-2-Clause
"""The data of the benches: synthetic values of known spread, and gradients of a network in training."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from ....commands.speed import Floats, synthetic
from ...pays.ratios import file_values

SYNTHETIC, REAL = "synthetic", "real"
HIDDEN, BATCH, EPOCHS = (256, 128), 16, 20
RATE, MOMENTUM = 0.05, 0.9


def real(count: int, seed: int, workers: int = 1) -> list[Floats]:
    """Train one multi-layer perceptron and return its workers' gradients, one float32[count] each.

    It learns scikit-learn's digits for 20 epochs of as many samples as 4 workers take. An array holds the
    gradients of steps evenly spread over the training, in order; if there are too few, they repeat from the
    start. The same index in the arrays of two workers is the same parameter at the same step.

    Raises ``ModuleNotFoundError`` without scikit-learn.
    """
    from ....layers.parameter_server import MomentumSGD
    from ...training import MLP, Trainer, train

    trainer = Trainer(MLP(64, HIDDEN), MomentumSGD(RATE, MOMENTUM), workers, BATCH, seed)
    steps = EPOCHS * len(trainer.data.train) // (4 * BATCH)
    wanted = min(steps, -(-count // trainer.weights.size))
    chosen = {round(place) for place in np.linspace(0, steps - 1, wanted)}
    kept: list[Floats] = []

    def keep(step: int, gradients: Floats) -> None:
        if step in chosen:
            kept.append(gradients)

    with one_thread():  # matrices this small lose by threads
        train(trainer, steps, before=keep)
    return [np.resize(np.concatenate(parts), count) for parts in zip(*kept, strict=True)]


def one_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread, by a package that scikit-learn brings."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits


def arrays(kind: str, count: int, seed: int, workers: int) -> list[Floats]:
    """Return one float32[count] per worker, synthetic or real."""
    if kind == SYNTHETIC:
        return [synthetic(count, seed + worker) for worker in range(workers)]
    return real(count, seed, workers)


def saved(folder: Path, name: str, arrays: Sequence[Any]) -> list[str]:
    """Write an array for each rank, and return the paths."""
    paths = [folder / f"{name}-{rank}.npy" for rank in range(len(arrays))]
    for path, values in zip(paths, arrays, strict=True):
        np.save(path, values)
    return list(map(str, paths))


def of_file(path: Path, count: int, workers: int) -> list[Floats]:
    """Return slices of the values of a ``.npy`` file, which repeat from the start where they end."""
    return list(np.resize(file_values(path), (workers, count)))
