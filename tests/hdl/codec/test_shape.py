# SPDX-License-Identifier: BSD-2-Clause
"""Which shapes of an engine there are, and which parts take bf16 lanes."""

import pytest

from inceptionn.hdl.codec.shape import EngineShape


def test_bf16_needs_planes() -> None:
    assert EngineShape.of(16, "planes", bf16=True).bf16
    with pytest.raises(ValueError, match="bf16 lanes need the codec planes, not 'paper'"):
        EngineShape.of(bf16=True)
