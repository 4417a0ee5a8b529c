"""What this rank makes of the group's secret: the sum of a value of each rank, or the error."""

import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from inceptionn.torch import TorchTransport, transport
from inceptionn.transport import Transport, connect, from_environment

JOB = "inceptionn/job/1/rendezvous"
"""Where rank 0 of a job without a process group leaves its address."""


def store() -> dist.TCPStore:
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(*where, is_master=False, timeout=timedelta(seconds=60))


def summed(group: Transport, value: int) -> int:
    with group as t:
        return sum(t.exchange(value))


def stranger() -> int:
    """Read all that the store holds, and take the place of rank 1."""
    seen = store()
    place, random = seen.get(JOB).decode().split("\n")
    try:
        return summed(connect(1, 2, place, timeout=60, nic=False, secret=random), 666)
    finally:
        seen.set("done", "1")


def by_environment(rank: int) -> int:
    if rank:
        form = transport.form

        def later(*args: Any, **settings: Any) -> None:
            store().get("done")  # the stranger comes first
            form(*args, **settings)

        transport.form = later
    return summed(from_environment(timeout=60, nic=False), rank)


def by_group(rank: int, secrets: list[list[str | None]]) -> list[int | str]:
    """One transport for each list of the ranks' secrets."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    said: list[int | str] = []
    for own in secrets:
        secret = own[rank]
        os.environ.pop("INCEPTIONN_SECRET", None)
        if secret is not None:
            os.environ["INCEPTIONN_SECRET"] = secret
        dist.barrier()
        said.append(tried(lambda: summed(TorchTransport(timeout=3, nic=False), rank)))
    dist.barrier()
    return said


def tried(call: Callable[[], int]) -> int | str:
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> dict[str, Any]:
    rank, secrets = int(os.environ["RANK"]), json.loads(sys.argv[1])
    said: Any
    if secrets:
        said = by_group(rank, secrets)
    else:
        said = tried(stranger if rank == 2 else lambda: by_environment(rank))
    return {"said": said}
