# SPDX-License-Identifier: BSD-2-Clause
"""A torch module with sparse embeddings under Parallax, against torch alone. Skipped without torch."""

from typing import Any

import numpy as np
import pytest
from outcomes import Group

from inceptionn.evaluate.training import Batches, zipf_documents
from inceptionn.layers.parallax import MomentumSGD, ParallaxConfig, get_runner
from inceptionn.layers.parallax.torch_model import TorchModel
from inceptionn.layers.parameters import RowSparse
from inceptionn.transport import Transport

# Not part of the development tools: its wheel brings gigabytes of CUDA.
torch = pytest.importorskip("torch")

WORDS, WIDTH, CLASSES = 300, 16, 8
DATA = zipf_documents(WORDS, 8, 1000, CLASSES)
EMBEDDING = "0.weight"


class MeanWords(torch.nn.Sequential):  # type: ignore[name-defined, misc]
    """Word vectors, their mean, one linear layer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(torch.nn.Embedding(WORDS, WIDTH, sparse=True), torch.nn.Linear(WIDTH, CLASSES))

    def forward(self, tokens: Any) -> Any:
        return self[1](self[0](tokens).mean(dim=1))


def loss(module: Any, batch: Any) -> Any:
    tokens, labels = torch.from_numpy(batch.inputs), torch.from_numpy(batch.labels)
    return torch.nn.functional.cross_entropy(module(tokens), labels)


def alone(steps: int, workers: int) -> dict[str, Any]:
    """One process with the batches of all workers together, torch's own SGD."""
    module = MeanWords()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    batches = Batches(DATA.train, 8 * workers)
    for step in range(steps):
        optimizer.zero_grad()
        loss(module, batches.at(step)).backward()
        optimizer.step()
    return {key: value.detach().numpy() for key, value in module.named_parameters()}


@pytest.mark.parametrize("strategy", ["hybrid", "all_gather", "dense"])
def test_sparse_embedding_trains_as_in_torch_alone(threads: Group, strategy: Any) -> None:
    modules = [MeanWords() for _ in range(3)]  # before the threads: torch has one random source for all

    def run(t: Transport) -> Any:
        model = TorchModel(modules[t.rank], loss, lambda batch: {EMBEDDING: batch.inputs})
        runner = get_runner(
            model, t, lambda: MomentumSGD(0.5, momentum=0), ParallaxConfig(strategy=strategy, partitions=3)
        )
        batches = Batches(DATA.train, 8, t.rank, t.size)
        for step in range(20):
            runner.run(batches.at(step))
        return runner.gathered(), runner.architectures, runner.alphas

    expected = alone(20, 3)
    for whole, architectures, alphas in threads(3, run):
        for key, value in expected.items():
            assert np.allclose(whole[key], value, atol=1e-4), key
        assert 0 < alphas[EMBEDDING] < 0.3
        served = "parameter_server" if strategy == "hybrid" else "all_reduce"
        assert architectures == {EMBEDDING: served, "1.weight": "all_reduce", "1.bias": "all_reduce"}


def test_an_embedding_that_a_batch_does_not_look_up_stays_sparse() -> None:
    def of_bias(module: Any, batch: Any) -> Any:
        return module[1].bias.sum()

    model = TorchModel(MeanWords(), of_bias, lambda batch: {EMBEDDING: []})
    parameters = model.initial()
    assert model.rows(None)[EMBEDDING].size == 0
    _, gradients = model.loss_and_gradients(parameters, None)
    assert isinstance(gradients[EMBEDDING], RowSparse)
    assert gradients[EMBEDDING].rows.size == 0
    assert not gradients["1.weight"].any()


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match=r"weight must be float32 on the CPU, not torch\.float64 on cpu"):
        TorchModel(torch.nn.Linear(2, 2).double(), loss)
