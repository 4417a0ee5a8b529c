# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench codec``: its data, its measurements, and what it writes."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inceptionn import Codec, cli
from inceptionn.codec import active_path, available_paths
from inceptionn.commands.environment import conditions, environment
from inceptionn.commands.speed import RUN, best_seconds, speed, synthetic
from inceptionn.commands.study import Figure
from inceptionn.evaluate.bench.common import data
from inceptionn.evaluate.bench.common.memory import peak_of
from inceptionn.evaluate.bench.kernels import codec as bench
from inceptionn.evaluate.bench.kernels.peers import PEERS, Peer, Ready

BOUND = 2.0**-10


def test_synthetic_values_have_the_spread_that_is_claimed() -> None:
    x = synthetic(40 * RUN + 5, seed=3)
    assert (x.dtype, x.size) == (np.float32, 40 * RUN + 5)
    spreads = x[: 40 * RUN].reshape(40, -1).std(axis=1)
    assert 0.9e-3 < spreads.min() < 3e-3 < 5e-3 < spreads.max() < 1.1e-2
    # Kurtosis tells the two distributions apart: 3 for a normal one, 6 for Laplace's.
    runs = x[: 40 * RUN].reshape(40, -1) / spreads[:, np.newaxis]
    fourth = (runs.astype(np.float64) ** 4).mean(axis=1)
    assert abs(fourth[0::2].mean() - 3) < 0.3
    assert abs(fourth[1::2].mean() - 6) < 1
    assert np.array_equal(x, synthetic(40 * RUN + 5, seed=3))
    assert not np.array_equal(x, synthetic(40 * RUN + 5, seed=4))


def test_real_gradients_are_those_of_workers_that_learn() -> None:
    count = 3 * 50_826 + 11
    first, second = data.real(count, seed=1, workers=2)
    assert first.size == second.size == count
    assert not np.array_equal(first, second)
    # Three steps and a bit: the first step, and the last one, whose gradients are smaller.
    size = 50_826
    assert np.abs(first[:size]).mean() > 2 * np.abs(first[2 * size : 3 * size]).mean()
    # The two workers see different samples of the same task: their gradients point the same way.
    a, b = first[:size].astype(np.float64), second[:size].astype(np.float64)
    assert a @ b > 0.1 * math.sqrt((a @ a) * (b @ b))
    assert Codec().compress(first)


