# SPDX-License-Identifier: BSD-2-Clause
"""The paper against itself: what the checks find in its own numbers."""

from __future__ import annotations

import pytest

from inceptionn.pays.ratios import TABLE_III, bits_ratio
from inceptionn.reproduce.artefacts import fig12, fig15, table2, table3
from inceptionn.reproduce.published import NETWORKS, TABLE_II


def test_two_rows_of_table_iii_have_their_columns_exchanged() -> None:
    found = {check.claim: check for check in table3.paper_checks()}
    for network in ("AlexNet", "VGG-16"):
        check = found[f"{network}, 2^-10: the 10-bit class holds what it must"]
        assert not check.holds
        assert check.evidence.endswith("and all other inequalities hold")
    for network in ("HDC", "ResNet-50"):
        assert found[f"{network}, 2^-10: the 10-bit class holds what it must"].holds
    assert found["ratios at 2^-10 are 5.5 to 11.6 (Sec. VIII-C)"].holds  # computed from what was printed


def test_exchanged_columns_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A right table passes, and a swap of any other row is named."""
    zero, eight, sixteen, whole = TABLE_III["alexnet"][10]
    monkeypatch.setitem(TABLE_III["alexnet"], 10, (zero, sixteen, eight, whole))
    monkeypatch.setitem(TABLE_III["resnet50"], 10, (81.6, 0.5, 17.9, 0.0))
    found = {check.claim: check.holds for check in table3.paper_checks()}
    assert found["AlexNet, 2^-10: the 10-bit class holds what it must"]
    assert not found["ResNet-50, 2^-10: the 10-bit class holds what it must"]
    assert table3.corrected("alexnet") == pytest.approx(bits_ratio((zero, eight, sixteen, whole)))


def test_the_ring_alone_explains_the_headline() -> None:
    headline = fig12.paper_checks()[0]
    assert not headline.holds
    assert "81.2 % less by arithmetic, without any codec" in headline.evidence


def test_vgg_does_not_add_up() -> None:
    found = {check.claim: check for check in table2.paper_checks()}
    for network in NETWORKS:
        assert found[f"{network}: parts add up to the total"].holds == (network != "VGG-16")
    assert "35.25 s" in found["VGG-16: parts add up to the total"].evidence
    assert sum(TABLE_II["VGG-16"][:-1]) + 3 == pytest.approx(TABLE_II["VGG-16"][-1])


def test_the_formulas_of_the_paper() -> None:
    n, beta = 98e6, 8 / 10e9
    assert fig15.paper_wa(4, n, beta) == pytest.approx(3 * 10e-6 + 6 * n * beta + 3 * n / 5e9)
    assert fig15.paper_inc(4, n, beta) == pytest.approx(6 * 10e-6 + 0.75 * n * (2 * beta + 1 / 5e9))
    assert fig15.paper_inc(1024, n, beta) < 1.6 * fig15.paper_inc(4, n, beta)


def test_the_model_of_the_papers_cluster() -> None:
    """WA's bytes need what Table II says of AlexNet; the ring 81 % less; compression gains on both."""
    found = fig12.modelled("AlexNet", {"literal": 5.59})
    assert found["WA"]["exchange"] == pytest.approx(TABLE_II["AlexNet"][4] / 100, rel=0.1)
    assert fig12.less(found["WA"]["exchange"], found["INC"]["exchange"]) == pytest.approx(81, abs=1)
    assert found["INC+C literal"]["step"] < found["INC"]["step"] < found["WA"]["step"]
    assert found["WA+C literal"]["exchange"] > found["WA"]["exchange"] / 2  # one leg only
