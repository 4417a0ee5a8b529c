# SPDX-License-Identifier: BSD-2-Clause
"""Every bench's help says how long it takes, and has a seed where it draws numbers."""

from __future__ import annotations

import re

import pytest

from inceptionn import cli

BENCHES = cli.COMMANDS["bench"].commands or {}


@pytest.mark.parametrize("name", BENCHES)
def test_help_names_run_time_and_seed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", name, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert re.search(r"[Aa]bout \w+ (seconds?|minutes?|hours?)", text), "no run time"
    assert re.search(r"--seeds? ", text) or "seeds 0" in text, "no seed"
