# SPDX-License-Identifier: BSD-2-Clause
"""The models of the bench: a perceptron, a convolutional network, a small transformer, with real data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ...training import Batches, digits
from ...training.data import Batch

CONTEXT, LETTERS = 32, 96
"""Characters that the transformer sees, and printable ASCII with the end of a line."""


@dataclass(frozen=True)
class Task:
    """A model, its batches by step, its loss, and what counts in the end.

    ``final``: "accuracy" (percent, on the test set) or "loss" (on text that it was not trained on).
    """

    model: nn.Module
    batch: Callable[[int], tuple[torch.Tensor, torch.Tensor]]
    test: tuple[torch.Tensor, torch.Tensor]
    rate: float
    final: str

    def loss(self, module: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return the mean cross-entropy of a batch."""
        logits = module(batch[0])
        return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[1].reshape(-1))

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """Return the model's score."""
        if self.final == "loss":
            return float(self.loss(module, self.test))
        right = module(self.test[0]).argmax(dim=1) == self.test[1]
        return 100 * float(right.float().mean())


class Transformer(nn.Module):
    """A causal language model of characters: 2 layers of 4 heads, width 128; 429,792 values."""

    def __init__(self, width: int = 128, layers: int = 2) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, width), nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, LETTERS)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        """Compute float[n, CONTEXT, LETTERS] of int[n, CONTEXT]."""
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        x = self.letters(letters) + self.places(torch.arange(CONTEXT))
        return self.out(self.layers(x, mask=mask, is_causal=True))


def task(name: str, batch: int, worker: int, workers: int, seed: int = 0) -> Task:
    """Make the task of a name: "mlp", "cnn" or "transformer".

    It has ``batch`` samples per worker and step. ``seed``: of the first weights and of the batches; the test
    data are always the same.
    """
    torch.manual_seed(seed)
    if name == "transformer":
        return _text(batch, worker, workers, seed)
    return _digits(name, batch, worker, workers, seed)


def _digits(name: str, batch: int, worker: int, workers: int, seed: int) -> Task:
    data = digits()
    sides = (-1, 1, 8, 8) if name == "cnn" else (-1, 64)

    def tensors(samples: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(samples.inputs).reshape(sides), torch.from_numpy(samples.labels)

    batches = Batches(data.train, batch, worker, workers, seed)
    model: nn.Module
    if name == "mlp":
        model = nn.Sequential(
            nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        )
    else:
        model = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(64 * 16, 512), nn.ReLU(), nn.Linear(512, 10),
        )  # fmt: skip
    return Task(model, lambda step: tensors(batches.at(step)), tensors(data.test), 0.05, "accuracy")


def _text(batch: int, worker: int, workers: int, seed: int) -> Task:
    """Make a task of the English manual in every Python; its last tenth is for testing."""
    from pydoc_data.topics import topics

    letters = "".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    codes = np.frombuffer(letters, np.uint8).astype(np.int64) - 31
    codes = codes.clip(0, LETTERS - 1)
    held = len(codes) // 10
    train, test = codes[:-held], codes[-held:]

    def windows(source: np.ndarray[Any, Any], starts: Any) -> tuple[torch.Tensor, torch.Tensor]:
        cut = np.stack([source[start : start + CONTEXT + 1] for start in starts])
        return torch.from_numpy(cut[:, :-1].copy()), torch.from_numpy(cut[:, 1:].copy())

    def at(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        starts = np.random.default_rng((step, 1, seed)).integers(0, len(train) - CONTEXT - 1, batch * workers)
        return windows(train, starts[worker::workers])

    tests = np.random.default_rng(2).integers(0, held - CONTEXT - 1, 256)
    return Task(Transformer(), at, windows(test, tests), 0.05, "loss")
