# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench trainings``: the simulated ranks against real all-reduces, and the command."""

import csv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from inceptionn import Codec, converted
from inceptionn.collectives import MEAN, SUM, ErrorFeedback, allreduce_comp, statistics
from inceptionn.collectives.algorithms import one_step
from inceptionn.evaluate.bench.trainings import trainings as bench
from inceptionn.evaluate.bench.trainings.compressors import AUTO, TENSOR, bf16, ours, raw_bf16, rounded
from inceptionn.evaluate.bench.trainings.grid import Case
from inceptionn.transport import Transport, loopback

pytest.importorskip("sklearn")
CODEC = Codec(2**-6, "planes", threads=1)


@pytest.mark.parametrize(("ranks", "scale"), [(4, AUTO), (3, AUTO), (4, TENSOR)])
def test_simulated_sums_are_those_of_the_ring(
    ranks: int, scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, with error feedback over three steps; bytes but for blocks' last groups and plans."""
    monkeypatch.setattr(one_step, "MOST_SENT", -1)  # which so few values would take
    trainer = Case("mlp", "sgd", ranks, seed=1).trainer()
    gradients = [trainer.gradients(step) for step in range(3)]
    compress = ours(CODEC, scale, trainer.shapes)
    sections = [values.size for values in trainer.shapes.values()] if scale == TENSOR else None
    residuals = np.zeros_like(gradients[0])
    expected, sent = [], []
    for gradient in gradients:
        kept, count = compress(gradient + residuals)
        residuals = gradient + residuals - kept
        expected.append(kept.sum(axis=0))
        sent.append(count())

    def rank(transport: Transport) -> tuple[list[bytes], list[float]]:
        memory, found, sizes = ErrorFeedback(CODEC), [], []
        for gradient in gradients:
            total = np.empty_like(trainer.weights)
            before = statistics(transport)
            allreduce_comp(
                transport, gradient[transport.rank], total, SUM, codec=CODEC, path="software",
                scale=scale, sections=sections, feedback=(memory, ""),
            )  # fmt: skip
            found.append(total.tobytes())
            sizes.append(float(statistics(transport).since(before).bytes_sent))
        transport.close()
        return found, sizes

    with ThreadPoolExecutor(ranks) as pool:
        results = list(pool.map(rank, loopback(ranks)))
    for found, _ in results:
        assert found == [each.tobytes() for each in expected]
    assert np.mean([sizes for _, sizes in results], axis=0) == pytest.approx(sent, rel=0.1)


def test_bfloat16_has_the_bits_and_bytes_of_the_ring(threads: Any) -> None:
    """Those of an all-reduce of arrays of bfloat16 between four ranks."""
    x = np.random.default_rng(1).laplace(scale=1e-3, size=(4, 8000)).astype(np.float32)
    codec = Codec(2**-10, "planes")

    def run(t: Transport) -> tuple[np.ndarray, int]:
        y = converted(x[t.rank], "bfloat16")
        allreduce_comp(t, None, y, MEAN, codec=codec, dtype="bfloat16")
        return converted(y, patterns=True), t.bytes_sent

    kept, sent = bf16(ours(codec, AUTO, {"": x[0]}))(x)
    outcomes = threads(4, run)
    for mean, _ in outcomes:
        assert np.array_equal(mean, kept[0])
    assert sent() == pytest.approx(np.mean([size for _, size in outcomes]), rel=0.03)


def test_the_raw_ring_of_bfloat16_rounds_partial_sums() -> None:
    x = np.array([[1], [2**-9], [2**-9], [2**-9]], np.float32)
    kept, sent = bf16(raw_bf16)(x)
    assert kept[0, 0] == 0.25  # what is added to 1 is less than half a place
    assert sent() == 4 * 3 / 4
    assert rounded(x.mean(axis=0))[0] > 0.25


def test_a_scale_per_tensor_is_that_of_each_tensor_alone() -> None:
    shapes = {"large": np.zeros(40, np.float32), "small": np.zeros((3, 8), np.float32)}
    values = np.random.default_rng(2).normal(size=(4, 64)).astype(np.float32)
    values[:, 40:] *= np.float32(2**-9)
    kept, _ = ours(CODEC, TENSOR, shapes)(values)
    for key, part in (("large", slice(40)), ("small", slice(40, 64))):
        alone, _ = ours(CODEC, AUTO, {key: shapes[key]})(values[:, part])
        assert np.array_equal(kept[:, part], alone)
    assert not ours(CODEC, AUTO, shapes)(values)[0][:, 40:].any()  # one scale for both: all is lost


def test_ranks_share_the_same_samples() -> None:
    pytest.importorskip("torch")
    losses = [Case("cnn", "adam", ranks, 0).train(5)["loss"] for ranks in (2, 8)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_the_command(made_by: Callable[..., Any]) -> None:
    command = "bench trainings --models mlp --optimizers sgd --ranks 16 --bounds 7,9 --steps 30"
    text, facts, rows, _ = made_by(command, csv=True, plot=True)
    assert "Ratio of the test losses at equal bytes" in text
    runs = facts["runs"]
    assert len(runs) == 9 == len(list(csv.DictReader(rows)))
    losses = {(run["k"], run["scale"], run["feedback"]): run["loss"] for run in runs}
    raw = losses[None, None, False]
    assert losses[7, AUTO, False] > 1.1 * raw  # 16 ranks share 2^-7: most values are lost
    assert losses[7, AUTO, True] == pytest.approx(raw, rel=0.1)
    assert losses[9, TENSOR, True] == pytest.approx(raw, rel=0.02)
    sent = {(run["k"], run["scale"], run["feedback"]): run["sent"] for run in runs}
    assert sent[7, AUTO, False] < sent[9, AUTO, False] < sent[None, None, False]


def test_a_short_run_of_bfloat16(made_by: Callable[..., Any]) -> None:
    command = "bench trainings --models mlp --optimizers sgd --ranks 4 --bounds 10 --steps 20"
    raw, *ours = made_by(command, "--dtype", "bfloat16").facts["runs"]
    assert (raw["k"], raw["ratio"]) == (None, 1)
    assert [run["scale"] for run in ours] == [AUTO, TENSOR]
    for run in ours:
        assert run["ratio"] > 1.5
        assert run["loss"] == pytest.approx(raw["loss"], rel=0.05)


def test_losses_at_equal_bytes_by_hand() -> None:
    """Twice the loss at the same bytes, on the part that both curves have."""
    assert bench._ratio([(0, 1), (2, 0)], [(1, 0.5 - np.log(2)), (4, -1 - np.log(2))]) == pytest.approx(2)
    assert bench._ratio([(0, 1), (1, 0)], [(2, 1), (3, 0)]) is None
