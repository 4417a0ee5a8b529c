# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench torch``: a small run between real hosts, its figures, and usage errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inceptionn.bench.torch import torch as bench
from inceptionn.cli import main


def test_a_small_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "BUCKETS", (5000,))
    found = tmp_path / "t.json"
    arguments = ["--hosts", "2", "--rates", "1g", "--models", "mlp", "--systems", "plain,hook"]
    arguments += ["--steps", "2", "--trained", "10", "--json", str(found)]
    assert main(["bench", "torch", *arguments]) == 0
    assert "1 Gbit/s, 2 hosts" in capsys.readouterr().out
    lines = json.loads(found.read_text())["lines"]
    whats = [(line["what"], line.get("system")) for line in lines]
    assert whats == [
        ("time", "plain"),
        ("time", "hook"),
        ("accuracy", "plain"),
        ("accuracy", "hook"),
        ("overhead", None),
    ]
    assert all(line["same_bits"] for line in lines if line["what"] == "accuracy")
    assert set(lines[-1]["seconds"]) == {"gloo", "backend", "plain DDP", "DDP with hook"}


def test_figures_are_ratios_of_medians() -> None:
    def timed(system: str, step: float, computation: float) -> dict[str, Any]:
        seconds = {"step": [step, step, 9.0], "computation": [computation]}
        return {"what": "time", "model": "mlp", "system": system, "rate": 1e9, "seconds": seconds}

    def trained(system: str, score: float, final: str = "accuracy") -> dict[str, Any]:
        model = "mlp" if final == "accuracy" else "transformer"
        return {"what": "accuracy", "model": model, "system": system, "score": score, "final": final}

    lines = [timed("plain", 5.0, 1.0), timed("fp16", 3.0, 1.0), timed("hook", 2.0, 1.0)]
    lines += [trained("plain", 97.0), trained("hook", 96.8)]
    lines += [trained("plain", 2.0, "loss"), trained("hook", 2.1, "loss")]
    figures = bench.figures_of(lines)
    assert [figure.measured for figure in figures] == pytest.approx([4.0, 1.5, 0.2, 5.0])
    assert [figure.reached for figure in figures] == [True, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--models", "resnet"], "--models takes mlp, cnn, transformer, not 'resnet'"),
        (["--systems", "magic"], "--systems takes plain, fp16"),
        (["--hosts", "1"], "must be 2..16, not 1"),
    ],
)
def test_usage(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "torch", *arguments]) == 2
    assert why in capsys.readouterr().err
