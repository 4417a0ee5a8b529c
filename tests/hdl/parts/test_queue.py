# SPDX-License-Identifier: BSD-2-Clause
"""The pushing queue in simulation, and what it refuses."""

from itertools import combinations

import pytest
from amaranth.lib import data

from inceptionn.hdl.parts.elastic_register import ElasticRegister
from inceptionn.hdl.parts.queue import PushQueue


@pytest.mark.parametrize("kinds", [*combinations(("elastic", "forward", "direct"), 2), ("forward", "staged")])
def test_one_kind_of_output(kinds: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="one of elastic, forward and direct"):
        PushQueue(8, 16, 5, **dict.fromkeys(kinds, True))


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
    with pytest.raises(ValueError, match=r"not elastic keeps no fields apart: \['tdata'\]$"):
        PushQueue(shape, 16, 5, in_ram={"tdata"})
