# SPDX-License-Identifier: BSD-2-Clause
"""A program of `test_mpi` under mpirun: rank 1 ends between two collectives, as the argument says."""

import os
import signal
import sys

import numpy as np
from mpi4py import MPI

from inceptionn.collectives import CompressedCommunicator

end = sys.argv[1]
comm = CompressedCommunicator(MPI.COMM_WORLD)
x, y = np.ones(1000, np.float32), np.empty(1000, np.float32)
comm.Allreduce(x, y)
if comm.rank == 1:
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif end == "exit":
        sys.exit(3)
    raise ValueError("no such file")
if end == "raise in MPI":
    comm.Barrier()
comm.Allreduce(x, y)
