# SPDX-License-Identifier: BSD-2-Clause
"""Trains with torchft and compressed gradients: when a replica is lost, the others go on within seconds.

    pip install 'torchft==0.2.*'
    python examples/fault_tolerant.py --replicas 3 --fail-replica 1

With ``--every 4`` it trains with local updates: four steps at each replica, then one outer step of all.

It starts torchft's lighthouse and one process for each replica on this machine. On several hosts, start
``torchft_lighthouse`` once and this program with ``--replica N --lighthouse URL`` at each host.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from hashlib import sha256
from typing import Any

import torch
import torch.distributed as dist
from torchft import DistributedDataParallel, Manager, Optimizer
from torchft.coordination import LighthouseServer

from inceptionn.torch.torchft import CompressedGroup, FaultTolerantDiLoCo

INPUTS, HIDDEN, CLASSES, BATCH = 32, 192, 8, 16
LIMIT = timedelta(seconds=20)


def train(options: argparse.Namespace, fail_step: int | None) -> None:
    """Train one replica until ``steps`` steps are committed. It dies in the middle of ``fail_step``.

    With local updates, these are outer steps.
    """
    replica, every = options.replica, options.every
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)
    )
    inner = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)

    def load(saved: dict[str, Any]) -> None:
        module.load_state_dict(saved["module"])
        inner.load_state_dict(saved["optimizer"])

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    group = CompressedGroup(timeout=LIMIT)
    manager = Manager(
        pg=group, min_replica_size=2, timeout=LIMIT, quorum_timeout=3 * LIMIT,
        use_async_quorum=not every, init_sync=not every,
        load_state_dict=load,
        state_dict=lambda: {"module": module.state_dict(), "optimizer": inner.state_dict()},
        rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
        lighthouse_addr=options.lighthouse, replica_id=f"replica_{replica}_",
    )  # fmt: skip
    if every:
        diloco = FaultTolerantDiLoCo(manager, group, module, inner, every)
    model: Any = module if every else DistributedDataParallel(manager, module)
    optimizer: Any = inner if every else Optimizer(manager, inner)
    samples = torch.Generator().manual_seed(replica)
    while (step := manager.current_step()) < options.steps:
        if step == fail_step:
            module[0].bias.register_post_accumulate_grad_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        inputs = torch.randn(BATCH, INPUTS, generator=samples)
        optimizer.zero_grad()
        outputs = model(inputs)
        torch.nn.functional.cross_entropy(outputs, inputs[:, :CLASSES].argmax(dim=1)).backward()
        optimizer.step()
        time.sleep(0.1 / (every or 1))  # as a larger model would take, so that all replicas can join
        if not every or diloco.step():
            print(f"replica {replica}: {manager.current_step()} of {manager.num_participants()}", flush=True)
    weights = b"".join(p.detach().numpy().tobytes() for p in module.parameters())
    costs = diloco if every else group.state
    print(f"replica {replica}: weights {sha256(weights).hexdigest()[:16]}\n{costs}", flush=True)
    manager.shutdown(wait=False)


def main() -> None:
    """Start all replicas here, or be one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--every", type=int, default=0, help="inner steps of local updates; 0: none")
    parser.add_argument("--fail-replica", type=int, help="this replica dies ...")
    parser.add_argument("--fail-step", type=int, default=15, help="... in the middle of this step")
    parser.add_argument("--replica", type=int, help="be this replica")
    parser.add_argument("--lighthouse", help="URL, for --replica")
    options = parser.parse_args()
    if options.replica is not None:
        fails = options.replica == options.fail_replica
        train(options, options.fail_step if fails else None)
        return
    lighthouse = LighthouseServer(
        bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=20_000, heartbeat_timeout_ms=2000
    )
    url = f"http://127.0.0.1:{lighthouse.address().rpartition(':')[2]}"
    command = [sys.executable, *sys.argv, "--lighthouse", url, "--replica"]
    started = [subprocess.Popen([*command, str(replica)]) for replica in range(options.replicas)]
    try:
        codes = [process.wait(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()
        lighthouse.shutdown()
    lost = [-signal.SIGKILL if replica == options.fail_replica else 0 for replica in range(options.replicas)]
    sys.exit(codes != lost)


if __name__ == "__main__":
    main()
