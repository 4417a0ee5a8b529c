# SPDX-License-Identifier: BSD-2-Clause
"""Each rank, where it begins: ``main`` of ``ARGUMENTS`` in its own environment, its words in ``LOG``.

What it returns is left for the test.

The fixture ``ranks`` gives the three globals to a process that is forked from one with torch in it, since to
import torch takes seconds.
"""

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path

import torch
import torch.distributed as dist

ARGUMENTS: list[str] = globals()["arguments"]
ENVIRONMENT: dict[str, str] = globals()["environment"]
LOG: str = globals()["log"]

os.environ.clear()
os.environ.update(ENVIRONMENT)
log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for stream in (1, 2):
    os.dup2(log, stream)
warnings.simplefilter("default")
torch.set_num_threads(1)  # the ranks share the processors
sys.argv = list(ARGUMENTS)
sys.path.insert(0, str(Path(ARGUMENTS[0]).parent))
found = import_module(Path(ARGUMENTS[0]).stem).main()
import_module("ranks").leave(found)
if dist.is_initialized():
    dist.destroy_process_group()
