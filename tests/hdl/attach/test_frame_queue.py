# SPDX-License-Identifier: BSD-2-Clause
"""The queue of whole frames in simulation, and what it refuses."""

import pytest

from inceptionn.hdl.attach.frame_queue import FrameQueue


@pytest.mark.parametrize("depth", [0, 4, 48])
def test_depth_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=rf"power of two of at least 8, not {depth}$"):
        FrameQueue(8, depth=depth)
