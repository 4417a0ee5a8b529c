# SPDX-License-Identifier: BSD-2-Clause
"""A group of torch processes with a secret of its own: the store alone admits nobody."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from inceptionn.transport import TransportError

Ranks = Callable[..., list[dict[str, Any]]]
PROGRAM = "secret_ranks.py"
DIFFERS = "the secret differs: rank 1 has another one than rank 0 (secret=, INCEPTIONN_SECRET, "


@pytest.fixture(autouse=True)
def _no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INCEPTIONN_SECRET", raising=False)
    monkeypatch.delenv("INCEPTIONN_SECRET_FILE", raising=False)


def test_a_stranger_at_the_store_does_not_join(ranks_of: Ranks) -> None:
    """It knows everything that the store holds, and comes before the rank whose place it wants."""
    group = {"WORLD_SIZE": "2", "INCEPTIONN_SECRET": "of all ranks"}
    zero, one, stranger = ranks_of(PROGRAM, 3, "[]", own=[group, group, {"WORLD_SIZE": "2"}])
    assert (zero["said"], one["said"]) == (1, 1)
    assert stranger["said"].startswith(f"TransportError: {DIFFERS}")


def test_a_wrong_or_missing_secret_is_an_error_at_every_rank(ranks_of: Ranks) -> None:
    secrets = [
        ["right", "wrong"],
        ["right", None],
        [None, "right"],
        ["", "right"],
        ["right", ""],
        ["right", "right"],
    ]
    zero, one = (found["said"] for found in ranks_of(PROGRAM, 2, json.dumps(secrets)))
    for case in range(3):
        assert one[case].startswith(f"TransportError: {DIFFERS}")
        assert zero[case].startswith(
            "TransportError: rank 1 did not reach the rendezvous within 3 s; refused: "
        )
        assert DIFFERS in zero[case]
    empty = "INCEPTIONN_SECRET is empty; give a secret or leave it out"
    assert (zero[3], one[3]) == (f"ValueError: {empty}", f"TransportError: rank 0: {empty}")
    assert (zero[4], one[4]) == (
        f"TransportError: rank 1 did not reach the rendezvous within 3 s; rank 1: {empty}",
        f"ValueError: {empty}",
    )
    assert (zero[5], one[5]) == (1, 1)


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
    import torch.distributed as dist

    from inceptionn.torch import TorchTransport

    store = dist.HashStore()
    store.set("rendezvous", held)
    with pytest.raises(TransportError) as caught:
        TorchTransport.__new__(TorchTransport)._meet(store, 1, 2, 5, False, 0x28, None)
    assert str(caught.value) == message
