# SPDX-License-Identifier: BSD-2-Clause
"""The engines' input register in simulation."""

import pytest

from inceptionn.hdl.frame.frame_input import FrameInput


def test_pace_is_checked() -> None:
    with pytest.raises(ValueError, match="pace must be 1 or more, not 0"):
        FrameInput(pace=0)
    assert FrameInput().pace == 1


def test_width_is_checked() -> None:
    with pytest.raises(ValueError, match="stream width must be a power of two of bytes, not 48"):
        FrameInput(data_bytes=48)
