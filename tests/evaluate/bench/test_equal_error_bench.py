# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench equal-error``: the other codecs against outside answers, and the command."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inceptionn import Codec, cli
from inceptionn.collectives import StreamCodec
from inceptionn.evaluate.bench.trainings import equal_error as bench
from inceptionn.evaluate.bench.trainings.compressors import (
    RIVALS,
    PowerSGD,
    e4m3,
    integers,
    mxfp8,
    six_sigma,
    top_k,
)
from inceptionn.evaluate.bench.trainings.grid import Case

ROOT = Path(__file__).parents[3]

pytest.importorskip("sklearn")
pytest.importorskip("torch")


def test_e4m3_is_that_of_ml_dtypes() -> None:
    """All values of 11 significant bits up to the largest finite one: halfway cases are among them."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    values = values[np.isfinite(values) & (np.abs(values) <= 448)]
    assert np.array_equal(e4m3(values), values.astype(ml_dtypes.float8_e4m3fn).astype(np.float32))
    assert e4m3(np.array([1e6, -460], np.float32)).tolist() == [448, -448]


def test_mxfp8_by_hand() -> None:
    values = np.zeros(40, np.float32)
    values[:3], values[32] = (448, 1, 2**-10), 3 * 2**-20
    kept, size = mxfp8(values)
    assert kept[:3].tolist() == [448, 1, 0]  # half of the least subnormal, 2^-9, goes to even
    assert kept[32] == values[32]  # its own block
    assert size == 40 + 2


def test_integers_by_hand() -> None:
    values = np.array([7, 3.4, -0.4, 0, 70, 14], np.float32)
    kept, size = integers(values, bits=4, block=4, scale_bytes=2)
    assert kept.tolist() == [7, 3, 0, 0, 70, 10]
    assert size == 3 + 2 * 2


def test_six_sigma_clips_and_takes_the_means_of_bins() -> None:
    values = np.random.default_rng(1).standard_normal(10_000).astype(np.float32)
    kept, size = six_sigma(np.append(values, np.float32(1000)))
    assert len(np.unique(kept)) <= 256
    assert size == 10_001 + 1024
    width = 12 * np.append(values, 1000).std() / 256
    assert np.abs(kept[:-1] - values).max() <= width
    assert kept[-1] == 1000  # alone in its bin


def test_top_k_keeps_the_largest() -> None:
    kept, size = top_k(np.array([1, -5, 2, 4, 0, 0, 0, 0, 0, 0], np.float32), 0.2)
    assert kept.tolist() == [0, -5, 0, 4, 0, 0, 0, 0, 0, 0]
    assert size == 16


def test_powersgd_restores_sums_of_low_rank_and_vectors() -> None:
    """The ranks share the left factor, so what arrives of each adds up to the sum's projection."""
    random = np.random.default_rng(3)
    low = random.normal(size=(2, 24, 2)) @ random.normal(size=(2, 40))
    shapes = {"matrix": np.zeros((24, 40), np.float32), "bias": np.zeros(5, np.float32)}
    values = np.concatenate([low.reshape(2, -1), random.normal(size=(2, 5))], axis=1).astype(np.float32)
    compressor = PowerSGD(2, shapes)
    for _ in range(3):
        kept, sent = compressor(values)
    assert np.allclose(kept.sum(axis=0), values.sum(axis=0), atol=1e-4)
    assert sent() == 4 * (2 * (24 + 40) + 5)


@pytest.mark.parametrize("codec", ["planes", "paper"])
def test_the_ratio_is_that_of_the_error(codec: str) -> None:
    """At the error of a bound of our own, it is that bound's ratio."""
    values = np.random.default_rng(4).normal(size=4096).astype(np.float32)
    values /= np.abs(values).max()
    coder = Codec(2**-7, codec)
    error = bench.relative_error(values, coder.lossy(values))
    expected = values.nbytes / len(coder.compress(values))
    assert bench.ratio_at(error, codec, values) == pytest.approx(expected, rel=0.002)
    assert bench.ratio_at(0.0, codec, values) is None


