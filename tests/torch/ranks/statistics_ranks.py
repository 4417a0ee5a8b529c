# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_statistics`: what states and groups say of their trainings."""

import json
import logging
import time
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from ranks import digest, model, sgd, steps
from torch.nn.parallel import DistributedDataParallel

from inceptionn import Codec
from inceptionn.torch import CompressState, compress_hook, compressed, fsdp_hook
from inceptionn.torch.link import link_of

STEPS, WARM_UP = 20, 4
CODEC = Codec(2**-10, "planes")


class Lines(logging.Handler):
    """Keeps the lines of a logger."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Curves:
    """A writer of scalars: tag, value, step."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.scalars.append((tag, scalar_value, global_step))


def train(state: CompressState, module: torch.nn.Module, count: int = STEPS) -> str:
    ddp = DistributedDataParallel(module, bucket_cap_mb=0.1)
    ddp.register_comm_hook(state, compress_hook)
    steps(ddp, sgd(ddp), range(count))
    return digest(module)


def of_the_hook() -> dict[str, Any]:
    logger, lines, curves = logging.getLogger("inceptionn.torch"), Lines(), Curves()
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    transport = link_of(None).transport
    before = transport.bytes_sent
    state = CompressState(codec=CODEC, warm_up=WARM_UP, log_every=5, tensorboard=curves)
    train(state, model())
    sent = transport.bytes_sent - before
    found = {"statistics": state.statistics().as_dict(), "sent": sent, "text": str(state)}
    found["json"] = json.loads(state.statistics().to_json())
    found["own ledger"] = transport_calls(transport)
    del state  # nothing else holds it: DDP is gone
    return {**found, "lines": lines.lines, "scalars": curves.scalars}


def transport_calls(transport: Any) -> int:
    from inceptionn.collectives import statistics

    return statistics(transport).calls


def of_left_out() -> dict[str, Any]:
    """Send a layer's matrix and all biases raw: their mean is that of plain DDP, to the bit."""
    module, plain = model(), model()
    state = CompressState(codec=Codec(2**-4, "planes"), module=module, leave_out=("0", "*.bias"),
                          error_feedback=True)  # fmt: skip
    weights = train(state, module, 1)
    train(CompressState(smallest=1 << 30), plain, 1)
    pairs = zip(module.named_parameters(), plain.parameters(), strict=True)
    return {
        "same": [name for (name, one), other in pairs if torch.equal(one, other)],
        "weights": weights,
        "residuals": sorted(values.numel() for values in state.state_dict()["residuals"].values()),
        "parts": [(part.name, part.path) for part in state.statistics().parts],
    }


def of_a_raw_last_bucket() -> dict[str, Any]:
    """Bytes by step, where compressed buckets still wait for the connections as the last one leaves raw."""
    curves = Curves()
    state = CompressState(codec=CODEC, smallest=7_000, tensorboard=curves)
    module, link = model(), link_of(None)
    ddp = DistributedDataParallel(module, bucket_cap_mb=0.12)
    ddp.register_comm_hook(state, slowed)
    optimizer = sgd(ddp)
    steps(ddp, optimizer, range(4))
    link.run_until(link.submit(lambda: None))
    bytes_by_step = [value for tag, value, _ in curves.scalars if tag == "inceptionn/bytes_before"]
    return {"bytes": bytes_by_step, "paths": sorted(part.path for part in state.statistics().parts)}


def slowed(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Let every bucket wait for the connections."""
    link_of(None).submit(lambda: time.sleep(0.05))
    return compress_hook(state, bucket)


def of_refusals() -> dict[str, str]:
    said, module = {}, model()
    for name, make in {
        "pattern": lambda: CompressState(module=module, leave_out=("no.such*",)),
        "module": lambda: CompressState(leave_out=("0",)),
        "text": lambda: CompressState(module=module, leave_out="0"),
        "log_every": lambda: CompressState(log_every=-1),
        "writer": lambda: CompressState(tensorboard=3),
        "fsdp": lambda: fsdp_hook(CompressState(module=module, leave_out=("0",)), torch.zeros(8192)),
        "tensor": lambda: fsdp_hook(CompressState(scale="tensor"), torch.zeros(8192)),
        "group": lambda: compressed(dist.new_group(backend="inceptionn"), CODEC, scale="tensor"),
        "differs": lambda: train(CompressState(module=module, leave_out=(str(2 * dist.get_rank()),)), module),
    }.items():
        try:
            make()
        except (TypeError, ValueError, RuntimeError) as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def of_a_group() -> dict[str, Any]:
    group = dist.new_group(backend="inceptionn")
    state = compressed(group, CODEC)
    for _ in range(3):
        dist.all_reduce(torch.from_numpy(np.linspace(-1, 1, 40_000, dtype=np.float32)), group=group)
        dist.all_reduce(torch.ones(8), group=group)
    return state.statistics().as_dict()


def main() -> dict[str, Any]:
    dist.init_process_group("gloo")
    found: dict[str, Any] = {
        "hook": of_the_hook(),
        "left out": of_left_out(),
        "raw last": of_a_raw_last_bucket(),
        "said": of_refusals(),
    }
    dist.barrier()
    found["group"] = of_a_group()
    return found
