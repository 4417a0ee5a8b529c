# SPDX-License-Identifier: BSD-2-Clause
"""The tag decoder in simulation."""

from pathlib import Path

from inceptionn.hdl.tag_decoder import TagDecoder
from inceptionn.sim.runner import run_bench


def test_bench() -> None:
    run_bench(TagDecoder, "tag_decoder", Path(__file__).with_name("bench_tag_decoder.py"))
