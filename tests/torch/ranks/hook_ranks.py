# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_hook`: trainings with DDP and hooks."""

import warnings
from typing import Any

import torch
import torch.distributed as dist
from ranks import batch, digest, model, sgd, steps, trained
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    bf16_compress_wrapper,
    fp16_compress_wrapper,
)
from torch.nn.parallel import DistributedDataParallel

from inceptionn import Codec
from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.torch import CompressState, compress_hook
from inceptionn.torch.link import link_of

SMALL_BUCKETS = {"bucket_cap_mb": 0.05}
STEPS = 12


def hooked(state: CompressState, hook: Any = compress_hook, **options: Any) -> dict[str, Any]:
    before = link_of(None).transport.bytes_sent
    found = trained(lambda ddp: ddp.register_comm_hook(state, hook), **options)
    sent = link_of(None).transport.bytes_sent - before
    return {**found, "compressed": state.compressed, "raw": state.raw, "step": state.step, "sent": sent}


def bf16_first(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Torch's wrapper, under another name: DDP takes that one's for NCCL alone, and does not look inside."""
    return bf16_compress_wrapper(compress_hook)(state, bucket)


def scheduled(step: int) -> Codec:
    return Codec(2**-8 if step < STEPS // 2 else 2**-12)


def resumed(interrupted: bool, **options: Any) -> dict[str, Any]:
    """Train, and in the middle begin anew from what was saved if ``interrupted``, or else go on."""
    module = model()
    ddp = DistributedDataParallel(module, **options)
    state = CompressState(codec=scheduled, error_feedback=True, warm_up=2)
    ddp.register_comm_hook(state, compress_hook)
    optimizer = sgd(ddp)
    steps(ddp, optimizer, range(STEPS // 2))
    found: dict[str, Any] = {}
    if interrupted:
        saved = state.state_dict()
        weights, momenta = module.state_dict(), optimizer.state_dict()
        module = model()
        module.load_state_dict(weights)
        ddp = DistributedDataParallel(module, **options)
        state = CompressState(codec=scheduled, error_feedback=True, warm_up=2)
        state.load_state_dict(saved)
        ddp.register_comm_hook(state, compress_hook)
        optimizer = sgd(ddp)
        optimizer.load_state_dict(momenta)
        again = state.state_dict()
        kept, before = again["residuals"], saved["residuals"]
        found["residuals"] = len(kept)
        found["same"] = kept.keys() == before.keys() and all(torch.equal(kept[n], before[n]) for n in kept)
    loss = steps(ddp, optimizer, range(STEPS // 2, STEPS))
    return {**found, "weights": digest(module), "loss": loss, "step": state.step}


def swapped() -> dict[str, Any]:
    """Bytes of a step before and after another codec was assigned; then it is saved and loaded."""
    module = model()
    ddp = DistributedDataParallel(module)
    state = CompressState(codec=Codec(2**-14))
    ddp.register_comm_hook(state, compress_hook)
    optimizer, transport, sent = sgd(ddp), link_of(None).transport, []
    for step in range(2):
        before = transport.bytes_sent
        steps(ddp, optimizer, range(step, step + 1))
        sent.append(transport.bytes_sent - before)
        state.codec = Codec(2**-4)
    other = CompressState(codec=Codec(2**-14))
    other.load_state_dict(state.state_dict())
    return {"sent": sent, "loaded": repr(other.codec)}


def disagreeing() -> str:
    """Ranks with codecs that differ: what the backward pass raises."""
    ddp = DistributedDataParallel(model())
    ddp.register_comm_hook(CompressState(codec=Codec(2 ** -(8 + dist.get_rank()))), compress_hook)
    try:
        steps(ddp, sgd(ddp), range(1))
    except RuntimeError as error:
        return str(error)
    return "nothing"


def overflowing(dtype: torch.dtype, hook: Any = compress_hook) -> list[list[Any]]:
    """Two steps under a GradScaler with weights of float32 beside those of the model.

    In the first, a gradient of the last rank has an infinity and a NaN. Of each step: the places that are
    not finite, whether the weights changed, and the scale after it.
    """
    module = model().to(dtype)
    ddp = DistributedDataParallel(module)
    ddp.register_comm_hook(CompressState(), hook)
    weights = [p.detach().float().requires_grad_() for p in module.parameters()]
    optimizer, found = torch.optim.SGD(weights, lr=0.05), []
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    inputs, labels = batch(0)

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clone().index_put_(
            (torch.tensor([1, 7]), torch.tensor([3, 5])), torch.tensor([-torch.inf, torch.nan], dtype=dtype)
        )

    last = dist.get_rank() == dist.get_world_size() - 1
    spoiling = module[0].weight.register_hook(spoil if last else torch.clone)
    for _ in range(2):
        before = [weight.clone() for weight in weights]
        ddp.zero_grad()
        scaler.scale(torch.nn.functional.cross_entropy(ddp(inputs.to(dtype)).float(), labels)).backward()
        for weight, parameter in zip(weights, module.parameters(), strict=True):
            weight.grad = parameter.grad.float()
        spoiling.remove()
        lost = [torch.nonzero(~torch.isfinite(weight.grad)).tolist() for weight in weights]
        scaler.step(optimizer)
        scaler.update()
        changed = [not torch.equal(*each) for each in zip(before, weights, strict=True)]
        found.append([lost, changed, scaler.get_scale()])
    return found


def of_type(dtype: torch.dtype, feedback: bool) -> dict[str, Any]:
    """One backward pass of a model whose buckets have 16 bits per value, against the mean in float32."""
    alone, ddp = model().to(dtype), DistributedDataParallel(model().to(dtype))
    state = CompressState(codec=Codec(2**-12, "planes"), error_feedback=feedback)
    ddp.register_comm_hook(state, compress_hook)
    inputs, labels = batch(0)
    for module in (alone, ddp):
        torch.nn.functional.cross_entropy(module(inputs.to(dtype)).float(), labels).backward()
    mean, found = (
        torch.cat([p.grad.float().reshape(-1) for p in module.parameters()]) for module in (alone, ddp)
    )
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    error = float((found - mean).abs().max() / mean.abs().max())
    types = {str(p.grad.dtype) for p in ddp.parameters()}
    return {"error": error, "types": sorted(types), "compressed": state.compressed}


def by_tensor() -> dict[str, Any]:
    """One backward pass with a scale per parameter, one left out, against an all-reduce of each by itself."""
    alone, ddp, transport = model(), DistributedDataParallel(model()), link_of(None).transport
    codec = Codec(2**-6, "planes")
    state = CompressState(codec=codec, scale="tensor", module=ddp, leave_out=("2.bias",))
    ddp.register_comm_hook(state, compress_hook)
    inputs, labels = batch(0)
    for module in (alone, ddp):
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
    found: dict[str, Any] = {"equal": [], "buckets": len(state.statistics().parts) // 2}
    for (name, one), other in zip(alone.named_parameters(), ddp.parameters(), strict=True):
        path: Any = "off" if name == "2.bias" else "software"
        allreduce_comp(transport, None, one.grad.numpy(), MEAN, codec=codec, path=path)
        found["equal"].append(torch.equal(one.grad, other.grad))
    return found


class Vectors(torch.nn.Module):
    """So many small parameters, of sizes 1 to 3, around a long one, with their sum as loss."""

    def __init__(self, count: int) -> None:
        super().__init__()
        sizes = [1 + each % 3 for each in range(count)]
        sizes[count // 2] = 5000
        self.vectors = torch.nn.ParameterList([torch.ones(size) for size in sizes])

    def forward(self, factor: torch.Tensor) -> torch.Tensor:
        return factor * torch.cat([vector * (1 + vector.numel()) for vector in self.vectors]).sum()


def many_tensors(count: int) -> dict[str, Any]:
    """Two backward passes with a scale per tensor and more parameters in a bucket than a call's sections."""
    ddp = DistributedDataParallel(Vectors(count))
    state = CompressState(scale="tensor", smallest=0)
    ddp.register_comm_hook(state, compress_hook)
    for _ in range(2):
        ddp.zero_grad()
        ddp(torch.tensor(2.0**-10)).backward()
    error = max(float((p.grad / (1 + p.numel()) * 2**10 - 1).abs().max()) for p in ddp.parameters())
    return {"error": error, "residuals": len(state.state_dict()["residuals"]), "compressed": state.compressed}


def numbered() -> dict[str, list[int]]:
    """Return number and length of every residual, by what is left out and travels raw."""
    found = {}
    for name, options in {
        "none": {},
        "left out": {"leave_out": ("0.bias", "2.weight")},
        "small ones": {"smallest": 12_000, "warm_up": 1},
    }.items():
        ddp = DistributedDataParallel(model(), **SMALL_BUCKETS)
        state = CompressState(module=ddp, error_feedback=True, **options)
        ddp.register_comm_hook(state, compress_hook)
        steps(ddp, sgd(ddp), range(2))
        kept = state.state_dict()["residuals"]
        found[name] = sorted([number, values.numel()] for number, values in kept.items())
    return found


def fed_back(codec: Codec) -> float:
    """Return the norm of all residuals after one backward pass, over that of what the ranks' sum lacks."""
    alone, ddp = model(), DistributedDataParallel(model())
    state = CompressState(codec=codec)
    ddp.register_comm_hook(state, compress_hook)
    inputs, labels = batch(0)
    for module in (alone, ddp):
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
    total, mean = (torch.cat([p.grad.reshape(-1) for p in module.parameters()]) for module in (alone, ddp))
    kept = [values for _, values in sorted(state.state_dict()["residuals"].items())]
    residual = torch.cat(kept) if kept else torch.zeros(1)
    dist.all_reduce(total)
    dist.all_reduce(residual)
    return float(residual.norm() / (total - dist.get_world_size() * mean).norm())


def main() -> dict[str, Any]:
    warnings.simplefilter("error", RuntimeWarning)
    dist.init_process_group("gloo")
    found: dict[str, Any] = {"plain": trained(lambda ddp: None)}
    found["hook"] = hooked(CompressState(), **SMALL_BUCKETS)
    found["feedback"] = hooked(CompressState(error_feedback=True, warm_up=3), **SMALL_BUCKETS)
    found["tensor"] = hooked(CompressState(scale="tensor", error_feedback=True), **SMALL_BUCKETS)
    found["tensor, one bucket"] = hooked(CompressState(scale="tensor", error_feedback=True))
    found["by tensor"] = by_tensor()
    found["many tensors"] = many_tensors(4200)
    found["numbered"] = numbered()
    found["fed back"] = [fed_back(Codec(2**-6, codec)) for codec in ("planes", "paper")]
    found["all raw"] = hooked(CompressState(smallest=1 << 30))
    found["bf16"] = hooked(CompressState(), bf16_first)
    found["fp16"] = hooked(CompressState(), fp16_compress_wrapper(compress_hook))
    found["types"] = {
        f"{dtype}, {feedback}": of_type(dtype, feedback)
        for dtype in (torch.bfloat16, torch.float16)
        for feedback in (False, True)
    }
    found["overflowing"] = {
        "float32": overflowing(torch.float32),
        "bfloat16": overflowing(torch.bfloat16),
        "float16": overflowing(torch.float16),
        "bfloat16, wrapped": overflowing(torch.float32, bf16_first),
        "float16, wrapped": overflowing(torch.float32, fp16_compress_wrapper(compress_hook)),
    }
    found["hierarchical"] = hooked(CompressState(algorithm="hierarchical", group_size=2))
    found["going on"], found["resumed"] = resumed(False), resumed(True)
    found["resumed, buckets"] = resumed(True, **SMALL_BUCKETS)
    found["swapped"] = swapped()
    found["disagreeing"] = disagreeing()
    return found
