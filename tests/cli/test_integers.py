# SPDX-License-Identifier: BSD-2-Clause
"""Arguments that must be integers: of Python or NumPy, within limits."""

from typing import Any

import numpy as np
import pytest
from refusals import refused

from inceptionn.system.integers import integer, is_integer


def test_integers_of_python_and_numpy() -> None:
    for value in (3, np.int64(3), np.uint8(3)):
        found = integer("hosts", value, 1, 3)
        assert (found, type(found)) == (3, int)


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, np.array(3), [3]])
def test_others_are_none(value: Any) -> None:
    assert not is_integer(value)
    refused(TypeError, r"^hosts must be an integer, not ", integer, "hosts", value)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ((4, None), "steps must be at least 4 steps, not 3"),
        ((4, 9), "steps must be 4..9 steps, not 3"),
    ],
)
def test_the_error_names_limits_and_value(limits: tuple[int, int | None], text: str) -> None:
    refused(ValueError, f"^{text}$", integer, "steps", 3, *limits, unit=" steps")
