# SPDX-License-Identifier: BSD-2-Clause
"""What `inceptionn bench layers` measures, over loopback, and what it makes of it."""

from typing import Any

import pytest
from outcomes import Group, returned
from rich.console import Console

from inceptionn.commands.study import tabulated
from inceptionn.evaluate.bench.layers import layers
from inceptionn.evaluate.bench.layers.layers import WHAT, model_of
from inceptionn.evaluate.bench.layers.layers_systems import SYSTEMS
from inceptionn.evaluate.training import count_of, digits
from inceptionn.transport import Transport

pytest.importorskip("torch")
DATA = digits()
PLAN = layers.plan_of("cnn", (8, 8), 8, 10, 0)
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
    trained = run(threads, {"what": "train", "system": name, "steps": 8, "warm_up": 2})
    assert 0 <= trained["accuracy"] <= 1


def test_bytes_per_step_by_hand(threads: Group) -> None:
    """Two ranks: half of all values goes each way, in a push and in a pull; SSD-SGD pulls once in five."""
    found = {name: run(threads, {"what": "time", "system": name, "steps": 10}, 2) for name in ("ssgd", "ssd")}
    assert found["ssgd"]["sent"]["push"] == found["ssgd"]["sent"]["pull"] == 4 * VALUES
    assert found["ssd"]["sent"]["push"] == 4 * VALUES
    assert found["ssd"]["sent"]["pull"] == pytest.approx(4 * VALUES / 5)
    assert found["ssd"]["steps"] == 10


def printed(table: Any) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_table_of_layers() -> None:
    sent = {"push": 3e6, "pull": 1e6}
    times = {
        name: [{"seconds": second, "sent": sent} for second in (second, 9, 0)]
        for name, second in {"ssgd": 0.2, "ssd": 0.1}.items()
    }
    ends = {name: {"accuracy": 0.95, "sent": {}} for name in times}
    text = printed(tabulated("", layers.COLUMNS, layers.rows_of(times, ends)))
    assert "SSD-SGD, k = 5 " in text
    assert "2.00x" in text
    assert "95.0 %" in text
    assert "push 3000" in text


def test_figures_of_ssd_sgd() -> None:
    seconds = {"ssgd": 0.2, "ssgd+codec": 0.16, "ssd": 0.1, "ssd+codec": 0.05}
    rows = [{"system": name, "seconds": each} for name, each in seconds.items()]
    assert [figure.measured for figure in layers.figures_of(rows, 1e8)] == pytest.approx([2.0, 2.0, 3.2])
    assert layers.figures_of(rows, 1e9) == layers.figures_of(rows[:3], 1e8) == []


def test_accuracies_are_measured() -> None:
    assert all(layers.final_accuracy(k, 40, 0) > 0.6 for k in (0, 3))
