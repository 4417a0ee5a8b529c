# SPDX-License-Identifier: BSD-2-Clause
"""A program for the hosts of a cluster that moves floats over a tagged connection and times them.

``python -m inceptionn.sim.cluster.stream PORT BYTES TAKE [TARGET]`` accepts a connection if ``TAKE`` is 1,
and connects to the host ``TARGET`` if it is given, concurrently. It prints one line of JSON: the bytes
received, the times of the first and the last byte on the monotonic clock, and the processor time.
"""

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
    """Make Laplace-distributed values with a scale of 3e-3, similar to a layer's gradients."""
    return (np.random.default_rng(1).laplace(size=count) * 3e-3).astype("<f4").tobytes()


def send(host: str, port: int, size: int) -> None:
    """Send ``size`` bytes, and wait until the other side has received them."""
    data = gradients(1 << 18)
    with _connected(host, port) as connection:
        left = size
        while left > 0:
            connection.sendall(data[:left])
            left -= len(data)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


def _mark(sock: socket.socket) -> None:
    """Mark a socket's packets.

    At the measured MTUs, segments are multiples of 4 bytes without further settings.
    """
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DEFAULT_TOS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _connected(host: str, port: int) -> socket.socket:
    """Return a marked connection. Try again while the other host does not listen yet."""
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
    """Accept a connection and read it to its end."""
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE)
    buffer, total, begin = bytearray(_CHUNK), 0, 0.0
    with connection:
        while got := connection.recv_into(buffer):
            begin = begin or time.monotonic()
            total += got
    return {"bytes": total, "begin": begin, "end": time.monotonic()}


def main(port: str, size: str, take: str, target: str = "") -> None:
    """Run both directions concurrently."""
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
