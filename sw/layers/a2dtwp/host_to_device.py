# SPDX-License-Identifier: BSD-2-Clause
"""Weights to a GPU as in Fig. 1 of A2DTWP: packed in pinned memory, unpacked on the device.

Needs torch with CUDA; nothing here imports it before it is used.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

import numpy as np

from ...system.extras import pip_install
from ...training import Floats
from .adt import WHOLE, bitpack, check_round_to


def missing() -> str | None:
    """What is missing for copies to a GPU, or None."""
    try:
        torch = import_module("torch")
    except ImportError:
        return f"torch is not installed: {pip_install('torch')}"
    if not torch.cuda.is_available():
        return "torch finds no GPU"
    return None


def unpack_on_device(packed: Any, round_to: int) -> Any:
    """Algorithm 5 by torch: a uint8 tensor of any device as float32[n] there, zeros in the bytes not kept.

    ``ValueError`` for a wrong ``round_to`` or a length that is not a multiple of it.
    """
    torch = import_module("torch")
    keep = check_round_to(round_to)
    if packed.numel() % keep:
        raise ValueError(f"packed must be a multiple of {keep} bytes, not {packed.numel()}")
    words = torch.zeros((packed.numel() // keep, WHOLE), dtype=torch.uint8, device=packed.device)
    words[:, WHOLE - keep :] = packed.view(-1, keep)
    return words.view(torch.float32).reshape(-1)


class DeviceCopy:
    """Copies of arrays of up to ``count`` values to a device, through pinned memory of their own.

    ``device``: torch's name for it. ``RuntimeError`` without torch and a GPU, which says what is missing
    (other devices need no pinned memory: ``device="cpu"`` works without a GPU).
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
        """A float32 tensor of the weights' shape on the device, with ``round_to`` bytes of each value.

        It is complete for later work on the same stream. ``ValueError`` for more values than there is room.
        """
        keep = check_round_to(round_to)
        size = keep * weights.size
        if size > self._bytes.size:
            raise ValueError(f"there is room for {self._bytes.size} bytes, not for {size}")
        if self._event is not None:
            self._event.synchronize()  # the copy before this one may still read the staging memory
        bitpack(weights, keep, self._bytes[:size], threads=threads)
        packed = self._staging[:size].to(self.device, non_blocking=True)
        if self._event is not None:
            self._event.record()
        return unpack_on_device(packed, keep).reshape(weights.shape)


def speed(count: int = 1 << 24, repeats: int = 20) -> dict[str, Any]:
    """Seconds of copies of ``count`` values to the first GPU, raw and with each number of bytes.

    Keys: ``device``, and ``ways``: by "raw", "1 byte" …, the best times of ``pack`` (here, one thread),
    ``copy``, ``unpack`` and ``all``, each after a synchronisation. ``RuntimeError`` without a GPU.
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
