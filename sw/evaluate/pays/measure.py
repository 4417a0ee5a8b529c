# SPDX-License-Identifier: BSD-2-Clause
"""Rates of this machine's codec and TCP stack, from short runs."""

import socket
import threading
import time
from typing import Any

import numpy as np

from ...collectives import StreamCodec
from ...commands.speed import Floats, best_seconds, codec_calls, synthetic
from .costs import Coder, Host

_VALUES = 1 << 17
"""Values of the measured arrays: a sub-block of the collectives, which fits the caches."""
_SENT, _PIECE, _TRIES = 32 << 20, 1 << 19, 4


def sample() -> Floats:
    """Draw float32 values for `coder`: synthetic ones, the number that it measures."""
    return synthetic(_VALUES, 1)


def coder(codec: StreamCodec, x: Any = None, repeats: int = 20) -> Coder:
    """Measure rates of a codec on sub-blocks of any type, as bytes of fp32: the best of ``repeats``."""
    x = sample() if x is None else np.ascontiguousarray(x[:_VALUES])
    seconds = best_seconds(codec_calls(codec, x)[0], repeats)
    return Coder(**{name: 4 * x.size / took for name, took in seconds.items()})


def host() -> Host:
    """Measure rates of sums and of TCP over the loopback interface. It takes a fraction of a second."""
    x = sample()
    y = np.zeros_like(x)
    seconds = best_seconds({"add": lambda: np.add(x, y, out=y)}, 20)
    return Host(add=x.nbytes / seconds["add"], stack=max(_stack() for _ in range(_TRIES)))


def _stack() -> float:
    """Measure bytes of TCP payload per second of processor time, sent and received."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=30) as sender,
    ):
        receiver, _ = server.accept()
        with receiver:
            receiver.settimeout(30)
            data, into = memoryview(bytes(_PIECE)), memoryview(bytearray(_PIECE))

            def send() -> None:
                for _ in range(_SENT // _PIECE):
                    sender.sendall(data)

            began = time.process_time()
            thread = threading.Thread(target=send, daemon=True)
            thread.start()
            left = _SENT
            while left:
                left -= receiver.recv_into(into[: min(left, _PIECE)])
            thread.join()
            return _SENT / (time.process_time() - began)
