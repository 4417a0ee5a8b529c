# SPDX-License-Identifier: BSD-2-Clause
"""One rank whose process a test stops: ``stopped.py RANK SIZE ADDRESS TIMEOUT``.

Rank 0 calls an exchange once it has read a line; the others wait for it meanwhile.
"""

import sys

from inceptionn.transport import TransportError, connect

rank, size = int(sys.argv[1]), int(sys.argv[2])
transport = connect(rank, size, sys.argv[3], timeout=float(sys.argv[4]), nic=False)
transport.barrier()
print("ready", flush=True)
if rank == 0:
    sys.stdin.readline()
try:
    transport.exchange(rank)
    said = "done"
except TransportError as error:
    said = f"{type(error).__name__}: {error}"
print(said, flush=True)
