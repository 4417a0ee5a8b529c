# SPDX-License-Identifier: BSD-2-Clause
"""Truncation, the ring in one process, the digit network, and the ImageNet networks' shapes."""

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from outcomes import Group

from inceptionn import Codec
from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.evaluate.reproduce.inputs import digits, imagenet
from inceptionn.evaluate.reproduce.inputs.codecs import codecs, ratio, ring_mean, truncated
from inceptionn.evaluate.training import data
from inceptionn.transport import Transport

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


def test_truncation_drops_bits() -> None:
    x = np.array([1.0, -1.9999999, 3.1415927, 0.0], np.float32)
    assert truncated(x, 16).view(np.uint32).tolist() == [
        bits & 0xFFFF0000 for bits in x.view(np.uint32).tolist()
    ]
    assert truncated(x, 0).tolist() == x.tolist()
    assert truncated(x, 24)[1] == -0.5  # an exponent's last bit goes with the mantissa


def test_every_mode_of_the_codec_is_there() -> None:
    found = codecs(10)
    assert list(found) == ["literal", "bounded", "planes"]
    x = np.zeros(4096, np.float32)
    assert all(ratio(codec, x) > 10 for codec in found.values())


def _by_collective(gradients: list[Any], codec: Codec, threads: Group) -> list[Any]:
    def rank(transport: Transport) -> Any:
        result = np.empty_like(gradients[0])
        allreduce_comp(
            transport, gradients[transport.rank], result, MEAN, codec=codec, path="software", scale=None
        )
        return result

    return threads(len(gradients), rank)


@pytest.mark.parametrize("count", [1, 63, 1000, 40_000])
@pytest.mark.parametrize("name", ["paper", "planes"])
def test_the_ring_in_one_process_is_the_collective(name: str, count: int, threads: Group) -> None:
    codec = Codec(2**-8, name)
    source = np.random.default_rng(count)
    gradients = [source.normal(scale=0.05, size=count).astype(np.float32) for _ in range(4)]
    expected = ring_mean(gradients, codec.lossy)
    for result in _by_collective(gradients, codec, threads):
        assert np.array_equal(result.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(("name", "differ"), [("paper", False), ("planes", True)])
def test_halves_of_a_step_are_rounded_elsewhere(name: str, differ: bool, threads: Group) -> None:
    """With planes the collective rounds each rank's values, the ring in one process the sums."""
    codec = Codec(2**-8, name)
    source = np.random.default_rng(1)
    gradients = [source.integers(-200, 200, 1000).astype(np.float32) * 2**-10 for _ in range(4)]
    result, *_ = _by_collective(gradients, codec, threads)
    assert np.any(result != ring_mean(gradients, codec.lossy)) == differ


def test_the_digit_network_learns() -> None:
    pytest.importorskip("sklearn")
    found = digits.train(3, seed=1)
    assert len(found.accuracy) == 3
    assert found.accuracy[-1] > 0.7
    assert set(found.gradients) == set(digits.STAGES)
    assert found.epochs_to(0.0) == 3  # the mean of three
    assert found.epochs_to(1.1) is None
    lossy = digits.train(3, 1, partial(ring_mean, lossy=Codec(2**-10).lossy))
    assert lossy.accuracy[-1] > 0.7
    assert digits.train(9, seed=1, until=0.0).accuracy == pytest.approx(digits.train(9, 1).accuracy[:3])


def test_images_have_mean_zero_and_variance_one() -> None:
    torch = pytest.importorskip("torch")
    images = imagenet._images(torch, 2, 32, seed=3)
    assert images.shape == (2, 3, 32, 32)
    assert float(images.mean()) == pytest.approx(0, abs=1e-5)
    assert float(images.std()) == pytest.approx(1, abs=1e-2)


@needs_torch
@pytest.mark.parametrize("name", list(imagenet.NETWORKS))
def test_architectures_have_the_published_size(name: str) -> None:
    torch = import_module("torch")
    with torch.device("meta"):
        model = imagenet.NETWORKS[name](torch.nn)
        assert sum(parameter.numel() for parameter in model.parameters()) == imagenet.COUNTS[name]
        logits = model.eval()(torch.empty(2, 3, imagenet._SIDE[name], imagenet._SIDE[name]))
    assert tuple(logits.shape) == (2, 1000)


def test_without_torch_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"torch is not installed: .*pip install .*torch"):
        imagenet.sample("AlexNet", 1, 1, 12345)
