# SPDX-License-Identifier: BSD-2-Clause
"""`compress_hook` under DDP, in processes of torch."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    bf16_compress_wrapper,
    fp16_compress_wrapper,
)
from torch.nn.parallel import DistributedDataParallel
from torch_ranks import SMALL_BUCKETS, Ranks, digest, hooked, loss_of, model, sgd, steps, trained

from inceptionn import Codec
from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.torch import CompressState, compress_hook
from inceptionn.torch.link import link_of
from inceptionn.wire import variant

Found = list[dict[str, Any]]
STEPS, RESUMED_STEPS = 30, 12
COMPRESSED = ["hook", "feedback", "tensor", "rms", "bf16", "fp16", "hierarchical"]


def measured(state: CompressState, hook: Any = compress_hook, **options: Any) -> dict[str, Any]:
    before = link_of(None).transport.bytes_sent
    found = trained(state, hook, **options)
    sent = link_of(None).transport.bytes_sent - before
    return {**found, "compressed": state.compressed, "raw": state.raw, "step": state.step, "sent": sent}


def bf16_first(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Torch's wrapper, under another name: DDP takes that one's for NCCL alone, and does not look inside."""
    return bf16_compress_wrapper(compress_hook)(state, bucket)


def trainings() -> dict[str, Any]:
    one, fp16 = CompressState(scale="tensor", error_feedback=True), fp16_compress_wrapper(compress_hook)
    return {
        "plain": trained(),
        "hook": measured(CompressState(), **SMALL_BUCKETS),
        "feedback": measured(CompressState(error_feedback=True, warm_up=3), **SMALL_BUCKETS),
        "tensor": measured(CompressState(scale="tensor", error_feedback=True), **SMALL_BUCKETS),
        "tensor, one bucket": measured(one),
        "rms": measured(CompressState(codec=Codec(2**-4, "planes"), scale="rms")),
        "all raw": measured(CompressState(smallest=1 << 30)),
        "bf16": measured(CompressState(), bf16_first),
        "fp16": measured(CompressState(), fp16),
        "hierarchical": measured(CompressState(algorithm="hierarchical", group_size=2)),
    }


@pytest.fixture(scope="module")
def ranks(gloo: Ranks) -> Found:
    return gloo(trainings)


@pytest.mark.parametrize("name", COMPRESSED)
def test_trains_as_plain_ddp_to_the_same_bits(ranks: Found, name: str) -> None:
    plain, found = ranks[0]["plain"], ranks[0][name]
    for each in ("plain", name):
        assert len({rank[each]["weights"] for rank in ranks}) == 1
    assert found["weights"] != plain["weights"]
    assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)


def test_with_a_scale_per_tensor_buckets_do_not_matter(ranks: Found) -> None:
    few, many = ranks[0]["tensor, one bucket"], ranks[0]["tensor"]
    assert few["compressed"] < many["compressed"]
    assert few["weights"] == many["weights"]


def test_compressed_calls_send_less(ranks: Found) -> None:
    hook = ranks[0]["hook"]
    assert hook["compressed"] > STEPS  # several buckets a step
    assert hook["step"] == STEPS
    assert 0 < hook["sent"] < STEPS * 37_896 * 4 / 2


def test_warm_up_and_small_buckets_travel_raw(ranks: Found) -> None:
    feedback, raw = ranks[0]["feedback"], ranks[0]["all raw"]
    assert feedback["raw"] >= 3
    assert feedback["compressed"] > 0
    assert raw["compressed"] == raw["sent"] == 0
    assert raw["weights"] == ranks[0]["plain"]["weights"]


def by_tensor() -> None:
    """One backward pass with a scale per parameter, one left out, against an all-reduce of each by itself."""
    alone, ddp, transport = model(), DistributedDataParallel(model()), link_of(None).transport
    codec = Codec(2**-6, "planes")
    state = CompressState(codec=codec, scale="tensor", module=ddp, leave_out=("2.bias",))
    ddp.register_comm_hook(state, compress_hook)
    for module in (alone, ddp):
        loss_of(module).backward()
    assert len(state.statistics().parts) == 2  # of one bucket
    for (name, one), other in zip(alone.named_parameters(), ddp.parameters(), strict=True):
        path: Any = "off" if name == "2.bias" else "software"
        allreduce_comp(transport, None, one.grad.numpy(), MEAN, codec=codec, path=path)
        assert torch.equal(one.grad, other.grad)


def test_a_scale_per_tensor_is_that_of_each_by_itself(gloo: Ranks) -> None:
    gloo(by_tensor)


