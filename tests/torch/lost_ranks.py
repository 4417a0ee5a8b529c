# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_lost`: a training in which one rank dies or falls silent: lost_ranks.py HOW VICTIM.

HOW names what carries the gradients, and what becomes of the victim: "hook killed", "hook silent".
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import torch.distributed as dist
from ranks import leave, model, sgd, steps
from torch.nn.parallel import DistributedDataParallel

from inceptionn.torch import CompressState, compress_hook

TIMEOUT = 4


def main() -> None:
    way, fate, victim = sys.argv[1:]
    patience = TIMEOUT if fate == "silent" else 120
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    group = dist.new_group(timeout=timedelta(seconds=patience))
    ddp = DistributedDataParallel(model(), process_group=group)
    assert way == "hook"
    ddp.register_comm_hook(CompressState(group), compress_hook)
    optimizer = sgd(ddp)
    steps(ddp, optimizer, range(3))
    if dist.get_rank() == int(victim):
        if fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(30)
    begin = time.monotonic()
    try:
        steps(ddp, optimizer, range(3, 10))
        said = "nothing"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    leave({"said": said, "seconds": time.monotonic() - begin})
    os._exit(0)  # no farewell: the group is broken


if __name__ == "__main__":
    main()
