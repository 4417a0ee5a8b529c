# SPDX-License-Identifier: BSD-2-Clause
"""The dispatcher in simulation, and what it refuses."""

import pytest

from inceptionn.hdl.parallel.packet_dispatch import PacketDispatch


@pytest.mark.parametrize("engines", [0, 1, 3, 8, "2"])
def test_engines_are_checked(engines: int) -> None:
    with pytest.raises(ValueError, match=f"engines side by side must be 2 or 4, not {engines!r}"):
        PacketDispatch(engines, flows=False)
