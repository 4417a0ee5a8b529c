# SPDX-License-Identifier: BSD-2-Clause
"""A job of one rank needs nobody to meet."""

from collections.abc import Callable
from typing import Any

import pytest


def test_one_rank(ranks_of: Callable[..., list[dict[str, Any]]]) -> None:
    (found,) = ranks_of("alone_ranks.py", 1)
    assert found["compressed"] > 0
    assert found["kept"]
    assert found["hook"] == pytest.approx(found["plain"], rel=0.05)
