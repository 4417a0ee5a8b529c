# SPDX-License-Identifier: BSD-2-Clause
"""Which shapes of an engine there are, and which parts take bf16 lanes."""

from __future__ import annotations

import pytest

from inceptionn.hdl.engine.shape import EngineShape
from inceptionn.hdl.parallel.parallel_engines import ParallelEngines


def test_half_needs_planes() -> None:
    assert EngineShape.of(16, "planes", half=True).half
    with pytest.raises(ValueError, match="bf16 lanes need the codec planes, not 'paper'"):
        EngineShape.of(half=True)


def test_a_nic_with_bf16_lanes_has_one_engine() -> None:
    shape = EngineShape.of(codec="planes", half=True)
    with pytest.raises(ValueError, match="half must be off: .* one ToS byte"):
        ParallelEngines(2, shape, transmit=True)
