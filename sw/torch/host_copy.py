# SPDX-License-Identifier: BSD-2-Clause
"""A tensor's values as an array in the host's memory, without a copy if possible. Complex ones are pairs."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future as Result
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SUMMED = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64,
    torch.complex64, torch.complex32, torch.complex128,
)  # fmt: skip
"""Types that the collectives sum, always in float32; those of complex values as real and imaginary parts."""
_KEPT = (torch.float32, torch.float16, torch.bfloat16)
"""The types that the codec takes without a conversion."""


def takes(tensor: torch.Tensor) -> bool:
    """Tell whether the collectives take a tensor: dense, of a type that they sum."""
    return tensor.dtype in SUMMED and tensor.layout is torch.strided


def lanes_of(tensor: torch.Tensor) -> int:
    """Return how many real values a tensor has: two for each complex one."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


@cache
def _stream(device: torch.device, back: bool) -> Any:
    """Return the stream for the copies from one GPU, or ``back`` to it."""
    return torch.cuda.Stream(device)


class HostCopy:
    """The values of a tensor, which another thread may read and write.

    A contiguous tensor on the CPU is used without a copy, unless it is float64 or, with ``wide``, not
    float32. Of others, and of conjugated or negated views, the constructor makes a copy, and `store` copies
    it back. It has their type, or float32. Copies from a GPU and back use pinned memory and a separate stream
    each, which wait for the current work of the caller's stream. Neither the caller nor the GPU waits for
    them. ``filled`` is False for a tensor that is only written.

    Raises ``TypeError`` for a tensor that the collectives do not take (`takes`).
    """

    def __init__(self, tensor: torch.Tensor, filled: bool = True, wide: bool = False) -> None:
        if not takes(tensor):
            what = tensor.dtype if tensor.layout is torch.strided else tensor.layout
            raise TypeError(f"the tensor must be dense and of a floating-point or complex type, not {what}")
        self.tensor = tensor.detach()
        values = self.tensor.resolve_conj().resolve_neg()
        if values.is_complex():
            values = torch.view_as_real(values)
        self.device = tensor.device if tensor.is_cuda else None
        self._filled: Any = None
        """The event after the copy from a GPU."""
        self._stored: Any = None
        """The event after the copy back."""
        kind = torch.float32 if wide or values.dtype not in _KEPT else values.dtype
        if self.device is None:
            host = values.to(kind).contiguous()
            self._shared = host.data_ptr() == self.tensor.data_ptr()
        else:
            self._shared = False
            self._ready = torch.cuda.current_stream(self.device).record_event()
            host = torch.empty(values.shape, dtype=kind, pin_memory=True)
            if filled:
                self._filled = self._copied(host, values, self.device, back=False)
        self._host = host

    def _copied(self, to: torch.Tensor, values: torch.Tensor, device: torch.device, back: bool) -> Any:
        """Copy on the stream of this direction, after the caller's work; return the event at the end."""
        stream = _stream(device, back)
        stream.wait_event(self._ready)
        with torch.cuda.stream(stream):
            to.copy_(values, non_blocking=True)
        (to if back else values).record_stream(stream)
        return stream.record_event()

    @property
    def array(self) -> NDArray[Any]:
        """The values, in the tensor's shape; bfloat16 as uint16. Waits for a copy from a GPU.

        Those of a complex tensor have a last dimension of 2.
        """
        if self._filled is not None:
            self._filled.synchronize()
            self._filled = None
        if self._host.dtype == torch.bfloat16:
            return self._host.view(torch.int16).numpy().view(np.uint16)
        return self._host.numpy()

    def store(self) -> None:
        """Copy the array's values into the tensor, on a GPU on the separate stream."""
        host = torch.view_as_complex(self._host) if self.tensor.is_complex() else self._host
        if self.device is not None:
            self._stored = self._copied(self.tensor, host, self.device, back=True)
        elif not self._shared:
            self.tensor.copy_(host)

    def join(self) -> None:
        """Make the caller's stream on a GPU wait for the stored values. On a CPU this does nothing."""
        if self._stored is not None:
            torch.cuda.current_stream(self.device).wait_event(self._stored)


def future_of(
    result: Result[Any], copies: Sequence[HostCopy], value: Callable[[], Any]
) -> torch.futures.Future[Any]:
    """Return a torch future that completes after a call with ``value()``, or raises the call's exception.

    Torch passes on an exception only if a callback raises it. With ``set_exception``, C++ would treat it as a
    tensor. The future's events on a GPU are those of the callback's stream, so that stream waits for the
    copies.
    """
    devices = [copy.device for copy in copies if copy.device is not None]
    future: torch.futures.Future[Any] = torch.futures.Future(devices=sorted(set(devices), key=str) or None)
    if not devices and result.done() and result.exception() is None:
        future.set_result(value())
        return future

    def unwrapped(done: torch.futures.Future[Any]) -> Any:
        error = done.value()
        if error is not None:
            raise error
        for copy in copies:
            copy.join()
        return value()

    after = future.then(unwrapped)
    result.add_done_callback(lambda done: future.set_result(done.exception()))
    return after
