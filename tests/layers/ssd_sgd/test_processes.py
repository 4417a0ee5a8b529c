# SPDX-License-Identifier: BSD-2-Clause
"""A training by SSD-SGD whose processes are killed, and started again from its checkpoints."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RANK = Path(__file__).with_name("ssd_sgd_rank.py")


@contextmanager
def ranks(directory: Path) -> Iterator[list[subprocess.Popen[str]]]:
    directory.mkdir(exist_ok=True)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, str(RANK), str(rank), "2", str(port), str(directory)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        yield started
    finally:
        for rank in started:
            rank.kill()
            rank.communicate()


def last_lines(directory: Path) -> list[str]:
    with ranks(directory) as started:
        return [rank.communicate(timeout=120)[0].splitlines()[-1] for rank in started]


def test_processes_that_are_killed_are_started_again_to_the_same_bits(tmp_path: Path) -> None:
    """The kill comes after step 17 of 40; the checkpoint that all ranks have is that of step 15, or 10."""
    whole = last_lines(tmp_path / "whole")
    with ranks(tmp_path / "killed") as started:
        said = started[0].stdout
        assert said is not None
        assert any(line == "step 17\n" for line in said)
        for rank in started:
            rank.kill()
    again = last_lines(tmp_path / "killed")
    starts, sums = zip(*(line.removeprefix("from ").split(": ") for line in again), strict=True)
    assert int(starts[0]) >= 10
    assert starts[0] == starts[1]
    assert [line.split(": ")[1] for line in whole] == list(sums)
