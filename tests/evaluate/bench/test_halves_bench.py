# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench halves``: what raw and compressed gradients of bfloat16 are, and a short run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inceptionn import Codec
from inceptionn.codec import converted
from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.evaluate.bench.trainings.exchanges import AUTO, Ours
from inceptionn.evaluate.bench.trainings.halves import FORMS, RAW, Halves, rounded
from inceptionn.transport import Transport


def test_it_has_the_bits_and_bytes_of_the_ring(threads: object) -> None:
    """Those of an all-reduce of arrays of bfloat16 between four ranks."""
    x = np.random.default_rng(1).laplace(scale=1e-3, size=(4, 8000)).astype(np.float32)
    codec = Codec(2**-10, "planes")

    def run(t: Transport) -> tuple[np.ndarray, int]:
        y = converted(x[t.rank], "bfloat16")
        allreduce_comp(t, None, y, MEAN, codec=codec, dtype="bfloat16")
        return converted(y, patterns=True), t.bytes_sent

    ours = Halves(Ours(codec, AUTO, {"": x[0]}))
    kept = ours(x)
    outcomes = threads(4, run)  # type: ignore[operator]
    for mean, _ in outcomes:
        assert np.array_equal(mean, kept[0])
    assert ours.sent(kept) == pytest.approx(np.mean([sent for _, sent in outcomes]), rel=0.03)


def test_the_raw_ring_rounds_partial_sums() -> None:
    x = np.array([[1], [2**-9], [2**-9], [2**-9]], np.float32)
    raw = Halves(FORMS[RAW]({}))
    assert raw(x)[0, 0] == 0.25  # what is added to 1 is less than half a place
    assert raw.sent(x) == 4 * 3 / 4
    assert rounded(x.mean(axis=0))[0] > 0.25


@pytest.mark.slow
def test_a_short_run(made_by: Callable[..., Any]) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("torch")
    made = made_by("bench halves --quick")
    rows = made.facts["trainings"]
    assert len(rows) == 2 * 2 * len(FORMS)
    for row in rows:
        assert row["ratio"] == 1 if row["form"] == RAW else row["ratio"] > 1.5
    losses = {(row["form"], row["model"], row["optimizer"]): row["loss"] for row in rows}
    for (_, model, optimizer), loss in losses.items():
        assert loss == pytest.approx(losses[RAW, model, optimizer], rel=0.05)
    assert "planes 2^-12" in made.text
