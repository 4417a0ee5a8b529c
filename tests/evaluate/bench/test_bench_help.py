# SPDX-License-Identifier: BSD-2-Clause
"""The benches' help: how long each takes, and its seed."""

import re

import pytest

from inceptionn import cli

BENCHES = cli.COMMANDS["bench"].commands or {}


@pytest.mark.parametrize("name", sorted(BENCHES))
def test_help_names_the_run_time_and_the_seed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", name, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"Usage: inceptionn bench {name} ")
    assert re.search(r"about \w+ minutes|half an? (minute|hour)", text, re.IGNORECASE)
    assert " --seed " in text


def test_help_of_the_group_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: inceptionn bench ")
    for name, command in BENCHES.items():
        assert f"  {name} " in out
        assert command.help in out
