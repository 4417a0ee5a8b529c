# SPDX-License-Identifier: BSD-2-Clause
"""A training by SSD-SGD whose processes are killed, and started again from its checkpoints."""

from collections.abc import Callable
from pathlib import Path

from programs import ranks

RANK = Path(__file__).with_name("ssd_sgd_rank.py")


def last_lines(port: int, directory: Path) -> list[str]:
    directory.mkdir(exist_ok=True)
    with ranks(RANK, 2, 2, port, directory) as started:
        return [rank.communicate(timeout=120)[0].splitlines()[-1] for rank in started]


def test_processes_that_are_killed_are_started_again_to_the_same_bits(
    new_port: Callable[[], int], tmp_path: Path
) -> None:
    """The kill comes after step 17 of 40; the checkpoint that all ranks have is that of step 15, or 10."""
    whole = last_lines(new_port(), tmp_path / "whole")
    (tmp_path / "killed").mkdir()
    with ranks(RANK, 2, 2, new_port(), tmp_path / "killed") as started:
        said = started[0].stdout
        assert said is not None
        assert any(line == "step 17\n" for line in said)
    again = last_lines(new_port(), tmp_path / "killed")
    starts, sums = zip(*(line.removeprefix("from ").split(": ") for line in again), strict=True)
    assert int(starts[0]) >= 10
    assert starts[0] == starts[1]
    assert [line.split(": ")[1] for line in whole] == list(sums)
