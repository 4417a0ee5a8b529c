# SPDX-License-Identifier: BSD-2-Clause
"""Weights unpacked by torch, on a processor and on a GPU where there is one. Skipped without torch."""

import numpy as np
import pytest

from inceptionn.layers.a2dtwp import adt, bitpack, host_to_device

# Not part of the development tools: its wheel brings gigabytes of CUDA.
torch = pytest.importorskip("torch")

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep", [1, 2, 3, 4])
def test_unpacked_there_as_here(device: str, keep: int) -> None:
    bits = np.random.default_rng(keep).integers(0, 2**32, 1003, np.uint32)
    x = bits.view(np.float32)
    packed = torch.from_numpy(bitpack(x, keep)).to(device)
    found = host_to_device.unpack_on_device(packed, keep)
    assert found.dtype == torch.float32
    assert found.device.type == device
    assert found.cpu().numpy().tobytes() == adt.truncate(x, keep).tobytes()


@pytest.mark.parametrize("device", DEVICES)
def test_copies_one_after_the_other(device: str) -> None:
    """The staging memory is used again; shapes are kept."""
    copies = host_to_device.DeviceCopy(6000, device)
    weights = [np.random.default_rng(n).normal(size=(20, 300)).astype(np.float32) for n in range(8)]
    found = [copies.copy(w, 1 + n % 4) for n, w in enumerate(weights)]
    for n, (tensor, w) in enumerate(zip(found, weights, strict=True)):
        assert tensor.shape == (20, 300)
        assert tensor.cpu().numpy().tobytes() == adt.truncate(w, 1 + n % 4).tobytes()


def test_errors() -> None:
    with pytest.raises(ValueError, match="packed must be a multiple of 3 bytes, not 7"):
        host_to_device.unpack_on_device(torch.zeros(7, dtype=torch.uint8), 3)
    with pytest.raises(ValueError, match="the copy takes 20 bytes, but the memory holds 16"):
        host_to_device.DeviceCopy(4, "cpu").copy(np.zeros(5, np.float32), 4)
