# SPDX-License-Identifier: BSD-2-Clause
"""A pytest plugin that finds which tests reach a line, and runs some of the tests on a mutant.

With ``$REACHED`` it traces all tests that the file there does not know, and adds which lines of
``$REACHED_FOLDER`` each reached. Only lines that run in this process count. With ``$CHOSEN`` it reads there
which tests to run, in their order.
"""

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import FrameType
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
def pytest_sessionfinish() -> None:
    """Write the names of all tests, the quickest first, and for each line the numbers of its tests."""
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "REACHED" in os.environ:
        there = {*known()["tests"], *known()["failed"]}
        items[:] = [item for item in items if item.nodeid not in there]
    if "CHOSEN" in os.environ:
        places = {name: at for at, name in enumerate(json.loads(Path(os.environ["CHOSEN"]).read_text()))}
        items[:] = sorted((one for one in items if one.nodeid in places), key=lambda one: places[one.nodeid])
