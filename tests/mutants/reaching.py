# SPDX-License-Identifier: BSD-2-Clause
"""A pytest plugin that finds which tests reach a line, and runs some of the tests on a mutant.

With ``$REACHED`` it traces all tests that the file there does not know, and adds which lines of
``$REACHED_FOLDER`` each reached. Only lines that run in this process count. With ``$CHOSEN`` it reads there
which tests to run, in their order. With ``$ORDERS``, the number of a socket, it collects all tests once,
and forks for each line that comes there: the copy puts changed code into the functions of a module, and
runs the tests of the order.
"""

import gc
import json
import marshal
import os
import signal
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

FOLDER = os.environ.get("REACHED_FOLDER", "")
lines: set[str] = set()
tests: dict[str, tuple[float, set[str]]] = {}
failed: set[str] = set()


def trace(frame: FrameType, event: str, _: Any) -> Any:
    file = frame.f_code.co_filename
    if not file.startswith(FOLDER):
        return None
    if event == "line":
        lines.add(f"{file}:{frame.f_lineno}")
    return trace


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    if "REACHED" not in os.environ:
        return (yield)
    lines.clear()
    begun = time.monotonic()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        tests[item.nodeid] = time.monotonic() - begun, lines.copy()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that fails, which judges no mutant."""
    if report.failed:
        failed.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    """Write the names of all tests, the quickest first, and for each line the numbers of its tests."""
    if "ORDERS" in os.environ:
        os._exit(exitstatus)
    if "REACHED" in os.environ:
        old = known()
        names = sorted(tests.keys() - failed, key=lambda name: tests[name][0])
        by_line = defaultdict(list)
        for number, name in enumerate(names):
            for line in tests[name][1]:
                by_line[line].append(number)
        for line, numbers in old["lines"].items():
            by_line[line] += [len(names) + number for number in numbers]
        whole = {
            "tests": names + old["tests"],
            "lines": by_line,
            "failed": sorted(failed | set(old["failed"])),
        }
        Path(os.environ["REACHED"]).write_text(json.dumps(whole))


def known() -> dict[str, Any]:
    """Return what an earlier run found."""
    file = Path(os.environ["REACHED"])
    return json.loads(file.read_text()) if file.exists() else {"tests": [], "lines": {}, "failed": []}


def chosen(items: list[pytest.Item], names: list[str]) -> list[pytest.Item]:
    place = {name: at for at, name in enumerate(names)}
    return sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "REACHED" in os.environ:
        there = {*known()["tests"], *known()["failed"]}
        items[:] = [item for item in items if item.nodeid not in there]
    if "CHOSEN" in os.environ:
        items[:] = chosen(items, json.loads(Path(os.environ["CHOSEN"]).read_text()))


NOT_THERE = 120
"""The exit status where no function has the code that is to be changed."""
TIME = -1000
"""In place of an exit status: the tests took too long."""


Pairs = list[tuple[CodeType, CodeType]]


def change(functions: Pairs, within: Pairs) -> bool:
    """Replace the code of all that runs it; whether each of ``functions`` was there."""
    changed = set()
    for one in gc.get_objects():
        if type(one) is FunctionType:
            for old, new in [*functions, *within]:
                if one.__code__ == old and one.__code__.co_filename == old.co_filename:
                    one.__code__ = new
                    changed.add(old)
    return changed >= {old for old, _ in functions}


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Answer each order with the exit status of its tests, `TIME` if they take too long."""
    if "ORDERS" not in os.environ:
        return
    with socket.socket(fileno=int(os.environ["ORDERS"])) as sock, sock.makefile("rw") as stream:
        for line in stream:
            order = json.loads(line)
            if (child := os.fork()) == 0:
                os.setsid()
                if not change(*marshal.loads(bytes.fromhex(order["functions"]))):
                    os._exit(NOT_THERE)
                session.items[:] = chosen(session.items, order["tests"])
                return
            stream.write(f"{end_of(child, order['limit_s'])}\n")
            stream.flush()
    os._exit(0)


def end_of(child: int, limit_s: float) -> int:
    until, status = time.monotonic() + limit_s, None
    while status is None and time.monotonic() < until:
        done, ended = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(ended) if done else time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # it, or what its tests started
    if status is None:
        os.waitpid(child, 0)
        return TIME
    return status
