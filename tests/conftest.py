# SPDX-License-Identifier: BSD-2-Clause
"""Shared parts of all tests.

A missing tool is a skip for a user and a failure under continuous integration. Groups of ranks are threads of
the test, over each transport that needs no other processes.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import one_thread  # noqa: F401
import pytest
from change import CIRCUITS, changed, reach_circuits
from missing import missing
from outcomes import Group, outcomes

from inceptionn.system.programs import find_program
from inceptionn.transport import Transport, connect, loopback

# A shell's background job ignores Ctrl-C, and nohup a hangup; so would every program that a test starts and
# ends by such a signal.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def _tool_missing() -> tuple[type[Exception], ...]:
    """Return the exceptions for a missing tool; the simulation package's only where it is installed."""
    from inceptionn.netns import NetworkUnavailable

    try:
        from inceptionn.sim.runner import ToolMissing
    except ImportError:
        return (NetworkUnavailable,)
    return ToolMissing, NetworkUnavailable


def _or_skip() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Exception as error:
        if isinstance(error, _tool_missing()) and not os.environ.get("CI"):
            pytest.skip(str(error))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _or_skip())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _or_skip())


@pytest.fixture
def mpi_job() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``mpi_job(ranks, program, *arguments, timeout=120)``: a Python program under mpirun, ended.

    A skip, or a failure under CI, where there is no MPI.
    """
    program = find_program("mpirun")
    if program is None or find_spec("mpi4py") is None:
        missing("mpirun and mpi4py are needed: pip install 'inceptionn[mpi]'")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []

    def run(ranks: int, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *root, "--oversubscribe", "-np", str(ranks), sys.executable, *command],
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def mpirun(mpi_job: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """As `mpi_job`, and returns the output; the test fails if the program does."""

    def run(ranks: int, *command: str, timeout: float = 120) -> str:
        done = mpi_job(ranks, *command, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def outcomes_of(makers: list[Callable[[], Transport]], function: Callable[[Transport], Any]) -> list[Any]:
    """Return what the function returned or raised, per rank."""

    def rank(maker: Callable[[], Transport]) -> Any:
        with maker() as transport:
            return function(transport)

    return outcomes([partial(rank, maker) for maker in makers])


def in_process(size: int, function: Callable[[Transport], Any], **arguments: Any) -> list[Any]:
    """Return what the function returned or raised on each rank of a group of threads."""
    transports = loopback(
        size,
        timeout=arguments.get("timeout", 10.0),
        nic_codec=arguments.get("nic") or None,
        seed=arguments.get("seed", 0),
    )
    return outcomes_of([lambda t=t: t for t in transports], function)


class Made(NamedTuple):
    """What a command printed, and its JSON, the lines of its CSV and its chart."""

    text: str
    facts: Any
    rows: list[str]
    picture: str


@pytest.fixture
def made_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Made]:
    """``made_by("bench trainings --steps 2", *more, csv=True, plot=True)``: of a command that succeeds."""

    def run(words: str, *more: object, csv: bool = False, plot: bool = False, columns: int = 160) -> Made:
        from inceptionn import cli

        monkeypatch.setenv("COLUMNS", str(columns))
        if plot:
            pytest.importorskip("matplotlib")
        json_file, csv_file, chart = (tmp_path / f"made.{end}" for end in ("json", "csv", "svg"))
        outputs = ["--json", json_file, *(["--csv", csv_file] * csv), *(["--plot", chart] * plot)]
        assert cli.main([*words.split(), *map(str, [*more, *outputs])]) == 0
        picture = chart.read_text() if plot else ""
        assert not plot or (len(picture) > 1000 and picture.lstrip().startswith("<?xml"))
        rows = csv_file.read_text().splitlines() if csv else []
        return Made(capsys.readouterr().out, json.loads(json_file.read_text()), rows, picture)

    return run


@pytest.fixture
def port() -> int:
    """Return a port that nobody listens on."""
    return free_port()


@pytest.fixture(scope="session")
def new_port() -> Callable[[], int]:
    """Return a function that finds such a port at each call, for fixtures of the whole session."""
    return free_port


@pytest.fixture
def tcp() -> Group:
    """``tcp(size, function, **arguments of connect)``: what each rank returned or raised."""

    def run(size: int, function: Callable[[Transport], Any], **arguments: Any) -> list[Any]:
        where = f"127.0.0.1:{free_port()}"
        settings = {"timeout": 10.0, "nic": False} | arguments
        return outcomes_of(
            [partial(connect, rank, size, where, **settings) for rank in range(size)], function
        )

    return run


@pytest.fixture(params=["loopback", "tcp"])
def group(request: pytest.FixtureRequest, tcp: Group) -> Group:
    """Return a function as `tcp` does, for each transport; arguments: ``timeout``, ``nic`` (a codec)."""
    return tcp if request.param == "tcp" else in_process


@pytest.fixture
def threads() -> Group:
    """Return a function as `tcp` does, for loopback alone."""
    return in_process


@pytest.fixture
def lying() -> Callable[[Transport, Callable[[Any], bool], Any], None]:
    """``lying(t, instead_of, answer)``: a rank's exchanges send ``answer`` where ``instead_of(value)``."""

    def lie(t: Transport, instead_of: Callable[[Any], bool], answer: Any) -> None:
        real = t.exchange
        t.exchange = lambda value: real(answer if instead_of(value) else value)  # type: ignore[method-assign]

    return lie


WITHOUT_CIRCUITS = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WITHOUT_CIRCUITS] = bool(os.environ.get("TOUCHED")) and not reach_circuits(changed())


def pytest_report_header(config: pytest.Config) -> str:
    if not os.environ.get("TOUCHED"):
        return ""
    return f"slow tests of circuits: {'left out' if config.stash[WITHOUT_CIRCUITS] else 'run'}"


def _is_of_circuits(item: pytest.Item) -> bool:
    return item.path.relative_to(Path(__file__).parent).parts[0] in CIRCUITS


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark, leave out and order tests.

    What has 16 lanes does not run in ``make test``; ``exhaustive`` tests run with EXHAUSTIVE=1 alone. With
    TOUCHED=1, slow tests of circuits run only if something that they may need has changed. Files
    with slow tests come first at each worker, so that none is left to run alone at the end. A file's tests
    stay together, since they share what was built for them.
    """
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        entry = parameters.get("entry")  # of the catalogue, with the number of its variant
        sizes = parameters if entry is None else entry.variants[parameters["variant"]]
        if sizes.get("lanes") == 16 and "hdl" in item.path.parts:
            item.add_marker(pytest.mark.slow)
    left_out: set[pytest.Item] = set()
    if not os.environ.get("EXHAUSTIVE"):
        left_out |= {item for item in items if item.get_closest_marker("exhaustive")}
    if config.stash[WITHOUT_CIRCUITS]:
        left_out |= {item for item in items if item.get_closest_marker("slow") and _is_of_circuits(item)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    slow = {path: sum(item.get_closest_marker("slow") is not None for item in files[path]) for path in files}
    workers = range(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    parts: list[list[pytest.Item]] = [[] for _ in workers]
    slow_in = [0 for _ in workers]
    for path in sorted(files, key=lambda path: -slow[path]):
        number = min(workers, key=slow_in.__getitem__ if slow[path] else lambda one: len(parts[one]))
        parts[number].extend(files[path])
        slow_in[number] += slow[path]
    items[:] = [item for part in parts for item in part]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while tests are collected, since little of that is."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what was collected, millions of objects, out of every garbage collection of the tests."""
    gc.freeze()
    gc.enable()
