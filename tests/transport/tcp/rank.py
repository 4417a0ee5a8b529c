# SPDX-License-Identifier: BSD-2-Clause
"""One rank of a group over TCP as a process of its own: ``rank.py RANK SIZE ADDRESS TIMEOUT``.

Sends floats around the ring without end. Prints "ready" once it has begun, at its end the type and text of
the exception and the seconds since it began the transfer that failed.
"""

import sys
import time

import numpy as np

from inceptionn.transport import TransportError, connect


def main() -> None:
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    transport = connect(rank, size, sys.argv[3], timeout=float(sys.argv[4]))
    mine, theirs = np.ones(500_000, np.float32), np.empty(500_000, np.float32)
    rounds = 0
    while True:
        start = time.monotonic()
        try:
            transport.sendrecv((rank + 1) % size, mine, (rank - 1) % size, theirs)
        except TransportError as error:
            print(f"{type(error).__name__}|{error}|{time.monotonic() - start:.2f}", flush=True)
            return
        rounds += 1
        if rounds == 10:
            print("ready", flush=True)


main()
