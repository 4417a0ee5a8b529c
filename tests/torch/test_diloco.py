# SPDX-License-Identifier: BSD-2-Clause
"""Local updates: equal sums, the outer step, resumption, residuals, delays and errors, over gloo."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from programs import said_by
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch_ranks import Ranks, loss_of, model, said, same, saved_and_loaded

from inceptionn import Codec
from inceptionn.torch import DiLoCo
from inceptionn.torch.local_updates.diloco import default_codec
from inceptionn.torch.local_updates.fragment import digest_of

Started = tuple[torch.nn.Module, torch.optim.Optimizer, DiLoCo]
EXAMPLE = Path(__file__).parents[2] / "examples" / "diloco.py"


def started(every: int = 4, module: torch.nn.Module | None = None, **settings: Any) -> Started:
    """Return a model, which is the same at all ranks unless it is given, its optimizer and local updates."""
    module = model() if module is None else module
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
    return module, optimizer, DiLoCo(module, optimizer, every, **settings)


def digest(module: torch.nn.Module) -> str:
    """Return that of all bits of a module's parameters, of any type."""
    return digest_of(module.parameters())


def steps(of: Started, which: range) -> list[str]:
    """Train; return the digest of the weights after each inner step."""
    module, optimizer, diloco = of
    found = []
    for step in which:
        optimizer.zero_grad()
        loss_of(module, step).backward()
        optimizer.step()
        diloco.step()
        found.append(digest(module))
    return found


def moved(diloco: DiLoCo, *amounts: float) -> None:
    """Take an inner step that subtracts amounts from the model's one parameter."""
    (parameter,) = diloco._parameters.values()
    with torch.no_grad():
        parameter.sub_(torch.tensor(amounts, dtype=parameter.dtype).reshape(parameter.shape))
    diloco.step()


class Weights(torch.nn.Module):
    """One parameter of some values, of any type."""

    def __init__(self, *values: complex, kind: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(values, dtype=kind))


# Every H steps all ranks have one model


def training() -> tuple[list[str], float, Any]:
    of = started()
    before = float(loss_of(of[0], 99).detach())
    found = steps(of, range(12))
    return found, float(loss_of(of[0], 99).detach()) / before, of[2].statistics().as_dict()


def test_all_ranks_have_one_model_after_every_h_steps(gloo: Ranks) -> None:
    (one, better, counted), (other, *_) = gloo(training)
    assert [step for step in range(12) if one[step] == other[step]] == [3, 7, 11]
    assert better < 0.9
    assert (counted["calls"], counted["torch_calls"], counted["path"]) == (3, 0, "software")
    assert counted["values"] == 3 * 38_504
    assert [part["name"] for part in counted["parts"]] == ["fragment 0, 38504 values"]
    assert counted["ratio"] > 7


def outer() -> None:
    """Compare a few outer steps with torch's SGD on the mean of what all ranks have done."""
    of = started(2, path="off", outer_lr=0.6, outer_momentum=0.8)
    module, optimizer, diloco = of
    reference = [each.detach().clone() for each in module.parameters()]
    sgd = torch.optim.SGD(reference, lr=0.6, momentum=0.8, nesterov=True)
    begun = diloco.step
    means: list[torch.Tensor] = []

    def step() -> bool:
        means[:] = [each.detach().clone() for each in module.parameters()]
        for mean in means:
            dist.all_reduce(mean)
        return begun()

    diloco.step = step  # type: ignore[method-assign]
    for number in range(4):
        steps(of, range(2 * number, 2 * number + 2))
        for weights, mean in zip(reference, means, strict=True):
            weights.grad = weights - mean / dist.get_world_size()
        sgd.step()
        for weights, parameter in zip(reference, module.parameters(), strict=True):
            torch.testing.assert_close(parameter.detach(), weights, rtol=1e-5, atol=1e-6)


def test_the_outer_step_is_nesterovs_on_the_mean(gloo: Ranks) -> None:
    gloo(outer)


def loops(body: str) -> list[str]:
    """Train by the loop of the page, and by `DiLoCo`; return the digests of the weights."""
    module, optimizer, _ = of = started(16)

    def inner_step(step: int) -> None:
        optimizer.zero_grad()
        loss_of(module, step - 1).backward()
        optimizer.step()

    steps(of, range(48))
    found = [digest(module)]
    module, optimizer, _ = started(16)
    exec(body, {"torch": torch, "model": module, "steps": 48, "inner_step": inner_step})
    return [*found, digest(module)]


