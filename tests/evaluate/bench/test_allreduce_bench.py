# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench allreduce``: what it concludes, and a small run in real namespaces."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from refusals import refused

from inceptionn import cli
from inceptionn.evaluate.bench.collective import allreduce
from inceptionn.evaluate.bench.collective.allreduce_report import Results, figures_of, tables_of
from inceptionn.evaluate.bench.collective.variants import (
    HALVES,
    MEASURED,
    MPI,
    RING_BF16,
    RING_BOUNDED,
    RING_PLANES,
    RING_RAW,
    VARIANTS,
)
from inceptionn.evaluate.bench.common import job
from inceptionn.netns import Namespaces, NetworkError, registry

BOUND = 2.0**-10


def results(seconds: dict[str, list[float]], rate: float = 1e9, op: str = "sum", **line: Any) -> Results:
    found = Results(BOUND, hosts=4)
    for variant, times in seconds.items():
        for time in times:
            found.add(rate, {"data": "real", "op": op, "variant": variant, "seconds": time, **line})
    return found


def test_figures_are_ratios_of_medians() -> None:
    found = results({RING_RAW: [0.3, 0.9, 0.36], RING_BF16: [0.18], RING_BOUNDED: [0.06], MPI: [0.324]})
    figures = {figure.name: figure for figure in figures_of(found)}
    assert figures["1 Gbit/s, real, sum: codec against ring raw"].measured == pytest.approx(6)
    assert figures["1 Gbit/s, real, sum: codec against ring raw"].target == 5
    assert figures["1 Gbit/s, real, sum: codec against ring bf16"].measured == pytest.approx(3)
    assert figures["1 Gbit/s, real, sum: ring raw against Open MPI"].measured == pytest.approx(0.9)
    assert [figure.reached for figure in figures.values()] == [True, True, False]


def test_what_was_not_measured_is_said() -> None:
    found = results({RING_RAW: [0.3], RING_BOUNDED: [0.06]}, rate=1e8)
    reached = {figure.name: figure.reached for figure in figures_of(found)}
    assert reached == {
        "100 Mbit/s, real, sum: codec against ring raw": True,
        "100 Mbit/s, real, sum: codec against ring bf16": None,
    }


def test_tables_have_a_row_for_each_variant() -> None:
    (table,) = tables_of(
        results({RING_RAW: [0.3], RING_BOUNDED: [0.06]}, largest_error=BOUND, bytes_sent=12_340_000)
    )
    columns = [list(column) for column in zip(*(cells for cells, _ in table.rows), strict=True)]
    assert columns[:2] == [[RING_RAW, RING_BOUNDED], ["300.0 (1.00)", "60.0 (5.00)"]]
    assert columns[2:] == [["12.3", "12.3"], ["1.00", "1.00"]]


def test_wrong_results_are_refused() -> None:
    results({RING_RAW: [1.0], MPI: [1.0]}, same_bits=True).verify()
    results({MPI: [1.0]}, same_bits=False).verify()
    with pytest.raises(RuntimeError, match="ring raw, sum of real data at 1 Gbit/s: the ranks ended with"):
        results({RING_RAW: [1.0]}, same_bits=False).verify()
    results({RING_BOUNDED: [1.0]}, largest_error=4 * BOUND).verify()
    results({RING_BOUNDED: [1.0]}, op="mean", largest_error=BOUND).verify()
    with pytest.raises(RuntimeError, match="an error of 0.00488 is above 0.00395"):
        results({RING_BOUNDED: [1.0]}, largest_error=5 * BOUND).verify()
    with pytest.raises(RuntimeError, match="an error of 0.00195 is above 0.000986"):
        results({RING_BOUNDED: [1.0]}, op="mean", largest_error=2 * BOUND).verify()


def test_slow_links_are_measured_less_often() -> None:
    # 25 MB: the ring passes 1.5, the aggregator 6 times as much; 3 s and 12 s at 100 Mbit/s.
    names = [RING_RAW, "worker-aggregator raw"]
    assert allreduce._rounds(names, 1e8, 25_000_000, 4, 5) == {RING_RAW: 3, "worker-aggregator raw": 1}
    assert allreduce._rounds(names, 1e9, 25_000_000, 4, 5) == {RING_RAW: 5, "worker-aggregator raw": 3}
    assert allreduce._rounds(names, None, 25_000_000, 4, 2) == dict.fromkeys(names, 2)


