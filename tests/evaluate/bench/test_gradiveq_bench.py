# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench gradiveq`` and ``bench a2dtwp``: small runs, tables and figures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inceptionn.cli import main
from inceptionn.evaluate.bench.layers import a2dtwp, gradiveq


def test_times_between_hosts(made_by: Callable[..., Any]) -> None:
    made = made_by("bench gradiveq --hosts 2 --rates 1g --repeats 1", csv=True)
    assert made.rows[1].startswith("1000000000,raw,")
    assert "All-reduce of ResNet-32's convolutions, 461232 values, 2 hosts" in made.text
    lines = made.facts["times"]["1000000000"]
    raw = lines["raw"]["sent"]
    assert raw == 2 * 4 * 461232
    assert 7.5 < raw / lines["qsgd"]["sent"] < 8
    assert raw / lines["gradiveq"]["sent"] == pytest.approx(8, rel=0.01)
    assert lines["gradiveq+codec"]["sent"] < lines["gradiveq"]["sent"] / 2
    assert lines["gradiveq-few"]["sent"] < lines["gradiveq"]["sent"] / 2


def test_training(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(gradiveq, "CHANNELS", (4, 8))
    found = {name: gradiveq.training(each, 20, 7) for name, each in gradiveq.settings(20).items()}
    assert found["raw"]["all"] == pytest.approx(1, abs=0.05)
    assert found["QSGD, 4 bits"]["sampling"] > 7
    assert found["GradiVeQ, codec"]["compressed"] > found["GradiVeQ"]["compressed"] > 1


def test_packing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "a.json"
    arguments = ["--size", "1", "--repeats", "1", "--json", str(figures), "--csv", "-"]
    assert main(["bench", "a2dtwp", *arguments]) == 0
    rows, out = capsys.readouterr()  # all but the rows goes to standard error then
    assert rows.startswith("path,memcpy,pack1,")
    assert "numpy, bitunpack" in out
    assert "GPU" in out or "torch" in out
    paths = json.loads(figures.read_text())["paths"]
    names = {f"{way}{keep}" for way in ("pack", "unpack") for keep in (1, 2, 3, 4)}
    assert all(set(rates) == {"memcpy", *names} and min(rates.values()) > 0 for rates in paths.values())


def test_the_slowest_format_counts() -> None:
    rates = {f"{way}{keep}": 10.0 for way in ("pack", "unpack") for keep in (1, 2, 3, 4)}
    figures = a2dtwp.figures_of({"avx2": {**rates, "memcpy": 10.0, "unpack3": 4.0}, "numpy": {}})
    assert [figure.measured for figure in figures] == pytest.approx([1.0, 0.4])
    assert [figure.reached for figure in figures] == [True, False]
