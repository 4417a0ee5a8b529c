# SPDX-License-Identifier: BSD-2-Clause
"""The paper against itself: what the checks find in its own numbers."""

import pytest

from inceptionn.evaluate.bench.collective.variants import PAPERS, variant_of
from inceptionn.evaluate.pays.ratios import TABLE_III, bits_ratio
from inceptionn.evaluate.reproduce.artefact import Artefact, Settings
from inceptionn.evaluate.reproduce.artefacts import fig12, fig15, table2, table3
from inceptionn.evaluate.reproduce.published import NETWORKS, SIZE_MB, TABLE_II

COMPARED = ("total", "add up", "fit one", "takes what", "shares", "10-bit", "up to")
"""Words of claims that compare numbers with a tolerance."""


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
    # Each way alone, and the time of both: one way of counting for both systems.
    assert "4 n at WA (4 workers, one aggregator) and 1.5 n in a ring" in headline.evidence
    assert "81.2 % less without any codec (both ways at once: 62.5 %)" in headline.evidence


def test_the_papers_ring_by_its_own_times() -> None:
    """INC's seconds from Table II and Sec. VIII-A, over the seconds of 1.5 n at 10 Gbit/s, by hand."""
    found = {check.claim: check for check in fig12.paper_checks()}
    for network, times in {"AlexNet": 2.39, "HDC": 2.77, "ResNet-50": 2.16, "VGG-16": 5.93}.items():
        check = found[f"{network}: the paper's ring takes what its bytes need"]
        assert not check.holds
        assert check.evidence.endswith(f"{times} times as long")
    assert fig12.ring_seconds("AlexNet") == pytest.approx(1.4871 * 0.45)


def test_one_aggregator_in_both_figures() -> None:
    """Figs. 12 and 15 let results go down after all gradients, in the model and in the measurement."""
    n = SIZE_MB["ResNet-50"] * 1e6
    wa = fig12.modelled("ResNet-50", {})["WA"]["exchange"]
    assert wa == pytest.approx(8 * 8 * n / 10e9, rel=0.07)  # 4 n up, then 4 n down, with headers
    made = fig15.make(Settings(quick=True, torch=False, network=False))
    rows = {row.name: row.here for row in made.rows}
    # 1.5 n against 8 n of time, with headers in both; hosts are not the limit.
    assert rows["model: INC, 4 nodes"] == pytest.approx(1.5 / 8, rel=0.02)
    assert variant_of(f"{PAPERS} raw").settings(2**-10)["sub_block"] >= 10**9


def test_hosts_decide_only_where_it_is_said() -> None:
    """With links and engines alone a better ratio gains; with hosts that move raw values it does not."""
    found = fig12.modelled("AlexNet", {"literal": 5.59, "planes": 11.0})
    assert found["INC+C planes"]["exchange"] < 0.8 * found["INC+C literal"]["exchange"]
    assert found["INC+C planes"]["hosted"] == pytest.approx(found["INC+C literal"]["hosted"], rel=0.05)
    assert found["INC"]["hosted"] == pytest.approx(found["INC"]["exchange"], rel=0.05)


def test_checks_name_their_tolerances() -> None:
    for check in (*fig12.paper_checks(), *table2.paper_checks(), *table3.paper_checks()):
        if any(word in check.claim for word in COMPARED):
            assert check.tolerance, check.claim
    tolerances = {check.claim: check.tolerance for check in table3.paper_checks()}
    assert tolerances["AlexNet: rows add up to 100 %"] == "0.15 points"


def test_table3_draws_no_empty_groups() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    found = Artefact("table3", "", [])
    bounds = [f"{name} 2^-{k}" for name in NETWORKS for k in table3.BOUNDS]
    modes = {"literal": 8.0, "planes": 16.0}
    found.data = {"ratios": {"HDC 2^-10": modes}, "paper": dict.fromkeys(bounds, 10.0)}
    table3.draw(figure, found)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["HDC 2^-10"]
    assert [bar.get_height() for bar in axes.patches] == [10.0, 8.0, 16.0]


def test_the_formulas_lines_of_fig15_differ() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    made = fig15.make(Settings(quick=True, torch=False, network=False))
    fig15.draw(figure, made)
    lines = [line for line in figure.axes[1].lines if str(line.get_label()).startswith("paper's formula")]
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines}) == len(lines) == 2
    assert all(line.get_marker() != "None" for line in lines)


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
