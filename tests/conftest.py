# SPDX-License-Identifier: BSD-2-Clause
"""What all tests share: a missing tool is a skip for a user and a failure under continuous integration."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest


def _tool_missing() -> type[Exception]:
    """The exception that says so, or one that nobody raises where the simulation package is not installed."""
    try:
        from inceptionn.sim.runner import ToolMissing
    except ImportError:
        return type("Never", (Exception,), {})
    return ToolMissing


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
