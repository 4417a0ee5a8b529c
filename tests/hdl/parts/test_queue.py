# SPDX-License-Identifier: BSD-2-Clause
"""The pushing queue in simulation, and what it refuses."""

import pytest
from amaranth.lib import data

from inceptionn.hdl.parts.elastic_register import ElasticRegister
from inceptionn.hdl.parts.queue import PushQueue


@pytest.mark.parametrize(("depth", "slack"), [(16, 14), (4, 2), (32, -1), (32, 40)])
def test_slack_refused(depth: int, slack: int) -> None:
    with pytest.raises(ValueError, match=rf"slack must leave room in its depth, not \({depth}, {slack}\)$"):
        PushQueue(8, depth, slack)


@pytest.mark.parametrize("depth", [0, 1, 2, 12, 48, -16])
def test_depth_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=rf"power of two of at least 4, not {depth}$"):
        PushQueue(8, depth, 1)


def test_fields_in_ram_refused() -> None:
    shape = data.StructLayout({"tdata": 64, "last": 1})
    with pytest.raises(ValueError, match="in_ram names fields that an item lacks: data, keep$"):
        ElasticRegister(shape, in_ram={"keep", "tdata", "data"})
