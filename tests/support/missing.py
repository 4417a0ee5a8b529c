# SPDX-License-Identifier: BSD-2-Clause
"""What a test needs and this machine lacks."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test for want of a tool or right; under continuous integration, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
