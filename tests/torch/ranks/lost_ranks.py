# SPDX-License-Identifier: BSD-2-Clause
"""Each rank of `test_lost`: a training in which one rank dies or falls silent: lost_ranks.py HOW VICTIM.

HOW names what carries the gradients ("hook", "backend", or "work": calls without DDP) and what becomes of the
victim ("killed", "silent").
"""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from ranks import leave, model, sgd, steps
from torch.nn.parallel import DistributedDataParallel

from inceptionn.torch import CompressState, compress_hook, compressed

TIMEOUT = 4


def main() -> None:
    way, fate, victim = sys.argv[1:]
    patience = TIMEOUT if fate == "silent" else 120
    dist.init_process_group("inceptionn", timeout=timedelta(seconds=120))
    group = dist.new_group(timeout=timedelta(seconds=patience))
    ddp = DistributedDataParallel(model(), process_group=group)
    if way == "hook":
        ddp.register_comm_hook(CompressState(group), compress_hook)
    else:
        compressed(group)
    optimizer, tensor = sgd(ddp), torch.ones(100_000)

    def work(which: range) -> None:
        for _ in which if way == "work" else ():
            dist.all_reduce(tensor, group=group)
        if way != "work":
            steps(ddp, optimizer, which)

    work(range(3))
    dist.barrier()  # the others have what the victim sent
    if dist.get_rank() == int(victim):
        if fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(30)
    begin = time.monotonic()
    try:
        work(range(3, 10))
        said = "nothing"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    leave({"said": said, "seconds": time.monotonic() - begin})
    os._exit(0)  # no farewell: the group is broken