def test_ours_take_no_more_bytes() -> None:
    race = bench.Race(Case("mlp", "sgd", 4, 0), steps=30)
    row = race.against("int4, blocks of 32")
    size = sum(values.size for values in race.shapes.values())
    most = 4 * size / row["ratio"]
    for name, codec in bench.OURS.items():
        finest = row["ours"][name]
        assert race.ours(codec, finest["k"])["sent"] <= most
        assert race.ours(codec, finest["k"])["loss"] == finest["loss"]
        assert race.finest(codec, 8 * size) == 14
        assert race.finest(codec, 1) is None
    assert row["loss"] == pytest.approx(row["raw"], rel=0.1)
    assert row["ours"]["planes"]["k"] > row["ours"]["bounded"]["k"]


def test_the_command(monkeypatch: pytest.MonkeyPatch, made_by: Callable[..., Any]) -> None:
    monkeypatch.setattr(bench, "MODELS", ("mlp",))
    monkeypatch.setattr(bench, "SIDE", 64)
    names = ("int8, blocks of 128", "top-k, 1 %")
    monkeypatch.setattr(bench, "RIVALS", {name: RIVALS[name] for name in names})
    text, facts, rows, _ = made_by("bench equal-error --steps 20", csv=True, plot=True, columns=200)
    assert "Relative L2 error" in text
    assert len(facts["errors"]) == 2 * 5
    assert {row["sample"] for row in facts["errors"]} > {"mlp, early", "mlp, late"}
    for row in facts["errors"]:
        if row["rival"] == names[0]:
            assert row["ratio"] == pytest.approx(3.88, rel=0.01)
            assert row["bounded"] < row["planes"] < 8
    sparse = [row for row in facts["losses"] if row["rival"] == names[1]]
    assert all(row["ratio"] == pytest.approx(50, rel=0.02) and "bounded" not in row["ours"] for row in sparse)
    assert len(list(csv.DictReader(rows))) == 2 * 5 + 2 * 2


class Lossless(StreamCodec):
    """The values as they are."""

    name = "lossless"

    def max_compressed_size(self, count: int) -> int:
        return 4 * count

    def compress(self, x: Any, out: Any = None) -> bytes:
        return bytes(np.ascontiguousarray(x))

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        return np.frombuffer(stream, np.float32)


def test_a_codec_of_the_users_own_is_one_of_the_others(
    monkeypatch: pytest.MonkeyPatch, made_by: Callable[..., Any]
) -> None:
    """Half has a small error; a lossless one has none, and its mean is printed."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(bench, "MODELS", ("mlp",))
    monkeypatch.setattr(bench, "OPTIMIZERS", ("sgd",))
    monkeypatch.setattr(bench, "SIDE", 64)
    monkeypatch.setattr(bench, "RIVALS", {})
    _, facts, _, _ = made_by("bench equal-error --steps 20 --with examples.own_codec:Half")
    assert {row["rival"] for row in (*facts["errors"], *facts["losses"])} == {"float16"}
    for row in facts["errors"]:
        assert row["ratio"] == 2
        assert 1e-5 < row["error"] < 1e-3
    (loss,) = facts["losses"]
    assert loss["ratio"] == 2
    assert loss["loss"] == pytest.approx(loss["raw"], rel=1e-3)
    monkeypatch.setattr(bench, "user_codec", lambda given: Lossless())
    text, facts, _, _ = made_by("bench equal-error --steps 20 --with lossless")
    assert all(row["error"] == 0 and row["ratio"] == 1 for row in facts["errors"])
    assert re.search(r"lossless +│ +1.00 │ +0 │", text)


def test_a_codec_of_another_ones_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(bench, "RIVALS", {"float16": RIVALS["bf16"]})
    assert cli.main(["bench", "equal-error", "--with", "examples.own_codec:Half"]) == 2
    text = "--with: this bench has a codec 'float16', so yours needs another name"
    assert capsys.readouterr().err == f"inceptionn: Invalid value: {text}\n"
