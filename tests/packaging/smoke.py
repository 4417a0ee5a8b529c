# SPDX-License-Identifier: BSD-2-Clause
"""Smoke test of an installed host package; needs nothing but its dependencies. Prints the codec's paths.

``--native``: the compiled codec must be there. Without a compiler a package builds all the same, in NumPy.
"""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import inceptionn
from inceptionn.codec import available_paths


def command(*arguments: str) -> str:
    """Return what ``inceptionn`` prints; the program is that of this interpreter's environment."""
    program = Path(sys.executable).parent / "inceptionn"
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True).stdout


def main() -> None:
    values = np.random.default_rng(1).laplace(scale=3e-3, size=10_000).astype(np.float32)
    codec = inceptionn.Codec(error_bound=2**-10)
    restored = codec.decompress(codec.compress(values), values.size)
    assert np.abs(values - restored).max() < 2**-10
    assert command("--version") == f"inceptionn {version('inceptionn')}\n"
    assert "regs" in command("--help")
    with tempfile.TemporaryDirectory() as folder:
        array, message, back = (str(Path(folder) / name) for name in ("a.npy", "a.npy.inc", "b.npy"))
        np.save(array, values)
        command("encode", array, "--out", message)
        command("decode", message, "--out", back)
        assert np.abs(values - np.load(back)).max() < 2**-10
    assert command("doctor")
    assert "--native" not in sys.argv or "scalar" in available_paths()
    print(*available_paths())


main()
