# SPDX-License-Identifier: BSD-2-Clause
"""Tensors of a GPU, where there is one, and of the CPU: copies, collectives and trainings of two ranks."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from inceptionn.codec import converted

torch = pytest.importorskip("torch")
host_copy = pytest.importorskip("inceptionn.torch.host_copy")

Found = list[dict[str, Any]]
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_values_come_and_go(device: str, dtype: str) -> None:
    tensor = torch.arange(1000, device=device).to(getattr(torch, dtype)).reshape(10, 100)
    copy = host_copy.HostCopy(tensor)
    expected = tensor.float().cpu().clone()
    found = copy.array
    patterns = found.dtype == np.uint16  # bfloat16
    assert (converted(found, patterns=patterns) == expected.numpy()).all()
    after = (expected + 1).to(tensor.dtype)
    found[:] = after.view(torch.int16).numpy().view(np.uint16) if patterns else after.numpy()
    copy.store()
    copy.join()
    assert torch.equal(tensor.cpu(), after)


def test_a_float32_tensor_of_the_cpu_is_not_copied() -> None:
    tensor = torch.zeros(8)
    host_copy.HostCopy(tensor).array[:] = 1
    assert tensor.sum() == 8


def test_a_part_of_a_tensor_comes_back() -> None:
    tensor = torch.zeros(4, 6)
    copy = host_copy.HostCopy(tensor[:, ::2])
    copy.array[:] = 1
    copy.store()
    assert tensor.sum() == 12
    assert tensor[:, 1::2].sum() == 0


@pytest.mark.parametrize("device", DEVICES)
def test_a_future_has_the_result_or_raises(device: str) -> None:
    tensor = torch.ones(1000, device=device)
    assert not (tensor == 7).all()  # a kernel's first launch may wait for the device
    copy = host_copy.HostCopy(tensor)
    result: Future[Any] = Future()
    future = host_copy.future_of(result, [copy], lambda: tensor)
    copy.array[:] = 7
    if device == "cuda":  # the result arrives half a second later than it is known
        with torch.cuda.stream(host_copy._stream(tensor.device, True)):
            torch.cuda._sleep(1 << 30)
    copy.store()
    result.set_result(None)
    assert (future.wait() == 7).all()
    failed: Future[Any] = Future()
    future = host_copy.future_of(failed, [copy], lambda: tensor)
    failed.set_exception(ConnectionError("rank 3 is lost"))
    with pytest.raises(RuntimeError, match="ConnectionError: rank 3 is lost"):
        future.wait()


def test_integers_are_refused() -> None:
    said = r"must be dense and of a floating-point or complex type, not torch\.int64"
    with pytest.raises(TypeError, match=said):
        host_copy.HostCopy(torch.zeros(3, dtype=torch.int64))


@pytest.fixture(scope="module", params=DEVICES)
def ranks(request: pytest.FixtureRequest, ranks_of: Callable[..., Found]) -> Found:
    return ranks_of("cuda_ranks.py", 2, request.param)


def test_tensors_of_a_device_get_the_bits_of_the_cpus(ranks: Found) -> None:
    for rank in ranks:
        assert len(rank["same bits"]) == 4
        assert all(rank["same bits"].values())


def test_a_sum_is_in_the_order_of_the_callers_stream(ranks: Found) -> None:
    assert all(rank["in order"] for rank in ranks)


def test_a_device_computes_while_a_sum_lacks_a_rank(ranks: Found) -> None:
    assert [rank["meanwhile"] for rank in ranks] == [1 << 18, 0]


@pytest.mark.parametrize("name", ["hook", "buckets", "tensor", "hierarchical", "paper", "fp16"])
def test_trains_on_a_device_as_plain_ddp(ranks: Found, name: str) -> None:
    plain, found = ranks[0]["trained"]["plain"], ranks[0]["trained"][name]
    assert len({rank["trained"][name]["weights"] for rank in ranks}) == 1
    assert found["weights"] != plain["weights"]
    assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)


@pytest.mark.parametrize("name", ["1", "2", "2 bf16"])
def test_fsdp_trains_on_a_device_as_without_compression(ranks: Found, name: str) -> None:
    for rank in ranks:
        assert rank["fsdp"][name]["compressed"] >= 20
        assert rank["fsdp"][name]["loss"] == pytest.approx(rank["fsdp"]["2 plain"]["loss"], rel=0.02)


def test_gradiveq_takes_a_devices_gradients(ranks: Found) -> None:
    assert all(rank["gradiveq"]["same"] and rank["gradiveq"]["finite"] for rank in ranks)


def test_a_modules_values_come_and_go_by_name(ranks: Found) -> None:
    assert [rank["by name"] for rank in ranks] == [0, 0]
