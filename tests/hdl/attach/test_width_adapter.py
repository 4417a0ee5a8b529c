# SPDX-License-Identifier: BSD-2-Clause
"""The width adapters in simulation, and what they refuse."""

import pytest

from inceptionn.hdl.attach.width_adapter import Narrower, Widener


@pytest.mark.parametrize(("narrow", "wide"), [(8, 8), (32, 8), (8, 20), (8, 24), (0, 8)])
def test_widths_refused(narrow: int, wide: int) -> None:
    with pytest.raises(ValueError, match=rf"not \({narrow}, {wide}\)$"):
        Widener(narrow, wide)
    with pytest.raises(ValueError, match=rf"not \({narrow}, {wide}\)$"):
        Narrower(wide, narrow)
