# SPDX-License-Identifier: BSD-2-Clause
"""Copies of weights to a GPU (A2DTWP, Fig. 1): packed in pinned memory, unpacked on the device.

It needs torch with CUDA, which is imported only when it is used.
"""

import time
from importlib import import_module
from typing import Any

import numpy as np

from ...system.extras import pip_install
from ..parameters import Floats
from .adt import WHOLE, bitpack, check_round_to


def missing() -> str | None:
    """Return the reason why copies to a GPU are impossible, or None."""
    try:
        torch = import_module("torch")
    except ImportError:
        return f"torch is not installed: {pip_install('torch')}"
    if not torch.cuda.is_available():
        return "torch finds no GPU"
    return None


def unpack_on_device(packed: Any, round_to: int) -> Any:
    """Unpack on the device (Algorithm 5 in torch): turn a uint8 tensor into float32[n].

    The dropped bytes become zeros. Raises ``ValueError`` for a wrong ``round_to`` or a length that is not a
    multiple of it.
    """
    torch = import_module("torch")
    keep = check_round_to(round_to)
    if packed.numel() % keep:
        raise ValueError(f"packed must be a multiple of {keep} bytes, not {packed.numel()}")
    words = torch.zeros((packed.numel() // keep, WHOLE), dtype=torch.uint8, device=packed.device)
    words[:, WHOLE - keep :] = packed.view(-1, keep)
    return words.view(torch.float32).reshape(-1)


class DeviceCopy:
    """Copies arrays of up to ``count`` values to a device, through its own pinned memory.

    ``device`` is torch's name of the device. Without torch or a GPU it raises ``RuntimeError``, which names
    what is missing. ``device="cpu"`` works without a GPU, since it needs no pinned memory.
    """

    def __init__(self, count: int, device: str = "cuda") -> None:
        if device != "cpu" and (lacking := missing()):
            raise RuntimeError(f"weights cannot be copied to a GPU: {lacking}")
        self._torch = import_module("torch")
        self.device = device
        pinned = device != "cpu"
        self._staging = self._torch.empty(WHOLE * count, dtype=self._torch.uint8, pin_memory=pinned)
        self._bytes = self._staging.numpy()
        self._event = self._torch.cuda.Event() if pinned else None

    def copy(self, weights: Floats, round_to: int, threads: int = 1) -> Any:
        """Return a float32 tensor of the weights' shape on the device, with ``round_to`` bytes of each value.

        Later work on the same CUDA stream sees the complete copy. Raises ``ValueError`` for more values than
        ``count``.
        """
        keep = check_round_to(round_to)
        size = keep * weights.size
        if size > self._bytes.size:
            raise ValueError(f"the copy takes {size} bytes, but the memory holds {self._bytes.size}")
        if self._event is not None:
            self._event.synchronize()  # the copy before this one may still read the staging memory
        bitpack(weights, keep, self._bytes[:size], threads=threads)
        packed = self._staging[:size].to(self.device, non_blocking=True)
        if self._event is not None:
            self._event.record()
        return unpack_on_device(packed, keep).reshape(weights.shape)


def speed(count: int = 1 << 24, repeats: int = 20) -> dict[str, Any]:
    """Measure copies of ``count`` values to the first GPU in seconds, raw and with each number of bytes.

    The result has ``device`` and ``ways``. The latter holds by "raw", "1 byte" and so on the best times of
    ``pack`` (on the host, one thread), ``copy``, ``unpack`` and ``all``, each after a synchronisation. Raises
    ``RuntimeError`` without a GPU.
    """
    if lacking := missing():
        raise RuntimeError(f"weights cannot be copied to a GPU: {lacking}")
    torch = import_module("torch")
    weights = np.random.default_rng(1).standard_normal(count, np.float32)
    staging = torch.empty(WHOLE * count, dtype=torch.uint8, pin_memory=True)
    host = staging.numpy()
    ways: dict[str, dict[str, float]] = {}

    def timed(call: Any) -> tuple[float, Any]:
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = call()
        torch.cuda.synchronize()
        return time.perf_counter() - start, found

    for name, keep in (("raw", WHOLE), ("1 byte", 1), ("2 bytes", 2), ("3 bytes", 3)):
        size = keep * count
        best = dict.fromkeys(("pack", "copy", "unpack", "all"), float("inf"))
        for turn in range(repeats + 1):  # the first one warms up
            pack, _ = timed(lambda keep=keep, size=size: bitpack(weights, keep, host[:size]))
            copy, packed = timed(lambda size=size: staging[:size].to("cuda", non_blocking=True))
            unpack, values = timed(
                lambda keep=keep, packed=packed: (
                    packed.view(torch.float32) if keep == WHOLE else unpack_on_device(packed, keep)
                )
            )
            if not turn:
                continue
            took = {"pack": pack, "copy": copy, "unpack": unpack, "all": pack + copy + unpack}
            best = {part: min(best[part], seconds) for part, seconds in took.items()}
        ways[name] = best
        del packed, values
    return {"device": torch.cuda.get_device_name(0), "ways": ways}
