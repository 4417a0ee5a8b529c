# SPDX-License-Identifier: BSD-2-Clause
"""The compressor alone on a simulator that knows undefined values."""

from pathlib import Path

import pytest

from inceptionn.hdl.codec.standalone_compressor import StandaloneCompressor
from inceptionn.sim.runner import run_bench


@pytest.mark.exhaustive
@pytest.mark.slow
def test_bench_on_icarus() -> None:
    """The same bench with a smaller sweep."""
    run_bench(
        StandaloneCompressor, "inceptionn_compressor", Path(__file__).with_name("bench_standalone.py"),
        simulator="icarus", parameters={"part": "standalone_compressor", "short": True},
    )  # fmt: skip
