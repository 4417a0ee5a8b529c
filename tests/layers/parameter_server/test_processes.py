# SPDX-License-Identifier: BSD-2-Clause
"""Ranks that are processes, one of which is killed, or stopped."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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
def test_a_worker_that_dies_is_named_by_all_others(sent: signal.Signals, texts: list[str]) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANK), str(rank), "3", str(port), "3"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        for rank in range(3)
    ]  # fmt: skip
    try:
        for rank in ranks:
            assert rank.stdout is not None
            assert rank.stdout.readline() == "step 1\n"
        ranks[2].send_signal(sent)
        for rank in ranks[:2]:
            said, _ = rank.communicate(timeout=60)
            assert any(text in said.splitlines()[-1] for text in texts)
            assert rank.returncode == 0
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
