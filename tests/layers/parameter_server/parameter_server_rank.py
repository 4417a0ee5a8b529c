# SPDX-License-Identifier: BSD-2-Clause
"""The program of `test_processes`: a rank that trains until it is stopped.

    python parameter_server_rank.py RANK SIZE PORT TIMEOUT

Prints "step N" after each step, and at its end the error that ended it.
"""

import sys

import numpy as np

from inceptionn.layers.parameter_server import ParameterServer
from inceptionn.transport import TransportError, connect

rank, size, port = (int(text) for text in sys.argv[1:4])
try:
    transport = connect(rank, size, f"127.0.0.1:{port}", nic=False, timeout=20)
    transport.timeout = float(sys.argv[4])
    with transport, ParameterServer(transport, {"a": np.zeros(5000, np.float32)}) as group:
        assert group.worker is not None
        while True:
            group.worker.push({"a": np.ones(5000, np.float32)})
            group.worker.pull()
            print(f"step {group.worker.step}", flush=True)
except TransportError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
