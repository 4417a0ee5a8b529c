# SPDX-License-Identifier: BSD-2-Clause
"""Run cocotb benches on emitted Verilog: one function for pytest files and for ``inceptionn simulate``.

    run_bench(BlockStore, "block_store", Path("tests/hdl/codec/bench_block_store.py"))

The component is emitted, a model is built or found in the cache (`inceptionn.sim.models`), and every
test of the bench runs on it in a folder of its own.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from .models.cache import build_root, built_once, digest
from .models.cocotb_model import EXECUTABLE, SIMULATORS, build_icarus, build_verilator
from .models.tools import ToolMissing
from .models.waves import Simulator, wave_format

__all__ = ["BenchFailure", "BenchTest", "ToolMissing", "bench_parameters", "emit", "run_bench"]

DEFAULT_SEED = 1
"""Benches draw from cocotb's seeded generator; a fixed default makes a failure repeatable."""

_PARAMETERS = "INCEPTIONN_BENCH_PARAMETERS"
_LOG_TAIL = 40
_log = logging.getLogger(__name__)


class BenchFailure(AssertionError):
    """A bench's tests failed, or the simulation died.

    ``summary`` is one line: how many, and where the log is; the exception's text adds each test's message
    and the end of the log.
    """

    def __init__(self, summary: str, details: str):
        super().__init__(f"{summary}\n{details}")
        self.summary = summary
        self.details = details


class BenchTest(NamedTuple):
    """Outcome of one cocotb test; ``error`` is empty if it passed."""

    name: str
    seconds: float
    simulated_ns: float
    error: str


def bench_parameters() -> dict[str, Any]:
    """Return, inside a bench, the ``parameters`` that :func:`run_bench` was given, through JSON."""
    found: dict[str, Any] = json.loads(os.environ.get(_PARAMETERS, "{}"))
    return found


@cache
def _sources() -> str:
    """Hash what a component's Verilog depends on: the sources of `inceptionn.hdl`, Amaranth's version."""
    from inceptionn import hdl, wire
    from inceptionn.sim import inline

    folders = [Path(package.__path__[0]) for package in (hdl, wire, inline)]
    texts = [path.read_text() for folder in folders for path in sorted(folder.rglob("*.py"))]
    return digest(version("amaranth"), *texts)


def emit(component: Any, module: str, *, has_clocks: bool = False, known_as: str = "") -> str:
    """Emit the Verilog of ``component``, a ``wiring.Component`` or a factory of one, as ``module``.

    The text is cached by the circuit, which takes seconds to make for a NIC. ``known_as`` tells the component
    and its parameters from all others: the text is then cached by that and the sources, and a factory is
    only called if it is not there. ``has_clocks``: as for `inceptionn.hdl.verilog.to_rtlil`.
    """
    from inceptionn.hdl.verilog import to_rtlil, to_verilog

    if known_as:
        folder = build_root() / f"verilog-{digest(known_as, module, _sources())}"
        with built_once(folder) as scratch:
            if scratch is not None:
                (scratch / "module.v").write_text(emit(component, module, has_clocks=has_clocks))
        return (folder / "module.v").read_text()
    instance = component() if callable(component) else component
    rtlil = to_rtlil(instance, module, has_clocks=has_clocks)
    folder = build_root() / f"verilog-{digest(rtlil, Path(to_verilog.__code__.co_filename).read_text())}"
    with built_once(folder) as scratch:
        if scratch is not None:
            (scratch / "module.v").write_text(to_verilog(rtlil))
    return (folder / "module.v").read_text()


@contextmanager
def _on_path(bench: Path) -> Iterator[None]:
    """Put ``bench``'s folder, those above it below ``tests``, and their ``support`` first in ``sys.path``.

    cocotb's runner hands that path to the simulation; benches share modules of the folders above.
    """
    before = sys.path[:]
    parents = bench.resolve().parents
    names = [parent.name for parent in parents]
    folders = parents[: max(1, names.index("tests"))] if "tests" in names else parents[:1]
    sys.path[:0] = [str(path) for folder in folders for path in (folder, folder / "support")]
    try:
        yield
    finally:
        sys.path[:] = before


def _launch(simulator: Simulator, model: Path, module: str, waves: Path | None, **arguments: Any) -> None:
    """Run a model under cocotb's runner and ignore its exit status: the results file has the outcome."""
    from cocotb_tools.runner import Icarus, Verilator

    class BuiltVerilator(Verilator):
        """The runner without its build step: the executable has a fixed name."""

        def _test_command(self) -> list[list[str]]:
            command = [str(model / EXECUTABLE["verilator"]), *self.plusargs]
            return [command + (["--trace", "--trace-file", str(waves)] if waves else [])]

    class BuiltIcarus(Icarus):
        """The runner with the wave format that the file name asks for; its own is always FST."""

        def _test_command(self) -> list[list[str]]:
            (command,) = super()._test_command()
            command = [word for word in command if word != "-fst"]
            if waves is not None:
                command += [f"+waves={waves}", *(["-fst"] if waves.suffix == ".fst" else [])]
            return [command]

    runner = {"verilator": BuiltVerilator, "icarus": BuiltIcarus}[simulator]()
    arguments |= {"hdl_toplevel": module, "hdl_toplevel_lang": "verilog", "build_dir": model}
    with suppress(SystemExit, RuntimeError):
        runner.test(waves=waves is not None, **arguments)


