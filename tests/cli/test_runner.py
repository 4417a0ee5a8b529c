# SPDX-License-Identifier: BSD-2-Clause
"""The runner of cocotb benches, on an accumulator: passes, fails, waves, cache, both simulators."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from inceptionn.sim.models import cocotb_model, tools, verilator
from inceptionn.sim.models.cocotb_model import SIMULATORS
from inceptionn.sim.models.waves import fst_available
from inceptionn.sim.runner import BenchFailure, ToolMissing, emit, run_bench

BENCH = Path(__file__).with_name("bench_accumulator.py")
WAVES = [pytest.param("verilator", marks=pytest.mark.slow), "icarus"]
"""A Verilator that writes waves compiles a run-time of its own."""


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """Return the bench as a module, for its component; the simulation imports it again by itself."""
    spec = importlib.util.spec_from_file_location("inceptionn_tests_bench_accumulator", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_bench_passes(bench: ModuleType, simulator: cocotb_model.Simulator) -> None:
    tests = run_bench(bench.Accumulator, "accumulator", BENCH, simulator=simulator)
    assert [test.name for test in tests] == ["adds", "holds"]
    assert not any(test.error for test in tests)
    assert all(test.simulated_ns > 0 for test in tests)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_defect_is_found(bench: ModuleType, simulator: cocotb_model.Simulator) -> None:
    with pytest.raises(BenchFailure, match="1 of 2 tests failed") as failure:
        run_bench(lambda: bench.Accumulator(defect=1), "accumulator", BENCH, simulator=simulator)
    assert "adds: total is " in failure.value.details
    assert "bench_accumulator.adds failed" in failure.value.details
    log = Path(failure.value.summary.rpartition("log: ")[2])
    assert log.is_file()
    shutil.rmtree(log.parent)


def test_a_built_model_needs_no_compiler(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    run_bench(bench.Accumulator, "accumulator", BENCH)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert run_bench(bench.Accumulator, "accumulator", BENCH)
    with pytest.raises(ToolMissing, match="no-such-compiler not found: install a C\\+\\+17 compiler"):
        run_bench(lambda: bench.Accumulator(defect=2), "accumulator", BENCH)


def test_parameters_reach_the_bench(bench: ModuleType) -> None:
    few, many = (
        run_bench(bench.Accumulator, "accumulator", BENCH, testcase="adds", parameters={"cycles": cycles})
        for cycles in (10, 1000)
    )
    assert [test.name for test in few] == ["adds"]
    assert many[0].simulated_ns > 50 * few[0].simulated_ns


def test_no_test_is_a_failure(bench: ModuleType) -> None:
    with pytest.raises(BenchFailure, match="no test ran to its end") as failure:
        run_bench(bench.Accumulator, "accumulator", BENCH, testcase="subtracts")
    shutil.rmtree(Path(failure.value.summary.rpartition("log: ")[2]).parent)


def test_broken_bench_is_a_failure(bench: ModuleType, tmp_path: Path) -> None:
    broken = tmp_path / "bench_broken.py"
    broken.write_text("import nothing_of_this_name\n")
    with pytest.raises(BenchFailure, match="nothing_of_this_name") as failure:
        run_bench(bench.Accumulator, "accumulator", broken)
    shutil.rmtree(Path(failure.value.summary.rpartition("log: ")[2]).parent)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_module_from_a_library(bench: ModuleType, simulator: cocotb_model.Simulator, tmp_path: Path) -> None:
    """A module in text of its own, which Verilator compiles once for all that instantiate it."""
    ports = "input aclk, input aresetn, input enable, input [7:0] addend, output [7:0] total"
    pins = ", ".join(f".{name}({name})" for name in ("aclk", "aresetn", "enable", "addend", "total"))
    outer = tmp_path / "outer.v"
    outer.write_text(f"module outer({ports});\n  accumulator inner({pins});\nendmodule\n")
    library = {"accumulator": emit(bench.Accumulator, "accumulator")}
    tests = run_bench(outer, "outer", BENCH, simulator=simulator, libraries=library)
    assert [test.name for test in tests] == ["adds", "holds"]


@pytest.mark.parametrize("simulator", WAVES)
def test_waves(bench: ModuleType, simulator: cocotb_model.Simulator, tmp_path: Path) -> None:
    vcd = tmp_path / "waves.vcd"
    run_bench(bench.Accumulator, "accumulator", BENCH, simulator=simulator, waves=vcd)
    text = vcd.read_text()
    assert "$enddefinitions" in text
    # The inside of the component is there too, not only its ports.
    assert " hidden " in text
    assert text.count("\n#") > 100


@pytest.mark.parametrize("simulator", WAVES)
def test_fst_waves(bench: ModuleType, simulator: cocotb_model.Simulator, tmp_path: Path) -> None:
    fst = tmp_path / "waves.fst"
    if simulator == "verilator" and not fst_available():
        with pytest.raises(ToolMissing, match="VCD needs neither"):
            run_bench(bench.Accumulator, "accumulator", BENCH, simulator=simulator, waves=fst)
        return
    run_bench(bench.Accumulator, "accumulator", BENCH, simulator=simulator, waves=fst)
    # A block of type 0, the header, of 329 bytes: what every FST file begins with.
    assert fst.read_bytes()[:9] == b"\x00" + (329).to_bytes(8, "big")


def test_model_is_built_once(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run_bench(bench.Accumulator, "accumulator", BENCH)
    monkeypatch.setattr(verilator, "_compile", None)
    run_bench(bench.Accumulator, "accumulator", BENCH)


def test_failed_build_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INCEPTIONN_BUILD", str(tmp_path))
    tools.find_icarus()  # skips the test without it; `raises` would hide that
    with pytest.raises(RuntimeError, match="failed"):
        cocotb_model.build_icarus("module broken(;\nendmodule\n", "broken")
    assert [path.suffix for path in (tmp_path / "sim").iterdir()] == [".lock"]


def test_icarus_missing(monkeypatch: pytest.MonkeyPatch, bench: ModuleType) -> None:
    monkeypatch.setattr(tools.shutil, "which", lambda name: None)
    with pytest.raises(ToolMissing, match="apt install iverilog"):
        run_bench(bench.Accumulator, "accumulator", BENCH, simulator="icarus")


def test_arguments_are_checked(bench: ModuleType) -> None:
    with pytest.raises(ValueError, match="simulator must be one of verilator, icarus, not 'vcs'"):
        run_bench(bench.Accumulator, "accumulator", BENCH, simulator="vcs")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must end in .vcd or .fst, not '.ghw'"):
        run_bench(bench.Accumulator, "accumulator", BENCH, waves=Path("a.ghw"))


def test_emitted_verilog(bench: ModuleType) -> None:
    text = emit(bench.Accumulator, "accumulator")
    assert text == emit(bench.Accumulator(), "accumulator")
    assert "module accumulator(aclk, aresetn, enable, addend, total);" in text
    assert str(Path.cwd()) not in text
