# SPDX-License-Identifier: BSD-2-Clause
"""The benches' help: how long the long ones take, and the seed of those that draw numbers."""

from __future__ import annotations

import re

import pytest

from inceptionn import cli

BENCHES = cli.COMMANDS["bench"].commands or {}
FIXED = ("parallax",)
"""Their data are the same in every run."""


def text_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["bench", name, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", sorted(set(BENCHES) - set(FIXED)))
def test_help_names_the_seed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(r"--seeds? ", text_of(name, capsys))


@pytest.mark.parametrize("name", ["codec", "allreduce", "pays"])
def test_help_names_the_run_time(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(r"[Aa]bout \w+ minutes", text_of(name, capsys))
