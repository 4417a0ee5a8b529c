# SPDX-License-Identifier: BSD-2-Clause
"""One rank that forks: ``forked.py RANK SIZE ADDRESS HOW``. Its child leaves as HOW says, then both go on."""

import os
import sys
from typing import Any

import numpy as np
import pytest

from inceptionn.collectives import CollectiveRequest, allreduce_comp, iallreduce_comp
from inceptionn.transport import Transport, TransportError, connect

rank, size, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4]
ones = np.ones(1000, np.float32)


def refused(call: Any, *arguments: Any) -> None:
    """Call what a forked process cannot do."""
    with pytest.raises(TransportError, match="another process"):
        call(*arguments)


def child(transport: Transport, request: CollectiveRequest) -> None:
    """Leave the group, or use it."""
    if how == "close":
        transport.close()
    elif how == "abort":
        transport.abort("a child")
    elif how == "use":
        refused(transport.exchange, None)
        refused(transport.isend, 1 - rank, b"x")
        refused(allreduce_comp, transport, ones, ones.copy())
        if not request.done:
            refused(request.wait)
    elif how == "raise":
        raise TransportError("of a child")


def main() -> None:
    """Fork within the group; the child also leaves its ``with``."""
    pid = 1
    with connect(rank, size, sys.argv[3], timeout=20, nic=False) as transport:
        request = iallreduce_comp(transport, ones, ones.copy())
        if rank == 0:
            pid = os.fork()
        if pid == 0:
            child(transport, request)
        else:
            if rank == 0:
                os.waitpid(pid, 0)
            request.wait()
            total = ones.copy()
            allreduce_comp(transport, None, total)
            print(f"sum {total[0]:g}", flush=True)


main()
