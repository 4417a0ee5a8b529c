# SPDX-License-Identifier: BSD-2-Clause
"""A group of torch processes with a secret of its own: the store alone admits nobody."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist
from torch_ranks import Ranks, said

from inceptionn.torch import TorchTransport, transport
from inceptionn.transport import Transport, TransportError, connect, from_environment

DIFFERS = "the secret differs: rank 1 has another one than rank 0 (secret=, INCEPTIONN_SECRET, "
JOB = "inceptionn/job/1/rendezvous"
"""Where rank 0 of a job without a process group leaves its address."""
MakeRanks = Callable[..., Ranks]


@pytest.fixture(autouse=True)
def _no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INCEPTIONN_SECRET", raising=False)
    monkeypatch.delenv("INCEPTIONN_SECRET_FILE", raising=False)


def store() -> dist.TCPStore:
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(*where, is_master=False, timeout=timedelta(seconds=60))


def check_sum(group: Transport, value: int) -> None:
    """Sum a value of each rank: 0 and 1."""
    with group as t:
        assert sum(t.exchange(value)) == 1


def stranger() -> None:
    """Read all that the store holds, and take the place of rank 1."""
    seen = store()
    place, random = seen.get(JOB).decode().split("\n")
    try:
        check_sum(connect(1, 2, place, timeout=60, nic=False, secret=random), 666)
    finally:
        seen.set("done", "1")


def by_environment() -> str:
    """Return what a rank of two, and a stranger, make of the group's secret."""
    rank = int(os.environ["RANK"])
    if rank == 2:
        return said(stranger)
    if rank == 1:
        form = transport.form

        def later(*args: Any, **settings: Any) -> None:
            store().get("done")  # the stranger comes first
            form(*args, **settings)

        transport.form = later
    return said(lambda: check_sum(from_environment(timeout=60, nic=False), rank))


def test_a_stranger_at_the_store_does_not_join(ranks_of: MakeRanks) -> None:
    """It knows everything that the store holds, and comes before the rank whose place it wants."""
    group = {"WORLD_SIZE": "2", "INCEPTIONN_SECRET": "of all ranks"}
    *members, other = ranks_of(3, own=[group, group, {"WORLD_SIZE": "2"}])(by_environment)
    assert members == ["nothing", "nothing"]
    assert other.startswith(f"TransportError: {DIFFERS}")


def by_group(secrets: list[list[str | None]]) -> list[str]:
    """One transport for each list of the ranks' secrets."""
    heard, rank = [], dist.get_rank()
    for own in secrets:
        secret = own[rank]
        os.environ.pop("INCEPTIONN_SECRET", None)
        if secret is not None:
            os.environ["INCEPTIONN_SECRET"] = secret
        dist.barrier()
        heard.append(said(lambda: check_sum(TorchTransport(timeout=3, nic=False), rank)))
    dist.barrier()
    return heard


def test_a_wrong_or_missing_secret_is_an_error_at_every_rank(ranks_of: MakeRanks) -> None:
    secrets = [["right", "wrong"], ["right", None], [None, "right"], ["", "right"], ["right", ""], ["a", "a"]]
    zero, one = ranks_of(2, "gloo")(by_group, secrets)
    late = "rank 1 did not reach the rendezvous within 3 s; "
    for case in range(3):
        assert one[case].startswith(f"TransportError: {DIFFERS}")
        assert zero[case].startswith(f"TransportError: {late}refused: ")
        assert DIFFERS in zero[case]
    empty = "INCEPTIONN_SECRET is empty; give a secret or leave it out"
    assert (zero[3], one[3]) == (f"ValueError: {empty}", f"TransportError: rank 0: {empty}")
    assert (zero[4], one[4]) == (f"TransportError: {late}rank 1: {empty}", f"ValueError: {empty}")
    assert (zero[5], one[5]) == ("nothing", "nothing")


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ("refused \x1b[31m" + "x" * 5000 + "\n", "rank 0: refused \\x1b[31m" + "x" * 984),
        ("x\n" + "0" * 64, "torch's store names no address of rank 0: an address is HOST:PORT, not 'x'"),
        ("a..b:1\n" + "0" * 64, "no such host: a..b"),
        ("127.0.0.1:1\nshort", "torch's store holds no random bytes of rank 0 beside its address"),
    ],
)  # fmt: skip
def test_what_the_store_holds_is_checked(held: str, message: str) -> None:
    """Anyone who reaches torch's store can write it."""
    store = dist.HashStore()
    store.set("rendezvous", held)
    with pytest.raises(TransportError) as caught:
        TorchTransport.__new__(TorchTransport)._meet(store, 1, 2, 5, False, 0x28, None)
    assert str(caught.value) == message
