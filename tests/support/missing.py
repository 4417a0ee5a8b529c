# SPDX-License-Identifier: BSD-2-Clause
"""What a test needs and this machine lacks."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """A missing tool or right is a skip for a user, and a failure under continuous integration."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