def test_the_loop_of_the_page_has_the_same_bits(gloo: Ranks) -> None:
    page = (EXAMPLE.parents[1] / "docs" / "slow-links.md").read_text(encoding="utf-8")
    (body,) = re.findall(r"^```python\n([^`]*vector_to_parameters\(anchor[^`]*)^```$", page, re.MULTILINE)
    (one, by_page), (other, other_by_page) = gloo(loops, body)
    assert one == by_page == other == other_by_page


def test_the_default_bound_leaves_a_sixteenth_of_the_largest_value() -> None:
    assert [default_codec(ranks) for ranks in (1, 2, 3, 4, 5, 8, 64)] == [
        Codec(2.0**-k, "planes") for k in (5, 5, 6, 6, 7, 7, 10)
    ]


def fed_back(feedback: bool | None) -> list[float]:
    """Send 1 and 0.01 again and again, where the step of the codec is 1/2."""
    diloco = started(1, Weights(0, 0), codec=Codec(2**-3, "planes"), error_feedback=feedback,
                     outer_lr=1.0, outer_momentum=0.0)[2]  # fmt: skip
    for _ in range(100):
        moved(diloco, -1, -0.01)
    return diloco._parameters["weight"].tolist()


def test_residuals_bring_small_changes_in_the_end(gloo: Ranks) -> None:
    for whole, small in gloo(fed_back, None):
        assert whole == 100
        assert small == pytest.approx(1, abs=0.5)
    for whole, small in gloo(fed_back, False):
        assert (whole, small) == (100, 0)


# Fragments and delays

WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "fragments and a delay": {"fragments": 3, "delay": 2},
    "scale tensor": {"scale": "tensor", "codec": Codec(2**-6, "planes"), "error_feedback": 0.9},
    "scale rms": {"scale": "rms", "codec": Codec(2**-2, "planes")},
}


