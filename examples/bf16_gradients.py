# SPDX-License-Identifier: BSD-2-Clause
"""Write the gradients of a transformer that is trained in bfloat16, as each of several ranks has them.

    python examples/bf16_gradients.py [--out gradients.npy] [--ranks 4] [--values 12500000]
    inceptionn inspect gradients.npy --scale auto
    sudo .venv/bin/inceptionn bench allreduce --dtype bfloat16 --file gradients.npy --op sum

Weights, activations and gradients are bfloat16 (``module.to(torch.bfloat16)``); the model has 1.8 million
parameters, and learns scikit-learn's handwritten digits, a row of pixels as a token, by AdamW. Each rank's
values are its gradients of every 15th step, one after the other and from the beginning again, up to
``--values``: those that `bench allreduce` gives to a host for 25 MB. Needs torch and scikit-learn.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

SIZE, LAYERS, BATCH = 192, 4, 32
EVERY = 15


class Transformer(torch.nn.Module):
    """Classify images of 8 x 8 pixels: bfloat16[batch, 8, 8] to bfloat16[batch, 10]."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(SIZE, 4, 4 * SIZE, 0.0, batch_first=True, norm_first=True)
        self.embed, self.out = torch.nn.Linear(8, SIZE), torch.nn.Linear(SIZE, 10)
        self.place = torch.nn.Parameter(0.02 * torch.randn(8, SIZE))
        self.encoder = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return a score for each class."""
        scores: torch.Tensor = self.out(self.encoder(self.embed(rows) + self.place).mean(1))
        return scores


def gradients(steps: int, ranks: int) -> list[np.ndarray]:
    """Train for a number of steps; return of every `EVERY`-th one each rank's gradient, uint16[ranks, size].

    A step's gradient is the mean over the ranks, each of which takes samples of its own.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)  # more gain nothing at this size, and wait for each other on a busy machine
    pixels, labels = (torch.tensor(each) for each in load_digits(return_X_y=True))
    rows = (pixels / 16).reshape(-1, 8, 8).bfloat16()
    model, found = Transformer().bfloat16(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(1, steps + 1):
        own = []
        for _ in range(ranks):
            chosen = torch.randint(len(rows), (BATCH,))
            loss = torch.nn.functional.cross_entropy(model(rows[chosen]).float(), labels[chosen])
            own.append(torch.autograd.grad(loss, list(model.parameters())))
        for parameter, *each in zip(model.parameters(), *own, strict=True):
            parameter.grad = torch.stack(each).float().mean(0).bfloat16()
        optimizer.step()
        if step % EVERY == 0:
            flat = [torch.cat([part.reshape(-1) for part in each]).view(torch.int16) for each in own]
            found.append(torch.stack(flat).numpy().view(np.uint16))
    return found


def main() -> None:
    """Train, and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("gradients.npy"))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--values", type=int, default=12_500_000, help="of each rank")
    parser.add_argument("--steps", type=int, default=105)
    options = parser.parse_args()
    if options.steps < EVERY:
        parser.error(f"--steps must be at least {EVERY}, not {options.steps}")
    each = np.concatenate(gradients(options.steps, options.ranks), axis=1)
    np.save(options.out, np.stack([np.resize(own, options.values) for own in each]).view("V2"))
    print(f"{options.out}: {options.values} values of each of {options.ranks} ranks, bfloat16")


if __name__ == "__main__":
    main()
