# SPDX-License-Identifier: BSD-2-Clause
"""Ranks that are processes, one of which is killed, or stopped."""

import signal
from pathlib import Path

import pytest
from programs import ranks

RANK = Path(__file__).with_name("parameter_server_rank.py")


@pytest.mark.parametrize(
    ("sent", "texts"),
    [
        (signal.SIGKILL, ["rank 2 is lost"]),
        # Stopped, it keeps its connections: those who wait for it name it when their patience ends.
        # A server that misses a push of rank 0 or 1 knows that they wait for rank 2 themselves.
        (
            signal.SIGSTOP,
            [
                "worker rank 2 has not pushed key 'a' of step",
                "server rank 2 has not answered",
                "nothing from rank 2 for",
            ],
        ),
    ],
    ids=["killed", "stopped"],
)
def test_a_worker_that_dies_is_named_by_all_others(port: int, sent: signal.Signals, texts: list[str]) -> None:
    with ranks(RANK, 3, 3, port, 3, first="step 1\n") as started:
        started[2].send_signal(sent)
        for rank in started[:2]:
            said, _ = rank.communicate(timeout=60)
            assert any(text in said.splitlines()[-1] for text in texts)
            assert rank.returncode == 0