def streaming() -> tuple[list[list[str]], str, list[int]]:
    """Return digests of the fragments' weights after each step, and of all at the end."""
    of = started(8, fragments=4, delay=3, mixing=0.0)
    found = []
    for step in range(20):
        steps(of, range(step, step + 1))
        found.append([digest_of(each.parameters.values()) for each in of[2]._fragments])
    for _ in range(2):  # the second has nothing to do
        of[2].synchronize()
    return found, digest(of[0]), [part.values // part.calls for part in of[2].statistics().parts]


def test_fragments_take_turns(gloo: Ranks) -> None:
    """An exchange begins every two steps, each of another fragment, and ends three steps later."""
    (one, end, sizes), (other, other_end, _) = gloo(streaming)
    assert sum(sizes) == 38_504
    assert min(sizes) > 0
    equal = {(step, f) for step in range(20) for f in range(4) if one[step][f] == other[step][f]}
    assert equal == {(step - 1, f) for f in range(4) for step in range(2 * f + 5, 21, 8)}
    assert end == other_end


def late() -> list[list[float]]:
    """Return the weight after each inner step, of which each rank's are its own."""
    rank = dist.get_rank()
    diloco = started(4, Weights(0), path="off", delay=2, mixing=0.25, outer_lr=1.0, outer_momentum=0.0)[2]
    found = []
    for _ in range(8):
        moved(diloco, -1 - 2 * rank)
        found.append(diloco._parameters["weight"].item())
    diloco.synchronize()
    return [found, [diloco._parameters["weight"].item()]]


def test_an_anchor_comes_d_steps_late_and_is_mixed(gloo: Ranks) -> None:
    (zero, end), (one, other_end) = gloo(late)
    # The mean of 4 and 12 is 8. It comes when the ranks are at 6 and 18.
    assert zero[:6] == [1, 2, 3, 4, 5, 0.25 * 6 + 0.75 * 8]
    assert one[:6] == [3, 6, 9, 12, 15, 0.25 * 18 + 0.75 * 8]
    assert zero[6:] == [zero[5] + 1, zero[5] + 2]
    # The exchange of step 8 ends in `synchronize`, which mixes it, and then sends what differs.
    assert end == other_end
    late_mean = (zero[7] + one[7]) / 2
    assert end == [0.25 * late_mean + 0.75 * late_mean]


# Resumption


def saved(of: Started) -> dict[str, Any]:
    states = [part.state_dict() for part in of]
    return dict(zip(("module", "optimizer", "diloco"), saved_and_loaded(states), strict=True))


def resumed(way: str) -> tuple[list[str], bool, bool]:
    """Save in the middle of an interval, and with a delay while an exchange is in flight."""
    kind = torch.bfloat16 if way == "plain" else torch.float32
    of = started(module=model().to(kind), **WAYS[way])
    steps(of, range(5))
    states = saved(of)
    whole = steps(of, range(5, 14))
    again = started(module=model().to(kind), **WAYS[way])
    early = said(lambda: again[2].load_state_dict(states["diloco"]))
    assert early == "ValueError: the model has other weights than it had then: load the model's state first"
    for part, name in zip(again, states, strict=True):
        part.load_state_dict(states[name])
    last = steps(again, range(5, 14))
    ends = [saved(each)["diloco"] for each in (of, again)]
    return whole, whole == last, same(*ends)


@pytest.mark.parametrize("way", WAYS)
def test_a_resumed_run_has_the_same_bits(gloo: Ranks, way: str) -> None:
    (one, *same), (other, *too) = gloo(resumed, way)
    assert all((*same, *too))
    assert one != other


def spoilt() -> list[str]:
    """States that are refused, and what is said of them; the object has the state that it had."""
    of = started(fragments=2, delay=1)
    steps(of, range(2))
    diloco = of[2]
    good, before = diloco.state_dict(), diloco.state_dict()
    part = good["fragments"][0]
    assert part["mean"] is not None
    short, nan = part["anchor"][1:], torch.full_like(part["anchor"], float("nan"))
    wrong: list[Any] = [
        None, {}, {**good, "steps": -1}, {**good, "fragments": good["fragments"][:1]},
        *({**good, "fragments": [{**part, **bad}, good["fragments"][1]]} for bad in (
            {"anchor": None}, {"anchor": short}, {"momentum": nan}, {"residual": part["anchor"].double()},
            {"outer": 1.0}, {"scales": [1]}, {"scales": [1000] * len(part["scales"])}, {"begun": None},
        )),
    ]  # fmt: skip
    texts = [said(lambda state=state: diloco.load_state_dict(state)) for state in wrong]
    assert same(diloco.state_dict(), before)
    diloco.load_state_dict(good)
    steps(of, range(2, 6))
    return texts


def test_other_states_are_refused_and_change_nothing(gloo: Ranks) -> None:
    for texts in gloo(spoilt):
        assert all(text.startswith("ValueError: ") for text in texts), texts


# Ranks that differ


def differing() -> dict[str, str]:
    """Return what is said of a setting that differs, by what it should be."""
    rank = dist.get_rank()
    other = torch.nn.Linear(3, 2 + rank)
    calls: dict[str, Callable[[], Any]] = {
        "every differs: rank 0 has 4, rank 1 has 5": lambda: started(4 + rank),
        "fragments differs: rank 0 has 1, rank 1 has 2": lambda: started(fragments=1 + rank),
        "delay differs: rank 0 has 0, rank 1 has 1": lambda: started(delay=rank),
        "outer_lr differs: rank 0 has 0.5, rank 1 has 1.0": lambda: started(outer_lr=0.5 + rank / 2),
        "error_feedback differs: rank 0 has None, rank 1 has 0.0": lambda: started(
            error_feedback=False if rank else None
        ),
        "codec differs: rank 0 has 'planes 2^-5": lambda: started(codec=Codec(2.0 ** -(5 + rank), "planes")),
        "scale differs: rank 0 has 'auto', rank 1 has 'tensor'": lambda: started(
            scale="tensor" if rank else "auto"
        ),
        "parameter bias differs: rank 0 has 'torch.float32 [2]', rank 1 has 'torch.float32 [3]'": (
            lambda: started(module=other)
        ),
    }
    return {text: said(call) for text, call in calls.items()}


def test_ranks_that_differ_are_told_so_before_data_move(gloo: Ranks) -> None:
    for found in gloo(differing):
        for text, heard in found.items():
            assert heard.startswith("MismatchError: ")
            assert text.split("'planes")[0] in heard


def failing_at_rank_1() -> dict[str, str]:
    """Return what is said of an error of rank 1, by its text; in between, all ranks go on."""
    rank, found = dist.get_rank(), {}
    wrong: dict[str, dict[str, Any]] = {
        "delay must be 0..3 steps, not 4": {"delay": 4}, "every must be at least 1, not 0": {"every": 0},
        "outer_momentum must be 0..1, not 1.5": {"outer_momentum": 1.5},
        "mixing must be a number, not 'half'": {"mixing": "half"}, "error_feedback must be 0..1, not 2":
        {"error_feedback": 2}, "unexpected keyword argument 'warm_up'": {"warm_up": 3},
    }  # fmt: skip
    for text, settings in wrong.items():
        found[text] = said(lambda settings=settings: started(**settings if rank else {}))
    of = started(1)
    steps(of, range(1))
    of[0][0].bias.requires_grad_(False)
    of[0].append(torch.nn.Linear(2, 2).requires_grad_(rank > 0))
    found["5.weight is trained now and was not before"] = said(of[2].step)
    of[0][5].requires_grad_(False)
    kept = of[0][2].weight.detach().clone()
    if rank:
        of[0][2].weight.data[0, 0] = float("inf")
    found["fragment 0, 38504 values: weights or their changes are not finite"] = said(of[2].step)
    of[0][2].weight.data.copy_(kept)
    resumed = started()
    states = [part.state_dict() for part in resumed]
    states[2]["steps"] = 3 * rank
    for part, state in zip(resumed, states, strict=True) if rank else ():
        part.load_state_dict(state)
    resumed[2].every = 1
    found["step differs: rank 0 has 1, rank 1 has 4"] = said(resumed[2].step)
    late = started(2)
    steps(late, range(2 + rank))
    found["step differs: rank 0 has 2, rank 1 has 3"] = said(late[2].synchronize)
    of[2].synchronize()
    return {**found, "nothing": said(of[2].step)}


def test_an_error_of_one_rank_is_raised_at_all(gloo: Ranks) -> None:
    zero, one = gloo(failing_at_rank_1)
    for text in zero:
        assert text in one[text]
        assert text in zero[text]
        if "differs" not in text and text != "nothing":
            assert zero[text].startswith("MismatchError: rank 1 cannot take part: ")


def joining() -> tuple[list[str], str, str, int]:
    """Rank 1 begins anew with other weights, as a rank that replaces a lost one."""
    of = started(delay=1, fragments=2)
    steps(of, range(9))
    if dist.get_rank():
        other = model()
        other[0].weight.data.mul_(2)
        of = started(module=other, delay=1, fragments=2)
    else:
        of[2].regroup()
    anchors = [fragment.digest() for fragment in of[2]._fragments]
    steps(of, range(of[2].steps, 14))
    of[2].synchronize()
    return anchors, digest(of[0]), repr(of[2]).partition(",")[0], of[2].statistics().calls


def test_a_new_rank_gets_the_anchor_of_the_others(gloo: Ranks) -> None:
    (one, end, text, calls), (other, other_end, other_text, fewer) = gloo(joining)
    assert one == other
    assert end == other_end
    assert text == other_text == "<DiLoCo step 14"
    assert 0 < fewer < calls


# Parameters of all kinds: a group of this process alone


class Odd(torch.nn.Module):
    """Tied, frozen and integer parameters, a buffer, and types of all widths."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        self.integers = torch.nn.Parameter(torch.arange(3), requires_grad=False)
        self.norm = torch.nn.BatchNorm1d(4)
        self.bfloat = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        self.wide = torch.nn.Parameter(torch.ones(2, 3, dtype=torch.float64).T)
        self.pairs = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
        self.scalar = torch.nn.Parameter(torch.tensor(1.0))
        self.empty = torch.nn.Parameter(torch.ones(0, 4))


def test_each_parameter_keeps_its_memory_and_what_is_not_trained_its_values(alone: None) -> None:
    module = Odd()
    _, _, diloco = started(1, module, path="off", outer_lr=0.5, outer_momentum=0.0, fragments=1)
    names = ["bfloat", "wide", "pairs", "scalar", "empty", "embedding.weight", "norm.weight", "norm.bias"]
    assert [*diloco._parameters] == names
    before = {name: each.detach().clone() for name, each in module.named_parameters()}
    places = {name: each.data_ptr() for name, each in module.named_parameters()}
    with torch.no_grad():
        for each in module.parameters():
            each.sub_(1)
        module.norm.running_mean.fill_(7)
    assert diloco.step()
    for name, each in module.named_parameters():
        assert each.data_ptr() == places[name]
        by = 0.5 if name in names else 1
        torch.testing.assert_close(each.detach(), before[name] - by)
    assert module.head.weight is module.embedding.weight
    assert module.norm.running_mean.tolist() == [7] * 4
    anchors = [fragment.anchor.clone() for fragment in diloco._fragments]
    module.scalar.data.add_(3)  # the anchor is no view of the parameters
    assert all(map(torch.equal, anchors, [fragment.anchor for fragment in diloco._fragments]))


def test_the_anchor_of_bfloat16_weights_keeps_small_steps(alone: None) -> None:
    """At 256 the weights' step is 2. Forty outer steps of 0.1 move them by 4, and no step by nothing."""
    settings = {"path": "off", "outer_momentum": 0.0}
    diloco = started(1, Weights(256, kind=torch.bfloat16), outer_lr=0.05, **settings)[2]
    weight = diloco._parameters["weight"]
    for _ in range(40):
        moved(diloco, -2)
    assert diloco._fragments[0].anchor.item() == pytest.approx(260)
    assert weight.tolist() == [260]
    diloco = started(1, Weights(257, kind=torch.bfloat16), outer_lr=0.5, **settings)[2]
    fragment = diloco._fragments[0]
    fragment.anchor.fill_(256.75)  # its weights are 256 or 258
    fragment.put()
    for _ in range(5):
        diloco.step()
    assert fragment.anchor.item() == 256.75


def nearly_equal() -> list[float]:
    module = Weights(1 + 1e-10 * dist.get_rank(), kind=torch.float64)
    started(4, module)
    return module.weight.tolist()


def test_float64_weights_begin_with_equal_bits(gloo: Ranks) -> None:
    assert gloo(nearly_equal) == [[1.0]] * 2


def test_models_that_cannot_be_synchronised_are_refused(alone: None) -> None:
    plain, other = torch.nn.Linear(2, 2), torch.nn.Linear(3, 3)
    both = torch.optim.SGD([*plain.parameters(), *other.parameters()], lr=0.1)
    assert "the optimizer trains a parameter of shape (3, 3)" in said(lambda: DiLoCo(plain, both))
    frozen = torch.nn.Linear(2, 2).requires_grad_(False)
    assert "has no parameters that are trained" in said(lambda: DiLoCo(frozen, both))
    assert "optimizer must be a torch.optim.Optimizer" in said(lambda: DiLoCo(plain, None))  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(plain.parameters())
    assert "must be a torch.nn.Module, not list" in said(lambda: DiLoCo([1], optimizer))  # type: ignore[arg-type]
    in_ddp = torch.nn.parallel.DistributedDataParallel(plain)
    for around in (in_ddp, torch.nn.Sequential(in_ddp)):
        assert "must be the module in DDP" in said(lambda: DiLoCo(around, optimizer))  # noqa: B023
    sharded = FullyShardedDataParallel(
        torch.nn.Linear(2, 2), sharding_strategy=ShardingStrategy.NO_SHARD, device_id=torch.device("cpu")
    )
    for around in (sharded, torch.nn.Sequential(sharded)):
        assert "must be whole at each rank, without FSDP" in said(lambda: DiLoCo(around, optimizer))  # noqa: B023
    assert "fragments must be 1..2" in said(lambda: DiLoCo(plain, optimizer, fragments=3))
    assert "codec default (the NICs', else by the number of ranks), path auto" in repr(
        DiLoCo(plain, optimizer)
    )


def test_the_example_runs() -> None:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, EXAMPLE]
    said = said_by(sys.executable, *launch, "--steps", 48, "--delay", 4, timeout=240, OMP_NUM_THREADS="1")
    assert [int(step) for step in re.findall(r"^step (\d+): loss", said, re.MULTILINE)] == [20, 36]
    assert len(set(re.findall(r"weights ([0-9a-f]+)", said))) == 1
    assert re.search(r"^all +software +4 ", said, re.MULTILINE)
