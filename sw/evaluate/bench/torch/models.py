# SPDX-License-Identifier: BSD-2-Clause
"""The models of the bench: a perceptron, a convolutional network, a small transformer, with real data."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import nn

from ...training import Batches, Dataset, digits
from ...training.data import Batch

CONTEXT, LETTERS = 32, 96
"""Characters that the transformer sees, and printable ASCII with the end of a line."""
TESTED = 256
"""Windows of the text for testing."""


@dataclass(frozen=True)
class Task:
    """A model, this rank's batches, the test set, and what counts: "accuracy" in percent, or "loss"."""

    model: nn.Module
    batches: Batches
    test: Batch
    final: str

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean cross-entropy of a batch."""
        return cross_entropy(module(torch.tensor(batch.inputs)), torch.tensor(batch.labels))

    @torch.no_grad()
    def score(self, module: nn.Module) -> float:
        """Return the model's score."""
        if self.final == "loss":
            return float(self.loss(module, self.test))
        found = module(torch.tensor(self.test.inputs)).argmax(dim=1).numpy()
        return 100 * float((found == self.test.labels).mean())


class Transformer(nn.Module):
    """A causal language model: layers of attention over a context of tokens."""

    def __init__(
        self, tokens: int, context: int, width: int, layers: int, heads: int, activation: str
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation=activation, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, tokens)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Compute float[n, length, tokens] of int[n, length]."""
        length = codes.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.tokens(codes) + self.places.weight[:length]
        return self.out(self.layers(x, mask=mask, is_causal=True))


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy, in nats."""
    return nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(
        nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10),
    ),
    "cnn": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(64 * 16, 512), nn.ReLU(), nn.Linear(512, 10),
    ),
    "transformer": lambda: Transformer(LETTERS, CONTEXT, width=128, layers=2, heads=4, activation="relu"),
}  # fmt: skip


def task(name: str, batch: int, worker: int, workers: int, seed: int = 0) -> Task:
    """Make a task of `MODELS`; ``seed``: of weights and batches. The test data are always the same."""
    torch.manual_seed(seed)
    data, final = (text(), "loss") if name == "transformer" else (digits(), "accuracy")
    return Task(MODELS[name](), Batches(data.train, batch, worker, workers, seed), data.test, final)


def text() -> Dataset:
    """Cut the English manual in every Python into windows; those of its last tenth are for testing."""
    from pydoc_data.topics import topics

    letters = "".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    codes = (np.frombuffer(letters, np.uint8).astype(np.int64) - 31).clip(0, LETTERS - 1)
    held = len(codes) // 10
    train = sliding_window_view(codes[:-held], CONTEXT + 1)
    test = sliding_window_view(codes[-held:], CONTEXT + 1)[:: held // TESTED]
    return Dataset("text", Batch(train[:, :-1], train[:, 1:]), Batch(test[:, :-1], test[:, 1:]), LETTERS)
