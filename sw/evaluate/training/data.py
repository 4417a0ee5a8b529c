# SPDX-License-Identifier: BSD-2-Clause
"""Data sets, and the batches that each worker takes from them in each step."""

from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...layers.parameters import Floats
from ...system.extras import pip_install


class Batch(NamedTuple):
    """Samples: ``inputs`` (float32[n, ...], or int64[n, length] of tokens) and ``labels`` (int64[n])."""

    inputs: NDArray[Any]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


class Dataset(NamedTuple):
    """A training and a test set with labels 0..classes-1."""

    name: str
    train: Batch
    test: Batch
    classes: int


def _require(module: str, name: str, extra: str) -> None:
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"{name} is not installed: {pip_install(extra)}", name=name)


def require_digits() -> None:
    """Raise ``ModuleNotFoundError``, with what to install, where `digits` has no data."""
    _require("sklearn", "scikit-learn", "train")


def require_torch() -> None:
    """Raise ``ModuleNotFoundError``, with what to install, without torch."""
    _require("torch", "torch", "torch")


@cache
def _digits() -> tuple[NDArray[Any], NDArray[Any]]:
    require_digits()
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return pixels, labels


def digits(seed: int = 0) -> Dataset:
    """Load scikit-learn's handwritten digits: 1437 samples to train with, 360 to test.

    They are real scans of 8 x 8 pixels as float32[n, 64] in 0..1; ``seed`` draws the split. Raises
    ``ModuleNotFoundError`` without scikit-learn, with what to install.
    """
    pixels, labels = _digits()
    order = np.random.default_rng(seed).permutation(len(labels))
    inputs: Floats = (pixels[order] / 16).astype(np.float32)
    labels = labels[order].astype(np.int64)
    return Dataset("digits", Batch(inputs[360:], labels[360:]), Batch(inputs[:360], labels[:360]), 10)


def zipf_documents(
    vocabulary: int = 20_000, length: int = 16, samples: int = 4096, classes: int = 8,
    exponent: float = 1.0, seed: int = 0,
) -> Dataset:  # fmt: skip
    """Draw documents whose words are Zipf-distributed, as in natural language; a fifth is for testing.

    Word number r has a probability proportional to ``(r + 1)**-exponent``. Each class permutes the words in
    its own way within blocks of ``classes`` neighbours, so that rare words tell classes apart as well as
    common ones. ``inputs``: int64[n, length], words 0..vocabulary-1. Raises ``ValueError`` for a vocabulary
    below the number of classes.
    """
    if vocabulary < classes:
        raise ValueError(f"vocabulary must be at least the {classes} classes, not {vocabulary!r}")
    random = np.random.default_rng(seed)
    weight = (1.0 + np.arange(vocabulary)) ** -exponent
    words = random.choice(vocabulary, (samples, length), p=weight / weight.sum())
    labels = random.integers(0, classes, samples)
    # Inside a block of neighbours, half of the words move to their document's class.
    blocks = (vocabulary // classes) * classes
    moved = (random.random(words.shape) < 0.5) & (words < blocks)
    words = np.where(moved, words // classes * classes + labels[:, np.newaxis], words)
    words, labels = words.astype(np.int64), labels.astype(np.int64)
    held = samples // 5
    train, test = Batch(words[held:], labels[held:]), Batch(words[:held], labels[:held])
    return Dataset(f"zipf{vocabulary}", train, test, classes)


class Batches:
    """The batches of one worker: ``size`` samples in each step, none of them another worker's.

    An epoch is a permutation that all workers draw alike from ``seed`` and its number; step *t* deals out
    the next ``size * workers`` samples round robin. Samples after an epoch's last whole step are left out.
    Any step can be asked for at any time, so a run that restarts at step *t* continues with the same samples.
    ``worker`` is 0..workers-1. Raises ``ValueError`` if a step would need more samples than there are.
    """

    def __init__(self, data: Batch, size: int, worker: int = 0, workers: int = 1, seed: int = 0) -> None:
        if not 0 <= worker < workers:
            raise ValueError(f"worker must be 0..{workers - 1}, not {worker!r}")
        if not 1 <= size * workers <= len(data):
            raise ValueError(f"size must be 1..{len(data) // workers} for {workers} workers, not {size!r}")
        self.data, self.size, self.worker, self.workers, self.seed = data, size, worker, workers, seed
        self.steps_per_epoch = len(data) // (size * workers)
        self._epoch = -1
        self._order: NDArray[np.int64] = np.empty(0, np.int64)

    def at(self, step: int) -> Batch:
        """Return the batch of a step, counted from 0."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng((self.seed, epoch)).permutation(len(self.data))
            self._epoch = epoch
        start = place * self.size * self.workers
        chosen = self._order[start : start + self.size * self.workers][self.worker :: self.workers]
        return Batch(self.data.inputs[chosen], self.data.labels[chosen])
