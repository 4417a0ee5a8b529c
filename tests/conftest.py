# SPDX-License-Identifier: BSD-2-Clause
"""What all tests share: a missing tool is a skip for a user and a failure under continuous integration."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest


def _tool_missing() -> tuple[type[Exception], ...]:
    """The exceptions that say so; the simulation package's only where that is installed."""
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
