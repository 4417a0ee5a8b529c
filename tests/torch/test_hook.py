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
from torch_ranks import SMALL_BUCKETS, Ranks, digest, hooked, loss_of, model, said, sgd, steps, trained

from inceptionn import Codec
from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.torch import CompressState, compress_hook
from inceptionn.torch.link import link_of
from inceptionn.wire import variant

Found = list[dict[str, Any]]
STEPS, RESUMED_STEPS = 30, 12
COMPRESSED = ["hook", "feedback", "tensor", "bf16", "fp16", "hierarchical"]


def measured(state: CompressState, hook: Any = compress_hook, **options: Any) -> dict[str, Any]:
    before = link_of(None).transport.bytes_sent
    found = trained(state, hook, **options)
    sent = link_of(None).transport.bytes_sent - before
    return {**found, "compressed": state.compressed, "raw": state.raw, "step": state.step, "sent": sent}


def bf16_first(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Torch's wrapper, under another name: DDP takes that one's for NCCL alone, and does not look inside."""
    return bf16_compress_wrapper(compress_hook)(state, bucket)


def scheduled(step: int) -> Codec:
    return Codec(2**-8 if step < RESUMED_STEPS // 2 else 2**-12)


def resumed(interrupted: bool, **options: Any) -> dict[str, Any]:
    """Train, and in the middle begin anew from what was saved if ``interrupted``, or else go on."""
    module = model()
    state = CompressState(codec=scheduled, error_feedback=True, warm_up=2)
    ddp = hooked(module, state, **options)
    optimizer = sgd(ddp)
    steps(ddp, optimizer, range(RESUMED_STEPS // 2))
    found: dict[str, Any] = {}
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
        again = state.state_dict()
        kept, before = again["residuals"], saved["residuals"]
        found["residuals"] = len(kept)
        found["same"] = kept.keys() == before.keys() and all(torch.equal(kept[n], before[n]) for n in kept)
    loss = steps(ddp, optimizer, range(RESUMED_STEPS // 2, RESUMED_STEPS))
    return {**found, "weights": digest(module), "loss": loss, "step": state.step}


def swapped() -> dict[str, Any]:
    """Bytes of a step before and after another codec was assigned; then it is saved and loaded."""
    state = CompressState(codec=Codec(2**-14))
    ddp = hooked(model(), state)
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
    ddp = hooked(model(), CompressState(codec=Codec(2 ** -(8 + dist.get_rank()))))
    return said(lambda: steps(ddp, sgd(ddp), range(1)))


def overflowing(dtype: torch.dtype, hook: Any = compress_hook) -> list[list[Any]]:
    """Two steps under a GradScaler with weights of float32 beside those of the model.

    In the first, a gradient of the last rank has an infinity and a NaN. Of each step: the places that are
    not finite, whether the weights changed, and the scale after it.
    """
    module = model().to(dtype)
    ddp = hooked(module, CompressState(), hook)
    weights = [p.detach().float().requires_grad_() for p in module.parameters()]
    optimizer, found = torch.optim.SGD(weights, lr=0.05), []
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clone().index_put_(
            (torch.tensor([1, 7]), torch.tensor([3, 5])), torch.tensor([-torch.inf, torch.nan], dtype=dtype)
        )

    last = dist.get_rank() == dist.get_world_size() - 1
    spoiling = module[0].weight.register_hook(spoil if last else torch.clone)
    for _ in range(2):
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
        found.append([lost, changed, scaler.get_scale()])
    return found


def of_type(dtype: torch.dtype, feedback: bool) -> dict[str, Any]:
    """One backward pass of a model whose buckets have 16 bits per value, against the mean in float32."""
    state = CompressState(codec=Codec(2**-12, "planes"), error_feedback=feedback)
    alone, ddp = model().to(dtype), hooked(model().to(dtype), state)
    for module in (alone, ddp):
        loss_of(module).backward()
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
    for module in (alone, ddp):
        loss_of(module).backward()
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
    state = CompressState(scale="tensor", smallest=0)
    ddp = hooked(Vectors(count), state)
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
    state = CompressState(codec=codec)
    alone, ddp = model(), hooked(model(), state)
    for module in (alone, ddp):
        loss_of(module).backward()
    total, mean = (torch.cat([p.grad.reshape(-1) for p in module.parameters()]) for module in (alone, ddp))
    kept = [values for _, values in sorted(state.state_dict()["residuals"].items())]
    residual = torch.cat(kept) if kept else torch.zeros(1)
    dist.all_reduce(total)
    dist.all_reduce(residual)
    return float(residual.norm() / (total - dist.get_world_size() * mean).norm())


def findings() -> dict[str, Any]:
    found: dict[str, Any] = {"plain": trained()}
    found["hook"] = measured(CompressState(), **SMALL_BUCKETS)
    found["feedback"] = measured(CompressState(error_feedback=True, warm_up=3), **SMALL_BUCKETS)
    found["tensor"] = measured(CompressState(scale="tensor", error_feedback=True), **SMALL_BUCKETS)
    found["tensor, one bucket"] = measured(CompressState(scale="tensor", error_feedback=True))
    found["by tensor"] = by_tensor()
    found["many tensors"] = many_tensors(4200)
    found["numbered"] = numbered()
    found["fed back"] = [fed_back(Codec(2**-6, codec)) for codec in ("planes", "paper")]
    found["all raw"] = measured(CompressState(smallest=1 << 30))
    found["bf16"] = measured(CompressState(), bf16_first)
    found["fp16"] = measured(CompressState(), fp16_compress_wrapper(compress_hook))
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
    found["hierarchical"] = measured(CompressState(algorithm="hierarchical", group_size=2))
    found["going on"], found["resumed"] = resumed(False), resumed(True)
    found["resumed, buckets"] = resumed(True, **SMALL_BUCKETS)
    found["swapped"] = swapped()
    found["disagreeing"] = disagreeing()
    return found


@pytest.fixture(scope="module")
def ranks(gloo: Ranks) -> Found:
    return gloo(findings)


@pytest.mark.parametrize("name", ["plain", *COMPRESSED])
def test_all_ranks_have_the_same_bits(ranks: Found, name: str) -> None:
    assert len({rank[name]["weights"] for rank in ranks}) == 1


@pytest.mark.parametrize("name", COMPRESSED)
def test_trains_as_plain_ddp(ranks: Found, name: str) -> None:
    plain, found = ranks[0]["plain"], ranks[0][name]
    assert found["weights"] != plain["weights"]
    assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)


def test_a_scale_per_tensor_is_that_of_each_by_itself(ranks: Found) -> None:
    for rank in ranks:
        assert rank["by tensor"] == {"equal": [True] * 6, "buckets": 1}


def test_a_bucket_can_have_more_tensors_than_a_call_has_sections(ranks: Found) -> None:
    for rank in ranks:
        found = rank["many tensors"]
        assert found["error"] < 0.01
        assert found["residuals"] == 4200
        assert found["compressed"] >= 2


def test_residuals_have_the_same_numbers_whatever_travels_raw(ranks: Found) -> None:
    for rank in ranks:
        every = rank["numbered"]["none"]
        assert len(every) == 6
        for name in ("left out", "small ones"):
            kept = rank["numbered"][name]
            assert 0 < len(kept) < 6
            assert all(each in every for each in kept)


def test_error_feedback_is_the_default_where_it_is_complete(ranks: Found) -> None:
    planes, paper = ranks[0]["fed back"]
    assert planes == pytest.approx(1, rel=1e-4)
    assert paper == 0


def test_with_a_scale_per_tensor_buckets_do_not_matter(ranks: Found) -> None:
    few, many = ranks[0]["tensor, one bucket"], ranks[0]["tensor"]
    assert few["compressed"] < many["compressed"]
    assert few["weights"] == many["weights"]


def test_compressed_calls_send_less(ranks: Found) -> None:
    hook = ranks[0]["hook"]
    assert hook["compressed"] > STEPS  # several buckets a step
    assert hook["step"] == STEPS
    assert 0 < hook["sent"] < STEPS * 37_896 * 4 / 2


@pytest.mark.parametrize(
    "buckets", ["float32", "bfloat16", "float16", "bfloat16, wrapped", "float16, wrapped"]
)
def test_a_grad_scaler_sees_what_overflowed_at_another_rank(ranks: Found, buckets: str) -> None:
    """At its places and nowhere else: the step is left out, the next one is made."""
    for rank in ranks:
        (lost, changed, scale), second = rank["overflowing"][buckets]
        assert lost == [[[1, 3], [7, 5]], [], [], [], [], []]
        assert (changed, scale) == ([False] * 6, 0.5)
        assert second == [[[]] * 6, [True] * 6, 0.5]


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("dtype", ["torch.bfloat16", "torch.float16"])
def test_buckets_of_16_bits_need_no_wrapper(ranks: Found, dtype: str, feedback: bool) -> None:
    """Sums are of float32: one rounding to the type beside the codec's error."""
    for rank in ranks:
        found = rank["types"][f"{dtype}, {feedback}"]
        assert found["types"] == [dtype]
        assert found["compressed"] > 0
        assert 0 < found["error"] < 2**-8


def test_warm_up_and_small_buckets_travel_raw(ranks: Found) -> None:
    feedback, raw = ranks[0]["feedback"], ranks[0]["all raw"]
    assert feedback["raw"] >= 3
    assert feedback["compressed"] > 0
    assert raw["compressed"] == raw["sent"] == 0
    assert raw["weights"] == ranks[0]["plain"]["weights"]


def test_resumes_to_the_same_bits(ranks: Found) -> None:
    for rank in ranks:
        assert rank["resumed"]["same"]
        assert rank["resumed"]["residuals"] == 6  # each parameter's
        assert rank["resumed"]["step"] == rank["going on"]["step"] == 12
        assert rank["resumed"]["weights"] == rank["going on"]["weights"]


def test_resumes_where_the_buckets_are_dealt_out_anew(ranks: Found) -> None:
    for rank in ranks:
        found = rank["resumed, buckets"]
        assert found["same"]
        assert found["loss"] == pytest.approx(rank["going on"]["loss"], rel=0.1)


def test_the_codec_is_swapped_while_training(ranks: Found) -> None:
    before, after = ranks[0]["swapped"]["sent"]
    assert after < before / 2
    assert "0.0625" in ranks[0]["swapped"]["loaded"]


def test_ranks_that_disagree_are_told(ranks: Found) -> None:
    for rank in ranks:
        assert "codec differs: rank 0 has" in rank["disagreeing"]


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


@pytest.mark.parametrize("off", [False, 0, 0.0, np.False_])
def test_no_error_feedback_keeps_no_residuals(off: Any) -> None:
    assert CompressState(error_feedback=off).residuals is None
    assert CompressState().residuals is not None