def test_own_values(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    first, second = data.of_file(tmp_path / "x.npy", 4, 2)
    assert first.tolist() == [0, 1, 2, 3]
    assert second.tolist() == [4, 5, 0, 1]
    np.save(tmp_path / "y.npy", np.arange(6))
    with pytest.raises(TypeError, match=r"y\.npy must hold float32.* values, not int64: np.save"):
        data.of_file(tmp_path / "y.npy", 4, 1)
    (tmp_path / "z.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"z\.npy is not a \.npy file, or its header is damaged$"):
        data.of_file(tmp_path / "z.npy", 4, 1)


def test_best_of_rounds() -> None:
    turns: list[str] = []
    best = best_seconds({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, repeats=3)
    assert turns == ["a", "b"] * 4  # the first round warms up
    assert all(0 < value < 1 for value in best.values())
    turns.clear()
    ticks = iter([0.0, 9.0, 10.0, 14.0, 20.0, 25.0])  # warm-up 9, then 4 and 5
    assert best_seconds({"a": lambda: None}, repeats=2, clock=lambda: next(ticks)) == {"a": 4.0}
    best_seconds({"a": lambda: turns.append("a")}, repeats=1000, patience=0.0)
    assert len(turns) == 2


def test_speed_and_its_ratio() -> None:
    x = synthetic(1 << 14, seed=1)
    measured = speed(x=x, repeats=1, error_bound=2**-6)
    assert set(measured) == {"memcpy", "compress", "decompress", "decompress_add", "lossy", "ratio"}
    assert measured["ratio"] == pytest.approx(x.nbytes / len(Codec(2**-6).compress(x)))


def test_peak_memory_counts_what_a_call_touches() -> None:
    size = 64_000_000
    peak = peak_of(lambda: bytes(size))  # calloc: nothing is touched
    touched = peak_of(lambda: bytearray(b"x") * size)
    freed = peak_of(lambda: (bytearray(b"x") * size) and None)
    assert peak is not None
    assert touched is not None
    assert freed is not None
    assert peak < size / 8
    assert size * 0.9 < touched < size * 1.2
    assert size * 0.9 < freed < size * 1.2


def test_codec_takes_no_hidden_copies() -> None:
    x = synthetic(8_000_000, seed=1)
    codec = Codec(threads=1)
    for peak in bench._memory(Ready(codec.compress, codec.decompress), x):
        assert peak is not None
        assert 0.95 < peak < 1.1


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peers_keep_what_they_promise(peer: Peer) -> None:
    if peer.package == "torch":
        pytest.importorskip("torch")
    row = bench.row_of_peer("synthetic", peer, synthetic(50_000, seed=1), BOUND, repeats=1)
    assert row.compress > 0
    assert row.decompress > 0
    if peer.lossless:
        assert row.largest_error == 0
    elif "bf16" in peer.name:
        assert row.ratio == 2
        assert 0 < row.largest_error < 1  # 2**-9 of values below 0.1
    else:
        assert row.ratio > 3
        assert 0 < row.largest_error <= 1


def row(name: str, threads: int = 1, variant: str = "bounded", **values: float) -> bench.Row:
    defaults = {
        "memcpy": 20.0, "compress": 15.0, "decompress": 14.0, "ratio": 4.0, "largest_error": 0.9,
        "small_compress": 1e-6, "small_decompress": 2e-6, "memory_compress": 1.0, "memory_decompress": 1.05,
    }  # fmt: skip
    values = defaults | values
    return bench.Row(data="d", name=name, kind=bench.OURS, threads=threads, variant=variant, **values)


def test_figures_by_hand() -> None:
    rows = [
        row("auto"),
        row("auto", 2, compress=30.0, memcpy=24.0, decompress=8.4),
        row("avx2", compress=11.0),
        row("auto", variant="planes", compress=28.0),
        row("avx512", variant="planes", compress=17.0),
        row("avx2", variant="planes", decompress=17.0),
    ]
    figures = {figure.name: figure for figure in bench.figures_of(rows)}
    assert figures["d: bounded: compress, auto, of memcpy"].measured == 0.75
    assert figures["d: bounded: compress, auto, of memcpy"].reached is False
    assert figures["d: bounded: compress, avx2, of memcpy"].measured == 0.55
    assert figures["d: bounded: compress, avx2, of memcpy"].reached is False
    assert figures["d: bounded: decompress, auto, of memcpy"].measured == 0.7
    assert figures["d: bounded: compress, two threads against one"].measured == pytest.approx(1.25 / 0.75)
    assert figures["d: bounded: decompress, two threads against one"].measured == pytest.approx(0.5)
    assert figures["d: bounded: decompress 1 Ki values"].measured == pytest.approx(2)
    assert figures["d: bounded: memory, decompress"].reached is True
    assert figures["d: planes: compress, auto, of memcpy"].measured == 1.4
    assert figures["d: planes: decompress, auto, of memcpy"].reached is False
    assert figures["d: planes: decompress, avx2, of memcpy"].measured == 0.85
    assert Figure("x", None, 1.0).reached is None
    assert Figure("x", 1.2, 1.1, most=True).reached is False


def test_environment_names_what_the_figures_depend_on() -> None:
    facts = environment(7)
    assert facts["seed"] == 7
    assert facts["codec_path"] == active_path()
    assert {"inceptionn", "numpy"} <= set(facts["packages"])
    assert facts["processors"] >= 1
    assert "seed 7" in conditions(facts)
    json.dumps(facts)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_values_of_16_bits(dtype: str, tmp_path: Path, made_by: Callable[..., Any]) -> None:
    np.save(tmp_path / "x.npy", synthetic(30_000, seed=5))
    command = f"bench codec --dtype {dtype} --quick --size 1 --repeats 1"
    made = made_by(command, "--file", tmp_path / "x.npy", plot=True)
    assert f"1 MB of {dtype} values, error bound 2**-10; " in made.text
    rows = made.facts["rows"]
    assert {row["variant"] for row in rows} == {"bounded", "planes"}
    assert {row["name"] for row in rows} >= set(available_paths())
    assert all(row["compress"] > 0 and row["decompress"] > 0 for row in rows)
    assert all(0 < row["largest_error"] <= 1 for row in rows)
    assert len({(row["variant"], row["ratio"]) for row in rows}) == 2


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", synthetic(30_000, seed=5))
    out, picture = tmp_path / "made" / "x.json", tmp_path / "x.svg"
    paths = available_paths()
    paths = paths if paths == ["numpy"] else ["auto", *paths]
    arguments = ["bench", "codec", "--quick", "--size", "1", "--file", str(tmp_path / "x.npy"), "--no-peers"]
    path = active_path()
    assert cli.main([*arguments, "--json", str(out), "--plot", str(picture)]) == 0
    assert active_path() == path
    text = capsys.readouterr().out
    assert "1 MB of float32 values, error bound 2**-10; " in text
    facts = json.loads(out.read_text())
    assert [(row["variant"], row["name"], row["threads"]) for row in facts["rows"]] == [
        (mode, name, threads)
        for mode in ("bounded", "planes")
        for name in paths
        if (mode, name) != ("bounded", "avx512-gfni")
        for threads in ((1,) if name == "numpy" else (1, 2))
    ]
    # All paths make the same bytes.
    ratios = {(row["variant"], row["ratio"]) for row in facts["rows"]}
    (_, bounded), (_, planes) = sorted(ratios)
    assert planes > 1.5 * bounded
    assert {choice["codec"] for choice in facts["by_bound"]["x.npy"]} == {"paper", "planes"}
    assert facts["environment"]["seed"] == 1
    assert ", ".join(f"{name} {used}" for name, used in facts["paths"].items()) in text
    for name in (*paths, "Figures", "of memcpy"):
        assert name in text
    assert picture.read_text().lstrip().startswith("<?xml")
