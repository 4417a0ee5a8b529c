# SPDX-License-Identifier: BSD-2-Clause
"""What `inceptionn bench layers` and `bench ssd-sgd` measure, over loopback, and what they make of it."""

from typing import Any

import pytest
from outcomes import Group, returned
from rich.console import Console

from inceptionn.evaluate.bench.layers import layers, ssd_sgd
from inceptionn.evaluate.bench.layers.layers_rank import WHAT, model_of
from inceptionn.evaluate.bench.layers.layers_systems import SYSTEMS
from inceptionn.evaluate.study import tabulated
from inceptionn.evaluate.training import count_of, digits
from inceptionn.transport import Transport

pytest.importorskip("torch")
DATA = digits()
PLAN = layers.plan_of("cnn", "8,8", 8, 10, 0)
MODEL = model_of(PLAN)
VALUES = count_of(MODEL.initial())


def run(threads: Group, case: dict[str, Any], size: int = 3) -> dict[str, Any]:
    def rank(transport: Transport) -> dict[str, Any]:
        return WHAT[case["what"]](transport, MODEL, DATA, PLAN, case)

    return {**case, **returned(threads(size, rank, timeout=20.0))[0]}


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_runs(threads: Group, name: str) -> None:
    found = run(threads, {"what": "time", "system": name, "steps": 6})
    assert found["seconds"] > 0
    sent = sum(found["sent"].values())
    raw = 2 * 2 * 4 * VALUES  # 3 ranks: two thirds of the values to and from each
    assert 0.02 * raw < sent < 1.2 * raw
    curve = run(threads, {"what": "train", "system": name, "steps": 8, "warm_up": 2, "every": 4})["curve"]
    assert [step for step, _ in curve] == [0, 4, 8]
    assert all(0 <= accuracy <= 1 for _, accuracy in curve)


def test_bytes_per_step_by_hand(threads: Group) -> None:
    """Two ranks: half of all values goes each way, in a push and in a pull; SSD-SGD pulls once in five."""
    found = {name: run(threads, {"what": "time", "system": name, "steps": 10}, 2) for name in ("ssgd", "ssd")}
    assert found["ssgd"]["sent"]["push"] == found["ssgd"]["sent"]["pull"] == 4 * VALUES
    assert found["ssd"]["sent"]["push"] == 4 * VALUES
    assert found["ssd"]["sent"]["pull"] == pytest.approx(4 * VALUES / 5)
    assert found["ssd"]["steps"] == 10


def test_parts_of_the_time_model(threads: Group) -> None:
    found = run(threads, {"what": "parts", "k": 0, "codec": True, "steps": 3})
    assert all(found[name] > 0 for name in ssd_sgd.PARTS)
    assert ssd_sgd.costs_of(found).t_b == pytest.approx(2 / 3 * found["computation"])


def printed(table: Any) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_tables_and_figures_of_layers() -> None:
    seconds = {"ssgd": 0.2, "ssgd+codec": 0.16, "ssd": 0.1, "ssd+codec": 0.05}
    results = {
        "time": {1e8: {n: {"seconds": s, "sent": {"push": 3e6, "pull": 1e6}} for n, s in seconds.items()}},
        "train": {name: {"curve": [[0, 0.1], [9, 0.95]]} for name in seconds},
    }
    text = printed(layers.table_of(results, 1e8))
    assert "SSD-SGD, k = 5 " in text
    assert "2.00x" in text
    assert "95.0 %" in text
    assert "push 3000" in text
    assert [figure.measured for figure in layers.figures_of(results)] == pytest.approx([2.0, 2.0, 3.2])
    assert layers.figures_of({"time": {1e9: results["time"][1e8]}}) == []


def test_tables_and_figures_of_ssd_sgd() -> None:
    parts = {"what": "parts", "k": 0, "computation": 0.03, "local": 0.01, "send": 0.1, "communication": 0.2}
    lines = [{**parts, "codec": codec} for codec in (False, True)]
    for codec in (False, True):
        for k in range(6):
            seconds = [0.24, 0.2, 0.15, 0.13, 0.12, 0.12][k] / (1 + codec)
            lines += [{"what": "time", "k": k, "codec": codec, "seconds": s * seconds} for s in (1, 1.01, 3)]
    text = printed(ssd_sgd.times_table(lines, "here"))
    # Equation 2: 30 + 200 ms. Equation 4, case 2, k = 5: 100 + (200 + 20 - 20 - 100) / 5 = 120 ms.
    assert "230.0" in text
    assert "120.0" in text
    measured = [figure.measured for figure in ssd_sgd.time_figures(lines)]
    assert measured == pytest.approx([2.0, 2.0, 2.0])
    accuracies = {"SSGD": [0.9, 0.92], **{f"k = {k}, glu": [0.9, 0.9 + k / 100] for k in range(1, 6)}}
    assert [f.measured for f in ssd_sgd.accuracy_figures(accuracies)] == pytest.approx([0.5, 0, -0.5, -1])
    rows = [(name, accuracies["SSGD"], found) for name, found in accuracies.items()]
    assert "91.00 %" in printed(tabulated("", ssd_sgd.ACCURACIES, rows))


def test_accuracies_are_measured() -> None:
    assert ssd_sgd.final_accuracy(3, "glu", 40, 0) > 0.6
