# SPDX-License-Identifier: BSD-2-Clause
"""The training layers on torch modules and optimizers, in processes of torch."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch_ranks import Ranks, batch, hooked, loss_of, mean_of, model, trained

from inceptionn import Codec
from inceptionn.layers.a2dtwp import AWP, WeightAggregator, weight_keys
from inceptionn.layers.parallax import ParallaxConfig, get_runner
from inceptionn.layers.parallax.torch_model import TorchModel
from inceptionn.layers.parameter_server import ParameterServer, Partition
from inceptionn.layers.ssd_sgd import SSDSGD
from inceptionn.torch import (
    GradiVeQState,
    TorchOptimizer,
    TorchTransport,
    gradients_of,
    gradiveq_hook,
    parameters_of,
    set_parameters,
)

Found = list[dict[str, Any]]
STEPS = 12
SGD = {"lr": 0.05, "momentum": 0.9}


def gradients(module: torch.nn.Module, weights: Any, step: int) -> tuple[Any, float]:
    set_parameters(module, weights)
    module.zero_grad()
    loss = loss_of(module, step)
    loss.backward()
    return gradients_of(module), float(loss.detach())


def flat(weights: Any) -> list[float]:
    return np.concatenate([weights[key].reshape(-1) for key in weights])[::97].tolist()


def parameter_server(transport: Any, optimizer: TorchOptimizer) -> dict[str, Any]:
    module = model()
    with ParameterServer(transport, parameters_of(module), optimizer) as group:
        weights, loss = group.worker.pull(), 0.0
        for step in range(STEPS):
            found, loss = gradients(module, weights, step)
            group.worker.push(found)
            weights = group.worker.pull()
    return {"weights": flat(weights), "loss": mean_of(loss)}


def ssd_sgd(transport: Any) -> dict[str, Any]:
    module = model()
    with ParameterServer(transport, parameters_of(module), TorchOptimizer(torch.optim.SGD, **SGD)) as group:
        ssd, loss = SSDSGD(group.worker, k=3, warm_up=4), 0.0
        weights = ssd.weights
        for step in range(STEPS):
            found, loss = gradients(module, weights, step)
            weights = ssd.step(found)
        ssd.finish()
    return {"loss": mean_of(loss)}


def a2dtwp(transport: Any) -> dict[str, Any]:
    module = model()
    weights = parameters_of(module)
    precision = AWP(weight_keys(weights), initial=16)
    optimizer = TorchOptimizer(torch.optim.Adam, lr=0.003)
    aggregator = WeightAggregator(transport, weights, optimizer, precision=precision, codec=Codec(2**-12))
    weights, loss = {key: value.copy() for key, value in weights.items()}, 0.0
    for step in range(STEPS):
        found, loss = gradients(module, weights, step)
        weights = aggregator.step(found)
    return {"loss": mean_of(loss), "first": float(next(iter(weights.values())).reshape(-1)[0])}


class Words(torch.nn.Module):
    """The class of a text by the mean of its words' vectors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(200, 16, sparse=True)
        self.classes = torch.nn.Linear(16, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.classes(self.embedding(words).mean(dim=1))
        return found


def parallax(transport: Any) -> dict[str, Any]:
    """Sparse gradients to servers on two machines, dense ones by all-reduce, both compressed."""

    def texts(step: int) -> torch.Tensor:
        random = torch.Generator().manual_seed(step % 3 * transport.size + transport.rank)
        return torch.randint(200, (16, 4), generator=random)

    def loss(module: torch.nn.Module, words: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(module(words), words[:, 0] % 4)

    runner = get_runner(
        TorchModel(Words(), loss, lambda words: {"embedding.weight": words}),
        transport,
        lambda: TorchOptimizer(torch.optim.SGD, lr=2.0),
        ParallaxConfig(strategy="parameter_server", codec=Codec(2**-12), path="software", partitions=3),
        machine=f"machine{transport.rank}",
    )
    losses = [mean_of(runner.run(texts(step))) for step in range(3 * STEPS)]
    weights = runner.gathered()
    return {
        "first": losses[0],
        "loss": losses[-1],
        "weights": flat(weights),
        "sent": sorted(runner.traffic.sent),
    }


def gradiveq(device: str = "cpu") -> None:
    """DDP's hook on convolutions: warm-up, sampling and compressed steps, then the codec on what is left."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1)]
    module = torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 16, 8))
    module.to(device)
    state = GradiVeQState(
        warm_up=2, sampling=4, compressed=20, codec=Codec(2**-12), rest_codec=Codec(2**-12), threshold=0.1
    )
    ddp = hooked(module, state, gradiveq_hook, bucket_cap_mb=0.002)
    optimizer, losses = torch.optim.SGD(module.parameters(), lr=0.05), []
    for step in range(STEPS):
        inputs, labels = (part.to(device) for part in batch(step))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(ddp(inputs[:, :16].reshape(-1, 1, 4, 4)), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert state.exchange is not None
    total = torch.cat([p.detach().cpu().reshape(-1) for p in module.parameters()])
    seen = [torch.empty_like(total) for _ in range(dist.get_world_size())]
    dist.all_gather(seen, total)
    traffic = state.exchange.traffic
    assert all(torch.equal(other, total) for other in seen)
    assert np.isfinite(losses).all()
    assert state.exchange.step == STEPS
    assert 0 < state.statistics().bytes_sent == traffic.total
    assert {"compressed", "sampling"} < traffic.sent.keys() - {"rest"}


def test_gradiveq_as_a_hook_goes_through_its_phases(gloo: Ranks) -> None:
    gloo(gradiveq)


OPTIMIZERS = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_resume_to_the_same_bits(kind: Any) -> None:
    options = SGD if kind is torch.optim.SGD else {"lr": 0.1}
    random, partition = np.random.default_rng(0), Partition(3, "w", 0, 0, 40)
    gradients = random.normal(size=(6, 40)).astype(np.float32)
    one, two = TorchOptimizer(kind, **options), TorchOptimizer(kind, **options)
    weights = np.ones(40, np.float32)
    for step in range(3):
        one.update(partition, weights, gradients[step].copy(), step)
    state, again = one.state_dict(), weights.copy()
    assert {k: v.shape for k, v in two.partition_state(partition).items()} == {
        k: v.shape for k, v in state.items()
    }
    two.load_state_dict(state)
    for step in range(3, 6):
        one.update(partition, weights, gradients[step].copy(), step)
        two.update(partition, again, gradients[step].copy(), step)
    assert weights.tobytes() == again.tobytes()


def findings() -> dict[str, Any]:
    found: dict[str, Any] = {"plain": trained(which=range(STEPS))}
    with TorchTransport() as transport:
        found["ps"] = parameter_server(transport, TorchOptimizer(torch.optim.SGD, **SGD))
        found["ps adam"] = parameter_server(transport, TorchOptimizer(torch.optim.Adam, lr=0.003))
        found["ssd"] = ssd_sgd(transport)
        found["a2dtwp"] = a2dtwp(transport)
        found["parallax"] = parallax(transport)
    return found


@pytest.fixture(scope="module")
def ranks(gloo: Ranks) -> Found:
    return gloo(findings)


def test_a_parameter_server_with_torchs_sgd_trains_as_ddp(ranks: Found) -> None:
    assert ranks[0]["ps"]["weights"] == ranks[1]["ps"]["weights"]
    assert ranks[0]["ps"]["loss"] == pytest.approx(ranks[0]["plain"]["loss"], rel=1e-5)


@pytest.mark.parametrize("name", ["ps adam", "a2dtwp", "ssd"])
def test_other_layers_and_optimizers_train(ranks: Found, name: str) -> None:
    assert ranks[0][name]["loss"] < 2.079  # ln 8: nothing learnt


def test_a2dtwp_truncates_the_weights(ranks: Found) -> None:
    first = ranks[0]["a2dtwp"]["first"]
    assert first == ranks[1]["a2dtwp"]["first"]
    assert (first * 2**20).is_integer()  # 16 bits: 7 of the mantissa


def test_parallax_serves_an_embedding_and_sums_the_rest(ranks: Found) -> None:
    one, two = (rank["parallax"] for rank in ranks)
    assert one["weights"] == two["weights"]
    assert one["loss"] < 0.7 * one["first"]
    assert {"dense", "rows", "values", "gradients"} <= {*one["sent"], *two["sent"]}
