# SPDX-License-Identifier: BSD-2-Clause
"""`inceptionn simulate`: every bench has its component; a run leaves a table and a waveform."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from amaranth.lib import wiring

from inceptionn import cli
from inceptionn.sim import simulate


@pytest.mark.parametrize("name", simulate.benches())
def test_every_bench_has_a_component(name: str) -> None:
    assert isinstance(simulate.bench(name).make(), wiring.Component)


def test_every_exception_has_a_bench() -> None:
    assert set(simulate.EXCEPTIONS) <= set(simulate.benches())


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", "--list"]) == 0
    assert capsys.readouterr().out.split() == list(simulate.benches())


def test_run_leaves_table_and_waves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waves = tmp_path / "deep" / "registers.vcd"
    assert cli.main(["simulate", "registers", "--test", "reset_values", "--waves", str(waves)]) == 0
    out = capsys.readouterr().out
    assert "reset_values" in out
    assert "passed" in out
    assert f"waves: {waves}" in out
    with waves.open() as file:
        assert any("$enddefinitions" in line for line in file)


def test_failing_bench_is_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = tmp_path / "tests" / "hdl" / "bench_registers.py"
    bench.parent.mkdir(parents=True)
    bench.write_text("import cocotb\n@cocotb.test()\nasync def wrong(dut):\n    assert False, 'of course'\n")
    monkeypatch.setattr(simulate, "bench_folder", lambda: bench.parent)
    assert cli.main(["simulate", "registers", "--no-waves"]) == 1
    captured = capsys.readouterr()
    assert "wrong: of course" in captured.out
    line, _, log = captured.err.rstrip("\n").rpartition("; log: ")
    assert line == "inceptionn: bench_registers.py on registers (verilator, seed 1): 1 of 1 tests failed"
    shutil.rmtree(Path(log).parent)