def _outcomes(results: Path) -> list[BenchTest]:
    """Read the results file of cocotb, or an empty list if the simulation wrote none."""
    if not results.is_file():
        return []
    tests = []
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        if case.find("skipped") is not None:
            continue
        problems = [*case.findall("failure"), *case.findall("error")]
        error = "; ".join(
            problem.get("message") or (problem.text or "failed").strip() for problem in problems
        )
        properties = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
        simulated = float(properties.get("sim_time_duration") or 0)
        tests.append(BenchTest(case.get("name", "?"), float(case.get("time", 0)), simulated, error))
    return tests


def run_bench(
    component: Any | Callable[[], Any],
    module: str,
    bench: Path,
    *,
    simulator: Simulator = "verilator",
    testcase: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    waves: Path | None = None,
    seed: int = DEFAULT_SEED,
    libraries: Mapping[str, str] | None = None,
    coverage: Path | None = None,
) -> list[BenchTest]:
    """Run the cocotb tests of the file ``bench`` on ``component``, emitted as Verilog module ``module``.

    Parameters
    ----------
    component : a ``wiring.Component``, a factory of one without arguments, or a :class:`~pathlib.Path` of a
        Verilog file that holds ``module``.
    testcase : run only the tests of this name.
    parameters : what the bench reads with :func:`bench_parameters`; JSON values.
    waves : a file to record into, ``*.vcd`` or ``*.fst``.
    seed : of cocotb's random generator.
    libraries : Verilog of modules that the Verilog file instantiates and does not hold, by name; with
        Verilator each is compiled once for all that use it.
    coverage : a file for the lines and toggles of the Verilog that the run reached, as Verilator writes it.

    Returns the tests that ran. Raises :class:`BenchFailure` if one failed, none ran, or the simulation died;
    the run's folder with its log then stays. The log of a pass goes to this module's logger (INFO). Raises
    :class:`ToolMissing` or :class:`~inceptionn.sim.models.tools.ToolError` for a simulator that is missing
    or fails to build, and ``ValueError`` for an unknown simulator or wave format.
    """
    __tracebackhide__ = True
    if simulator not in SIMULATORS:
        raise ValueError(f"simulator must be one of {', '.join(SIMULATORS)}, not {simulator!r}")
    if coverage is not None and simulator != "verilator":
        raise ValueError(f"only verilator counts coverage, not {simulator!r}")
    kind = None if waves is None else wave_format(waves, simulator)
    verilog = component.read_text() if isinstance(component, Path) else emit(component, module)
    if simulator == "verilator":
        model = build_verilator(verilog, module, kind, libraries, coverage=coverage is not None)
    else:
        model = build_icarus("\n".join([verilog, *(libraries or {}).values()]), module, kind)
    if waves is not None:
        waves = waves.resolve()
        waves.parent.mkdir(parents=True, exist_ok=True)

    runs = build_root() / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=runs, prefix=f"{module}-"))
    log, results = folder / "simulation.log", folder / "results.xml"
    with _on_path(bench):
        _launch(
            simulator, model, module, waves,
            test_module=bench.stem, testcase=testcase, seed=seed, test_dir=folder, results_xml=str(results),
            log_file=log,
            extra_env={
                _PARAMETERS: json.dumps(dict(parameters or {})),
                "COCOTB_ANSI_OUTPUT": "0",
                # cocotb takes assertion messages from pytest, whose plugins take long to import, as does
                # every module that it reads for assertions, where Python may not keep what it compiled.
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "COCOTB_REWRITE_ASSERTION_FILES": "*bench*.py",
            },
        )  # fmt: skip
    if coverage is not None:
        shutil.copyfile(folder / "coverage.dat", coverage)
    tests = _outcomes(results)
    _check_passed(tests, log, f"{bench.name} on {module} ({simulator}, seed {seed})")
    _log.info("%s", log.read_text(errors="replace"))
    shutil.rmtree(folder)
    return tests


def _check_passed(tests: Sequence[BenchTest], log: Path, where: str) -> None:
    """Raise `BenchFailure`, with the end of the log, if a test failed or none ran."""
    __tracebackhide__ = True
    failed = [test for test in tests if test.error]
    if tests and not failed:
        return
    what = f"{len(failed)} of {len(tests)} tests failed" if tests else "no test ran to its end"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else ["(no log)"]
    messages = [f"  {test.name}: {test.error}" for test in failed]
    raise BenchFailure(f"{where}: {what}; log: {log}", "\n".join([*messages, *lines[-_LOG_TAIL:]]))
