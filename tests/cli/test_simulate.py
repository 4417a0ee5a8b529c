# SPDX-License-Identifier: BSD-2-Clause
"""`inceptionn simulate`: every bench has its component; a run leaves a table and a waveform."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inceptionn import cli
from inceptionn.hdl.catalogue import CATALOGUE
from inceptionn.netns import registry
from inceptionn.sim import simulate


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", "--list"]) == 0
    out = capsys.readouterr().out
    for name, bench in simulate.benches().items():
        assert f" {name} " in out
        tests = simulate.tests_of(bench)
        assert tests, name
        assert all(test in out for test in tests)
    assert "reset_values" in out


def test_list_says_what_a_module_is() -> None:
    for name in simulate.benches():
        assert simulate.summary(simulate.component(name)).endswith((".", ":")), name


def test_a_part_is_simulated_within_the_component_that_shows_it() -> None:
    shown = {name: entry.within for name, entry in CATALOGUE.items() if entry.within}
    assert shown["header_parser"] == "front_end"
    assert {name: simulate.component(name).name for name in shown} == shown
    assert not any(CATALOGUE[name].bench for name in shown)


@pytest.mark.slow
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


def test_an_interrupt_of_the_program_alone_ends_it_and_its_compilers(tmp_path: Path) -> None:
    """A shell's Ctrl-C reaches the compilers too; a signal to one process does not."""
    compiler, started = tmp_path / "compiler", tmp_path / "started"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *--version*|*-E*) exec g++ "$@";; esac\n'
        f"sleep 600 &\necho $! >> {started}.new\nmv {started}.new {started}\nwait\n"
    )
    compiler.chmod(0o755)
    settings = {"CXX": str(compiler), "INCEPTIONN_BUILD": str(tmp_path), "INCEPTIONN_JOBS": "1"}
    command = [sys.executable, "-m", "inceptionn.cli", "simulate", "elastic_register", "--no-waves"]
    environment = {**os.environ, **settings}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not started.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "inceptionn: interrupted\n")
    assert registry._state(int(started.read_text())) in ("", "Z", "X")