class Vectors(torch.nn.Module):
    """So many small parameters, of sizes 1 to 3, around a long one, with their sum as loss."""

    def __init__(self, count: int) -> None:
        super().__init__()
        sizes = [1 + each % 3 for each in range(count)]
        sizes[count // 2] = 5000
        self.vectors = torch.nn.ParameterList([torch.ones(size) for size in sizes])

    def forward(self, factor: torch.Tensor) -> torch.Tensor:
        return factor * torch.cat([vector * (1 + vector.numel()) for vector in self.vectors]).sum()


def many_tensors(count: int) -> None:
    """Two backward passes with a scale per tensor and more parameters in a bucket than a call's sections."""
    state = CompressState(scale="tensor", smallest=0)
    ddp = hooked(Vectors(count), state)
    for _ in range(2):
        ddp.zero_grad()
        ddp(torch.tensor(2.0**-10)).backward()
    assert max(float((p.grad / (1 + p.numel()) * 2**10 - 1).abs().max()) for p in ddp.parameters()) < 0.01
    assert len(state.state_dict()["residuals"]) == count
    assert state.compressed >= 2


def test_a_bucket_can_have_more_tensors_than_a_call_has_sections(gloo: Ranks) -> None:
    gloo(many_tensors, 4200)


def numbers(**options: Any) -> set[tuple[int, int]]:
    """Return number and length of every residual, by what is left out and travels raw."""
    ddp = DistributedDataParallel(model(), **SMALL_BUCKETS)
    state = CompressState(module=ddp, error_feedback=True, **options)
    ddp.register_comm_hook(state, compress_hook)
    steps(ddp, sgd(ddp), range(2))
    return {(number, values.numel()) for number, values in state.state_dict()["residuals"].items()}


def numbered() -> None:
    every = numbers()
    assert len(every) == 6
    assert set() < numbers(leave_out=("0.bias", "2.weight")) < every
    assert set() < numbers(smallest=12_000, warm_up=1) < every


def test_residuals_have_the_same_numbers_whatever_travels_raw(gloo: Ranks) -> None:
    gloo(numbered)


def fed_back(codec: str) -> float:
    """Return the norm of all residuals after one backward pass, over that of what the ranks' sum lacks."""
    state = CompressState(codec=Codec(2**-6, codec))
    alone, ddp = model(), hooked(model(), state)
    for module in (alone, ddp):
        loss_of(module).backward()
    total, mean = (torch.cat([p.grad.reshape(-1) for p in module.parameters()]) for module in (alone, ddp))
    kept = [values for _, values in sorted(state.state_dict()["residuals"].items())]
    residual = torch.cat(kept) if kept else torch.zeros(1)
    dist.all_reduce(total)
    dist.all_reduce(residual)
    return float(residual.norm() / (total - dist.get_world_size() * mean).norm())


def test_error_feedback_is_the_default_where_it_is_complete(gloo: Ranks) -> None:
    assert gloo(fed_back, "planes") == pytest.approx([1, 1], rel=1e-4)
    assert gloo(fed_back, "paper") == [0, 0]


def overflowing(dtype: torch.dtype, hook: Any = compress_hook) -> None:
    """Two steps under a GradScaler with weights of float32 beside those of the model.

    In the first, a gradient of the last rank has an infinity and a NaN: at their places, and nowhere else,
    all ranks get none that is finite. The step is left out, the next one is made.
    """
    module = model().to(dtype)
    ddp = hooked(module, CompressState(), hook)
    weights = [p.detach().float().requires_grad_() for p in module.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clone().index_put_(
            (torch.tensor([1, 7]), torch.tensor([3, 5])), torch.tensor([-torch.inf, torch.nan], dtype=dtype)
        )

    last = dist.get_rank() == dist.get_world_size() - 1
    spoiling = module[0].weight.register_hook(spoil if last else torch.clone)
    for spoilt in (True, False):
        before = [weight.clone() for weight in weights]
        ddp.zero_grad()
        scaler.scale(loss_of(ddp)).backward()
        for weight, parameter in zip(weights, module.parameters(), strict=True):
            weight.grad = parameter.grad.float()
        spoiling.remove()
        lost = [torch.nonzero(~torch.isfinite(weight.grad)).tolist() for weight in weights]
        scaler.step(optimizer)
        scaler.update()
        changed = [not torch.equal(*each) for each in zip(before, weights, strict=True)]
        assert lost == [[[1, 3], [7, 5]] if spoilt else [], [], [], [], [], []]
        assert changed == [not spoilt] * 6
        assert scaler.get_scale() == 0.5


def overflowing_everywhere() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        overflowing(dtype)
    for hook in (bf16_first, fp16_compress_wrapper(compress_hook)):
        overflowing(torch.float32, hook)


def test_a_grad_scaler_sees_what_overflowed_at_another_rank(gloo: Ranks) -> None:
    gloo(overflowing_everywhere)


def of_type(name: str, feedback: bool) -> None:
    """One backward pass of a model whose buckets have 16 bits per value, against the mean in float32."""
    dtype = getattr(torch, name)
    state = CompressState(codec=Codec(2**-12, "planes"), error_feedback=feedback)
    alone, ddp = model().to(dtype), hooked(model().to(dtype), state)
    for module in (alone, ddp):
        loss_of(module).backward()
    mean, found = (
        torch.cat([p.grad.float().reshape(-1) for p in module.parameters()]) for module in (alone, ddp)
    )
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    assert 0 < float((found - mean).abs().max() / mean.abs().max()) < 2**-8
    assert {p.grad.dtype for p in ddp.parameters()} == {dtype}
    assert state.compressed > 0


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_buckets_of_16_bits_need_no_wrapper(gloo: Ranks, dtype: str, feedback: bool) -> None:
    """Sums are of float32: one rounding to the type beside the codec's error."""
    gloo(of_type, dtype, feedback)


def scheduled(step: int) -> Codec:
    return Codec(2**-8 if step < RESUMED_STEPS // 2 else 2**-12)


def resumed(interrupted: bool, **options: Any) -> tuple[str, float]:
    """Train, and in the middle begin anew from what was saved if ``interrupted``, or else go on.

    Return the weights, and the loss.
    """
    module = model()
    state = CompressState(codec=scheduled, error_feedback=True, warm_up=2)
    ddp = hooked(module, state, **options)
    optimizer = sgd(ddp)
    steps(ddp, optimizer, range(RESUMED_STEPS // 2))
    if interrupted:
        saved = state.state_dict()
        weights, momenta = module.state_dict(), optimizer.state_dict()
        module = model()
        module.load_state_dict(weights)
        state = CompressState(codec=scheduled, error_feedback=True, warm_up=2)
        state.load_state_dict(saved)
        ddp = hooked(module, state, **options)
        optimizer = sgd(ddp)
        optimizer.load_state_dict(momenta)
        kept, before = state.state_dict()["residuals"], saved["residuals"]
        assert kept.keys() == before.keys()
        assert all(torch.equal(kept[n], before[n]) for n in kept)
        assert len(kept) == 6  # each parameter's
    loss = steps(ddp, optimizer, range(RESUMED_STEPS // 2, RESUMED_STEPS))
    assert state.step == RESUMED_STEPS
    return digest(module), loss


def resuming() -> None:
    """To the same bits, and to about the same loss where the buckets are dealt out anew."""
    going_on = resumed(False)
    assert resumed(True) == going_on
    assert resumed(True, **SMALL_BUCKETS)[1] == pytest.approx(going_on[1], rel=0.1)


def test_resumes(gloo: Ranks) -> None:
    gloo(resuming)


def swapped() -> None:
    """Look at the bytes of a step before and after another codec was assigned; save and load it."""
    state = CompressState(codec=Codec(2**-14))
    ddp = hooked(model(), state)
    optimizer, transport, sent = sgd(ddp), link_of(None).transport, []
    for step in range(2):
        before = transport.bytes_sent
        steps(ddp, optimizer, range(step, step + 1))
        sent.append(transport.bytes_sent - before)
        state.codec = Codec(2**-4)
    assert sent[1] < sent[0] / 2
    other = CompressState(codec=Codec(2**-14))
    other.load_state_dict(state.state_dict())
    assert other.codec == Codec(2**-4)


def test_the_codec_is_swapped_while_training(gloo: Ranks) -> None:
    gloo(swapped)


@pytest.mark.parametrize("mode", ["literal", "planes"])
def test_a_state_saved_before_planes_was_a_codec_resumes(mode: str) -> None:
    state, again = CompressState(), CompressState()
    state.load_state_dict({"step": 3, "codec": {"error_bound": 2**-8, "mode": mode}, "residuals": {}})
    assert state.codec == Codec(2**-8, *variant(mode))
    again.load_state_dict(state.state_dict())
    assert again.codec == state.codec


def test_settings_are_those_of_an_all_reduce_but_for_its_array() -> None:
    state = CompressState(algorithm="worker_aggregator", legs="up", sub_block=512)
    settings = state.settings
    assert (settings.algorithm, settings.legs, settings.sub_block) == ("worker_aggregator", "up", 512)
    for name in ("dtype", "foo"):
        with pytest.raises(
            TypeError, match=rf"^CompressState\(\) got an unexpected keyword argument '{name}'$"
        ):
            CompressState(**{name: None})


@pytest.mark.parametrize("wrong", [2, -0.5, float("nan"), "x"])
def test_a_wrong_error_feedback_is_named(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="^error_feedback must be "):
        CompressState(error_feedback=wrong)


@pytest.mark.parametrize("off", [False, 0, 0.0, np.False_])
def test_no_error_feedback_keeps_no_residuals(off: Any) -> None:
    assert CompressState(error_feedback=off).residuals is None
    assert CompressState().residuals is not None
