# SPDX-License-Identifier: BSD-2-Clause
"""The two memories in simulation, and what they refuse."""

import pytest

from inceptionn.hdl.parts.memory import BlockRam, LutRam


@pytest.mark.parametrize("memory", [BlockRam, LutRam])
@pytest.mark.parametrize(("width", "depth"), [(0, 16), (8, 0), (8, 1), (8, 12), (-1, 16)])
def test_refused(memory: type[BlockRam], width: int, depth: int) -> None:
    with pytest.raises(ValueError, match=rf"power-of-two depth, not \({width}, {depth}\)$"):
        memory(width, depth)
