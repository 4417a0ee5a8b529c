# SPDX-License-Identifier: BSD-2-Clause
"""Ranks in processes of their own that die or fall silent in the middle of a transfer."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from programs import ranks

SIZE = 4


RANK = Path(__file__).with_name("rank.py")


@contextmanager
def in_transfer(port: int, timeout: float) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield the processes, all in mid-transfer."""
    where = f"127.0.0.1:{port}"
    with ranks(RANK, SIZE, SIZE, where, timeout, first="ready\n", stderr=subprocess.STDOUT) as processes:
        yield processes


def last_words(process: subprocess.Popen[str], seconds: float) -> tuple[str, str, float]:
    out, _ = process.communicate(timeout=seconds)
    name, text, waited = out.strip().split("|")
    return name, text, float(waited)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_is_known_to_all_at_once(port: int, victim: int) -> None:
    with in_transfer(port, timeout=30) as processes:
        processes[victim].send_signal(signal.SIGKILL)
        start = time.monotonic()
        for rank, process in enumerate(processes):
            if rank != victim:
                name, text, _ = last_words(process, 10)
                assert name == "PeerLost", text
                assert f"rank {victim} is lost" in text
        assert time.monotonic() - start < 5


@pytest.mark.parametrize("victim", [0, 1])
def test_a_silent_rank_ends_in_an_exception_on_all_others_in_time(port: int, victim: int) -> None:
    with in_transfer(port, timeout=2) as processes:
        processes[victim].send_signal(signal.SIGSTOP)
        try:
            for rank, process in enumerate(processes):
                if rank != victim:
                    name, text, waited = last_words(process, 20)
                    assert name in ("TransportTimeout", "PeerLost"), text
                    assert f"nothing from rank {victim} for" in text
                    assert waited < 2 + 2
        finally:
            processes[victim].send_signal(signal.SIGCONT)
        # Awake again, it finds out as well.
        assert last_words(processes[victim], 20)[0] in ("PeerLost", "TransportTimeout")


def test_the_rank_that_is_killed_before_the_group_forms(port: int) -> None:
    with ranks(RANK, 2, 3, f"127.0.0.1:{port}", 2, stderr=subprocess.PIPE) as processes:
        for process in processes:
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 1
            assert "rank 2 did not reach the rendezvous within 2 s" in errors


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_no_survivor_ever_blames_a_healthy_rank(port: int, sent: signal.Signals) -> None:
    """Whoever is killed or stopped, at whatever point of a transfer; 5 of 195 survivors once were wrong."""
    chosen = random.Random(0)
    for _ in range(12):
        victim = chosen.randrange(SIZE)
        with in_transfer(port, timeout=30 if sent is signal.SIGKILL else 2) as processes:
            time.sleep(chosen.random() / 10)
            processes[victim].send_signal(sent)
            for rank, process in enumerate(processes):
                if rank != victim:
                    _, text, _ = last_words(process, 30)
                    assert f"rank {victim} is lost" in text or f"nothing from rank {victim} for" in text


@pytest.mark.parametrize("how", ["leave", "close", "abort", "use", "raise"])
def test_a_forked_child_leaves_the_group_alone(port: int, how: str) -> None:
    """Whatever the child does: the group is its parent's."""
    program = RANK.with_name("forked.py")
    with ranks(program, 2, 2, f"127.0.0.1:{port}", how, stderr=subprocess.PIPE) as processes:
        said = [process.communicate(timeout=60) for process in processes]
    assert [out for out, _ in said] == ["sum 2\n"] * 2, said
    assert "Failed" not in said[0][1]  # of `pytest.raises`
    assert "AssertionError" not in said[0][1]


def test_a_job_that_was_stopped_goes_on(port: int) -> None:
    """A stop of all ranks, longer than the limit, is no silence of the one that the others wait for."""
    with ranks(
        RANK.with_name("stopped.py"), 3, 3, f"127.0.0.1:{port}", 2, first="ready\n", stdin=subprocess.PIPE
    ) as processes:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        time.sleep(2.1)
        for process in processes:
            process.send_signal(signal.SIGCONT)
        time.sleep(0.1)  # those that wait have looked at the time
        said = [process.communicate("go\n", timeout=20)[0] for process in processes]
    assert said == ["done\n"] * 3
