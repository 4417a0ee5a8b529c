# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench parallax``: a small run between real hosts, and its figures."""

from collections.abc import Callable
from typing import Any

import pytest

from inceptionn.evaluate.bench.layers import parallax


def test_a_small_run(monkeypatch: pytest.MonkeyPatch, made_by: Callable[..., Any]) -> None:
    small = {"rows": 400, "width": 8, "length": 8, "samples": 2000, "exponent": 0.5}
    monkeypatch.setattr(parallax, "EMBEDDING", {**parallax.EMBEDDING, **small})
    monkeypatch.setattr(parallax, "MLP", {**parallax.MLP, "width": 8})
    monkeypatch.setattr(parallax, "GRID", (1, 2, 4, 8))
    command = "bench parallax --hosts 2 --steps 2 --rounds 1 --batch 4"
    text, facts, rows, _ = made_by(command, csv=True)
    assert rows[1].startswith(f"sparse,{parallax.HYBRID},")
    assert "2 hosts, links of 1 Gbit/s" in text
    assert "(chosen)" in text
    assert [figure["name"] for figure in facts["figures"]][2] == "dense model, step time"
    sparse = facts["results"]["sparse"]
    assert 0 < sparse["variants"][parallax.HYBRID]["alpha"] < 0.2
    assert sparse["variable_bytes"]["embedding"] == 400 * 8 * 4
    # Every rank sends each gathered gradient once to the other, and the dense one twice half.
    sent = {name: sum(variant["sent"].values()) for name, variant in sparse["variants"].items()}
    assert sent[parallax.HYBRID] < sent[parallax.DENSE]
    assert facts["results"]["dense"]["variants"][parallax.HYBRID]["partitions"] == 0


def test_figures_are_ratios_of_medians() -> None:
    def variants(**seconds: list[float]) -> dict[str, object]:
        return {name: {"seconds": times, "partitions": 4} for name, times in seconds.items()}

    names = {"h": parallax.HYBRID, "g": parallax.ALL_GATHER, "d": parallax.DENSE, "r": parallax.ALL_REDUCE}
    sparse = {names[k]: v for k, v in variants(h=[1.0, 2.0, 9.0], g=[5.0], d=[30.0]).items()}
    dense = {names[k]: v for k, v in variants(h=[1.02], r=[1.0]).items()}
    grid = {"2": [1.2], "4": [1.1], "8": [1.0]}
    results = {"sparse": {"variants": sparse, "grid": grid}, "dense": {"variants": dense}}
    figures = parallax.figures_of(results)
    assert [figure.measured for figure in figures] == pytest.approx([2.5, 15.0, 1.02, 1.1])
    assert [figure.reached for figure in figures] == [True, True, True, False]
