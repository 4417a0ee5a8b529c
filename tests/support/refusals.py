# SPDX-License-Identifier: BSD-2-Clause
"""A refusal in one line."""

from collections.abc import Callable
from typing import Any

import pytest


def refused(
    error: type[Exception], match: str, call: Callable[..., Any], *arguments: Any, **named: Any
) -> None:
    """Check that the call raises this error, whose text matches."""
    with pytest.raises(error, match=match):
        call(*arguments, **named)
