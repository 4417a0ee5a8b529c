# SPDX-License-Identifier: BSD-2-Clause
"""The tag decoder in simulation."""

from pathlib import Path

import pytest

from inceptionn.hdl.tag_decoder import TagDecoder
from inceptionn.sim.runner import run_bench


@pytest.mark.parametrize("lanes", [8, 16])
def test_bench(lanes: int) -> None:
    bench = Path(__file__).with_name("bench_tag_decoder.py")
    run_bench(TagDecoder(lanes=lanes), "tag_decoder", bench, parameters={"lanes": lanes})