def test_a_small_run(tmp_path: Path, made_by: Callable[..., Any]) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(2).normal(scale=1e-2, size=70_000).astype(np.float32))
    command = "bench allreduce --size 1 --hosts 3 --rates 1g,unshaped --repeats 2"
    # Wide enough for names of one line, however long the figures are.
    text, facts, _, _ = made_by(command, "--file", tmp_path / "x.npy", plot=True, columns=200)
    owners = [json.loads(path.read_text())["pid"] for path in registry.folder().glob("*.json")]
    assert os.getpid() not in owners  # nothing is left
    assert "3 hosts, 1 MB of fp32 values each, error bound 0.000976562, MTU 1500, TCP " in text
    rows = {(row["rate"], row["op"], row["variant"]): row for row in facts["rows"]}
    names = set(MEASURED) if job.with_mpi() else set(MEASURED) - {MPI}
    assert set(rows) == {(rate, op, name) for rate in (1e9, None) for op in ("sum", "mean") for name in names}
    for (_, op, name), row in rows.items():
        assert name in text
        assert len(row["seconds"]) == 2
        assert row["same_bits"] or name == MPI
        if name == RING_RAW:
            assert row["bytes_sent"] == pytest.approx(1e6 * 4 / 3, rel=1e-3)
        if name == RING_BOUNDED:
            assert row["bytes_sent"] < 1e6
        if VARIANTS[name].within_bound:
            compressions = 3 if op == "sum" else 1
            assert 0 < row["largest_error"] <= BOUND * compressions * 1.01
        elif "raw" in name or name == MPI:
            assert row["largest_error"] < 1e-7
    # The links hold their rate: 4/3 of a megabyte in each direction, less what the buckets let through.
    assert rows[1e9, "sum", RING_RAW]["median_seconds"] > (8e6 * 4 / 3 - 8 * 131_072 * 2) / 1e9
    assert facts["network"]["hosts"] == 3


def test_the_halves_of_an_all_reduce(tmp_path: Path, made_by: Callable[..., Any]) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(2).normal(scale=1e-2, size=70_000).astype(np.float32))
    command = "bench allreduce --size 1 --hosts 3 --rates unshaped --repeats 1 --only bounded,MPI"
    operations = ("--op", "sum,reduce-scatter,all-gather", "--file", tmp_path / "x.npy")
    rows = {(row["op"], row["variant"]): row for row in made_by(command, *operations).facts["rows"]}
    for (op, name), row in rows.items():
        assert VARIANTS[name].does(op)
        bounds = {"sum": 3, "reduce-scatter": 2, "all-gather": 1}[op]
        if VARIANTS[name].within_bound:
            assert 0 < row["largest_error"] <= BOUND * bounds * 1.01
        else:
            assert row["largest_error"] < 1e-7
    for op in ("reduce-scatter", "all-gather"):
        assert rows[op, RING_RAW]["bytes_sent"] == pytest.approx(1e6 * 2 / 3, rel=1e-3)
        assert rows[op, RING_BOUNDED]["bytes_sent"] < 5e5


def test_a_small_run_of_bfloat16(tmp_path: Path, made_by: Callable[..., Any]) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(2).normal(scale=1e-5, size=70_000).astype(np.float32))
    command = "bench allreduce --size 1 --hosts 3 --rates unshaped --repeats 1 --dtype bfloat16 --only planes"
    made = made_by(command, "--file", tmp_path / "x.npy")
    rows = {(row["op"], row["variant"]): row for row in made.facts["rows"]}
    assert set(rows) == {(op, name) for op in ("sum", "mean") for name in HALVES if name != RING_BOUNDED}
    for op, ranks in (("sum", 3), ("mean", 1)):
        raw, ours = rows[op, RING_BF16], rows[op, RING_PLANES]
        assert raw["bytes_sent"] == pytest.approx(1e6 * 4 / 3, rel=1e-3)
        assert ours["bytes_sent"] < raw["bytes_sent"] / 2
        assert ours["scale"] > 8
        assert 0 < ours["largest_error"] <= 2.0 ** -ours["scale"] * BOUND * ranks * 1.01
        assert raw["same_bits"]
        assert ours["same_bits"]


def test_bfloat16_is_compared_with_raw_bfloat16() -> None:
    found = Results(2.0**-12, 4, RING_BF16)
    for variant, seconds in ((RING_BF16, 0.35), (RING_PLANES, 0.1)):
        line = {"data": "real", "op": "sum", "variant": variant, "seconds": seconds, "scale": 4}
        found.add(1e9, {**line, "largest_error": 2.0**-15})
    (figure,) = figures_of(found)
    assert figure[:3] == ("1 Gbit/s, real, sum: planes against ring bf16", pytest.approx(3.5), 3.0)
    found.verify()
    found.bound /= 8
    refused(RuntimeError, "ring planes, sum of real data at 1 Gbit/s: an error of", found.verify)


def test_it_says_that_it_needs_root(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["bench", "allreduce"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("inceptionn: network namespaces need root (run it with sudo)")


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the ranks import the module `silent_rank`, and return what stands for a function of it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    return SimpleNamespace(__module__="silent_rank", __name__="main")


@pytest.mark.parametrize("mpi", [False, True])
def test_a_rank_that_fails_is_quoted(rank: Any, mpi: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "with_mpi", lambda: mpi)
    text = "a rank failed: ValueError: a reason to fail"
    with Namespaces(1) as network, pytest.raises(NetworkError, match=text):
        list(job.lines_of(network, rank, {"what": "fail"}, 30))


def test_silent_ranks_are_not_waited_for(rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "with_mpi", lambda: False)
    with Namespaces(1) as network:
        lines = job.lines_of(network, rank, {"what": "silent"}, 10)
        assert next(lines) == {"line": 1}
        refused(NetworkError, "no output from the ranks for 10 s; the last was: not a word", next, lines)
        assert network.hosts[0].pids() == []
