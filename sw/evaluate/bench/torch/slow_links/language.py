# SPDX-License-Identifier: BSD-2-Clause
"""A language model of bytes, and the text that it learns."""

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from ..models import Transformer, cross_entropy

BYTES = 256
TESTED = 512
"""Windows of the text for testing."""


class Size(NamedTuple):
    """Width, layers and bytes of context of a model with heads of 32 values; windows of a rank in a step."""

    width: int
    layers: int
    context: int
    batch: int

    def model(self) -> Transformer:
        """Make a transformer over bytes."""
        return Transformer(BYTES, self.context, self.width, self.layers, self.width // 32, "gelu")


SIZES = {"small": Size(128, 2, 64, 8), "large": Size(384, 6, 128, 8)}
"""0.47 and 10.9 million values."""


class Text:
    """A file of text: the last twentieth for testing, of the rest a part for each of ``ranks`` to train on.

    Reads gzip, too (of which dictzip is a kind). ``OSError`` if it cannot be read, ``ValueError`` if it is
    too short.
    """

    def __init__(self, path: Path, context: int, rank: int = 0, ranks: int = 1) -> None:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        least = 20 * TESTED * ranks
        if len(data) < least:
            raise ValueError(f"{path} has {len(data):,} bytes of text; {ranks} ranks need {least:,}")
        codes = np.frombuffer(data, np.uint8)
        held = len(codes) // 20
        part = (len(codes) - held) // ranks
        self.context, self._part = context, codes[part * rank : part * (rank + 1)]
        starts = np.linspace(0, held - context - 1, TESTED).astype(int)
        self.test = self._windows(codes[-held:], starts)

    def batch(self, seed: int, step: int, windows: int) -> torch.Tensor:
        """Return int64[windows, context + 1] of a step."""
        random = np.random.default_rng((seed, step))
        return self._windows(self._part, random.integers(0, len(self._part) - self.context, windows))

    def _windows(self, codes: np.ndarray, starts: np.ndarray) -> torch.Tensor:
        places = starts[:, np.newaxis] + np.arange(self.context + 1)
        return torch.from_numpy(codes[places].astype(np.int64))


def loss_of(module: nn.Module, windows: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the bytes after the first, in nats."""
    return cross_entropy(module(windows[:, :-1]), windows[:, 1:])
