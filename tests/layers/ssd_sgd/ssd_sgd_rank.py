# SPDX-License-Identifier: BSD-2-Clause
"""The program of `test_processes`: a rank that trains with checkpoints, and resumes from them.

    python ssd_sgd_rank.py RANK SIZE PORT DIRECTORY

Prints "step N" after each step, and at its end the step it began at and the checksum of the weights.
"""

import sys
from pathlib import Path

import numpy as np

from inceptionn.codec import crc32
from inceptionn.layers.parameter_server import MomentumSGD, ParameterServer
from inceptionn.layers.ssd_sgd import SSDSGD
from inceptionn.transport import connect

rank, size, port = (int(text) for text in sys.argv[1:4])
directory = Path(sys.argv[4])
initial = {"a": np.linspace(-1, 1, 5000, dtype=np.float32), "b": np.ones(3, np.float32)}
restore = directory if any(directory.glob("*.npz")) else None
settings = {"checkpoints": directory, "every": 5, "restore": restore}
with (
    connect(rank, size, f"127.0.0.1:{port}", nic=False, timeout=30) as transport,
    ParameterServer(transport, initial, MomentumSGD(0.05), **settings) as group,  # type: ignore[arg-type]
):
    assert group.worker is not None
    ssd = SSDSGD(group.worker, k=3, warm_up=4)
    for step in range(group.start_step, 40):
        ssd.step({key: np.sin(value + step + rank) for key, value in ssd.weights.items()})
        print(f"step {step + 1}", flush=True)
    print(f"from {group.start_step}: {crc32(ssd.finish()['a']):08x}", flush=True)
