# SPDX-License-Identifier: BSD-2-Clause
"""Which launcher's variables choose a program's transport."""

from types import SimpleNamespace

import pytest

from inceptionn.transport import environment, from_environment

OURS, TORCH = environment._OURS, environment._TORCH


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ((), "loopback"),
        (OURS, "connect"),
        (OURS[:2], "loopback"),
        (TORCH, "of_torchrun"),
        (TORCH[1:], "loopback"),
        (("PMI_SIZE",), "connect_mpi"),
        ((*TORCH, "PMI_SIZE"), "of_torchrun"),
        ((*OURS, *TORCH), "connect"),
    ],
)
def test_a_launcher(names: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*OURS, *TORCH, *environment._MPI):
        monkeypatch.delenv(name, raising=False)
    for name in names:
        monkeypatch.setenv(name, "1")
    for name in ("connect", "connect_mpi", "loopback"):
        monkeypatch.setattr(
            environment, name, lambda *_, name=name, **__: [name] if name == "loopback" else name
        )
    module = SimpleNamespace(of_torchrun=lambda *_: "of_torchrun", COMM_WORLD=None)
    monkeypatch.setattr(environment, "import_module", lambda _: module)
    assert from_environment() == chosen
