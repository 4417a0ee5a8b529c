# SPDX-License-Identifier: BSD-2-Clause
"""Tensors of a GPU through pinned memory, where there is one."""

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from inceptionn.codec import converted

torch = pytest.importorskip("torch")
host_copy = pytest.importorskip("inceptionn.torch.host_copy")

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
    copy = host_copy.HostCopy(tensor)
    result: Future[Any] = Future()
    future = host_copy.future_of(result, [copy], lambda: tensor)
    copy.array[:] = 7
    copy.store()
    result.set_result(None)
    assert (future.wait() == 7).all()
    failed: Future[Any] = Future()
    future = host_copy.future_of(failed, [copy], lambda: tensor)
    failed.set_exception(ConnectionError("rank 3 is lost"))
    with pytest.raises(RuntimeError, match="ConnectionError: rank 3 is lost"):
        future.wait()


def test_integers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"must be of a floating-point type, not torch\.int64"):
        host_copy.HostCopy(torch.zeros(3, dtype=torch.int64))
