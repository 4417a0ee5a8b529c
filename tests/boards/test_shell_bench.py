# SPDX-License-Identifier: BSD-2-Clause
"""The monitor of AXI4-Stream rules in the shells' benches passes legal beats and reports each violation."""

from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cocotb.types import LogicArray

WIDTHS = {"valid": 1, "ready": 1, "data": 16, "keep": 4, "last": 1, "reset": 1}
WAIT = {"valid": 1, "ready": 0, "data": 7, "keep": 15, "last": 0, "reset": 0}
TAKEN, IDLE, RESET = WAIT | {"ready": 1}, WAIT | {"valid": 0}, WAIT | {"valid": 0, "reset": 1}


class Edge:
    """The next cycle."""

    def __init__(self, clock: Any):
        pass

    def __await__(self) -> Generator[None]:
        yield


class Signal:
    def __init__(self, width: int):
        self.value = LogicArray("X" * width)

    def __len__(self) -> int:
        return len(self.value)


def watched(cycles: list[dict[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the monitor see these cycles, after one without a known value."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    shell_bench = import_module("shell_bench")
    monkeypatch.setattr(shell_bench, "RisingEdge", Edge)
    signals = {name: Signal(width) for name, width in WIDTHS.items()}
    dut = SimpleNamespace(**{f"m_t{name}": signal for name, signal in signals.items() if name != "reset"})
    monitor = shell_bench.holds(dut, "m", None, signals["reset"], True)
    monitor.send(None)
    monitor.send(None)
    for cycle in cycles:
        for name, value in cycle.items():
            signals[name].value = LogicArray.from_unsigned(value, WIDTHS[name])
        monitor.send(None)
    monitor.close()


def test_legal_beats_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    last = TAKEN | {"keep": 1, "last": 1}
    watched([RESET, IDLE, WAIT, WAIT, TAKEN, last, IDLE, TAKEN, WAIT, RESET, IDLE], monkeypatch)


@pytest.mark.parametrize(
    ("cycles", "text"),
    [
        ([WAIT, IDLE], "m_tvalid fell before the beat was taken"),
        ([WAIT, WAIT | {"data": 8}], "m: a beat changed before it was taken"),
        ([WAIT, WAIT | {"last": 1}], "m: a beat changed before it was taken"),
        ([TAKEN, WAIT | {"reset": 1}], "m_tvalid is high in reset"),
        ([TAKEN | {"keep": 0, "last": 1}], "m: a beat without a byte"),
        ([TAKEN | {"keep": 5, "last": 1}], "m_tkeep is 0x5, with a gap"),
        ([TAKEN | {"keep": 7}], "m_tkeep is 0x7 before tlast"),
    ],
)
def test_a_violation_is_reported(
    cycles: list[dict[str, int]], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError) as raised:
        watched(cycles, monkeypatch)
    assert str(raised.value).startswith(text)
