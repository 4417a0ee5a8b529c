# SPDX-License-Identifier: BSD-2-Clause
"""The example that writes gradients of bfloat16: its file is what `inspect` and the benches take."""

import sys
from pathlib import Path

import numpy as np
import pytest
from programs import said_by

from inceptionn.codec import converted
from inceptionn.system import npy_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "bf16_gradients.py"


@pytest.mark.slow
def test_it_writes_each_ranks_gradients(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    out = tmp_path / "g.npy"
    options = ["--out", out, "--ranks", "2", "--values", "2000000", "--steps", "15"]
    said_by(sys.executable, EXAMPLE, *options)
    assert np.load(out).dtype == "V2"
    x = converted(npy_file.load(out, halves=True), patterns=True)
    assert x.shape == (2, 2_000_000)
    assert np.isfinite(x).all()
    assert (x[0] != x[1]).mean() > 0.5  # of samples of their own
    assert np.corrcoef(x[0], x[1])[0, 1] > 0.3  # of one model
    assert (x[:, -1000:] == x[:, -1_784_650 - 1000 : -1_784_650]).all()  # one gradient, and again
