# SPDX-License-Identifier: BSD-2-Clause
"""A program for the hosts of a cluster that moves floats over a tagged connection and times them.

``python -m inceptionn.sim.cluster.stream PORT BYTES TAKE [TARGET]``: takes a connection if ``TAKE`` is 1, and
makes one to the host ``TARGET`` if that is named, both at a time. Its only line of output is JSON: the bytes
received, their first and last moment on the monotonic clock, and the processor time.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

import numpy as np

from inceptionn.wire import DEFAULT_TOS

PATIENCE = 120.0
_CHUNK = 1 << 18


def gradients(count: int) -> bytes:
    """Laplace-distributed values, 3e-3 wide: about what a layer's gradients look like."""
    return (np.random.default_rng(1).laplace(size=count) * 3e-3).astype("<f4").tobytes()


def send(host: str, port: int, size: int) -> None:
    """Sends ``size`` bytes, and waits until the other side has received all."""
    data = gradients(1 << 18)
    with _connected(host, port) as connection:
        left = size
        while left > 0:
            connection.sendall(data[:left])
            left -= len(data)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


def _mark(sock: socket.socket) -> None:
    """Marks what a socket sends; at the MTUs that are measured, segments are multiples of 4 anyway."""
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DEFAULT_TOS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _connected(host: str, port: int) -> socket.socket:
    """A marked connection; the other host may not listen yet."""
    deadline = time.monotonic() + PATIENCE
    while True:
        connection = socket.socket()
        connection.settimeout(PATIENCE)
        try:
            _mark(connection)
            connection.connect((host, port))
            return connection
        except ConnectionRefusedError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def receive(listener: socket.socket) -> dict[str, float]:
    """Takes a connection to its end."""
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE)
    buffer, total, begin = bytearray(_CHUNK), 0, 0.0
    with connection:
        while got := connection.recv_into(buffer):
            begin = begin or time.monotonic()
            total += got
    return {"bytes": total, "begin": begin, "end": time.monotonic()}


def main(port: str, size: str, take: str, target: str = "") -> None:
    """Runs both directions at a time."""
    begin = time.process_time()
    came: dict[str, float] = {"bytes": 0}
    sender = threading.Thread(target=send, args=(target, int(port), int(size)), daemon=True)
    with socket.socket() as listener:
        if int(take):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.settimeout(PATIENCE)
            _mark(listener)
            listener.bind(("", int(port)))
            listener.listen(1)
        if target:
            sender.start()
        if int(take):
            came = receive(listener)
    if target:
        sender.join(PATIENCE)
    print(json.dumps({**came, "processor_seconds": time.process_time() - begin}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
