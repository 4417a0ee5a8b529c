# SPDX-License-Identifier: BSD-2-Clause
"""Each rank, where it begins: it runs functions of the test files in its own environment, its words in a log.

`conftest.Ranks` gives the globals to a process that is forked from one with torch in it, since to import
torch takes seconds. A ``RuntimeWarning`` is an error.
"""

import os
import sys
import warnings
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import torch
import torch.distributed as dist

given = globals()
os.environ.clear()
os.environ.update(given["environment"])
log = os.open(given["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for stream in (1, 2):
    os.dup2(log, stream)
torch.set_num_threads(1)  # the ranks share the processors
sys.path.insert(0, str(Path(__file__).parent))
if given["backend"]:
    dist.init_process_group(given["backend"], timeout=timedelta(seconds=60))  # a rank that waits fails
while (call := given["link"].recv()) is not None:
    module, name, arguments = call
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("error", RuntimeWarning)
        found = getattr(import_module(module), name)(*arguments)
    given["link"].send((found,))
if dist.is_initialized():
    dist.destroy_process_group()
