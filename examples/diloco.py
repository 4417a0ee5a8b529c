# SPDX-License-Identifier: BSD-2-Clause
"""Trains with local updates: 16 steps of AdamW at each rank, then one outer step of all, compressed.

    torchrun --standalone --nproc-per-node 2 examples/diloco.py

On two hosts, at each of them with its number N, 0 or 1, and the address of the first:

    torchrun --nnodes 2 --node-rank N --nproc-per-node 1 --master-addr 10.0.0.1 --master-port 29500 \\
        examples/diloco.py
"""

import argparse
from hashlib import sha256

import torch
import torch.distributed as dist

from inceptionn.torch import DiLoCo

INPUTS, HIDDEN, CLASSES, BATCH = 32, 192, 8, 16


def main() -> None:
    """Train, and let rank 0 print losses and statistics."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=160, help="inner steps")
    parser.add_argument("--every", type=int, default=16, help="inner steps between two outer steps")
    parser.add_argument("--delay", type=int, default=0, help="inner steps while an exchange is in flight")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    layers = [torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    diloco = DiLoCo(model, optimizer, arguments.every, delay=arguments.delay)  # gives all rank 0's weights
    torch.manual_seed(dist.get_rank())  # each rank draws samples of its own
    for step in range(1, arguments.steps + 1):
        inputs = torch.randn(BATCH, INPUTS)
        loss = torch.nn.functional.cross_entropy(model(inputs), inputs[:, :CLASSES].argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if diloco.step() and dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    diloco.synchronize()  # nothing to do if the last step was an outer one, without a delay
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"rank {dist.get_rank()}: weights {sha256(weights).hexdigest()[:16]}", flush=True)
    if dist.get_rank() == 0:
        print(diloco, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
