# SPDX-License-Identifier: BSD-2-Clause
"""The program of `test_requests`: rank 0 waits for a collective that rank 1 joins too late."""

import sys
import time

import numpy as np

from inceptionn.collectives import iallreduce_comp
from inceptionn.transport import connect

rank, port = map(int, sys.argv[1:])
with connect(rank, 2, f"127.0.0.1:{port}", nic=False) as transport:
    x = np.ones(1000, np.float32)
    if rank == 1:
        transport.irecv_into(0, bytearray(1)).wait()  # ends when rank 0 does
        time.sleep(60)
    request = iallreduce_comp(transport, x, x.copy())
    time.sleep(0.5)
    print("waiting", flush=True)
    request.wait()
