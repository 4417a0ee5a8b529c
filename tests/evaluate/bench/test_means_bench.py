# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench means``."""

import csv
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inceptionn import Codec
from inceptionn.evaluate.bench.trainings import means as bench

pytest.importorskip("sklearn")


def test_bytes_that_dividing_last_adds_by_hand() -> None:
    """Of four ranks, the quotient's block takes less in each of the three links that it passes."""
    codec = Codec(2**-10, "planes")
    mean = (np.random.default_rng(1).normal(size=512) * 0.001).astype(np.float32)
    sizes = [sum(len(codec.compress(part, scale=4)) for part in np.split(x, 4)) for x in (4 * mean, mean)]
    assert bench.added_by_dividing_last(codec, 4, mean, 4) == 3 * (sizes[0] - sizes[1]) > 0


def test_the_command(made_by: Callable[..., Any]) -> None:
    command = "bench means --ranks 2,4 --steps 6 --training-steps 6 --bound 8 --seed 3"
    text, facts, rows, _ = made_by(command, csv=True, plot=True)
    assert "accumulated over 6 steps" in text
    for row, ranks in zip(facts["errors"], (2, 4), strict=True):
        assert row["ranks"] == ranks
        assert 0 < row["feedback"] < row["mean"] < 1
        assert 0 < row["added_bytes"] < 1
        assert row["unexplained"] < 1e-7 * row["feedback"] ** 2  # planes: residuals have all that is lost
    raw, mean, fed = facts["trainings"]
    assert [run["variant"] for run in (raw, mean, fed)] == ["raw", "mean", "mean, feedback"]
    assert all(len(run["losses"]) == 6 and run["ranks"] == 4 for run in facts["trainings"])
    assert raw["losses"] != mean["losses"] != fed["losses"]
    assert mean["losses"] == pytest.approx(raw["losses"], rel=0.05)
    assert len(list(csv.DictReader(rows))) == 5
