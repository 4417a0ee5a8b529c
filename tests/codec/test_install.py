# SPDX-License-Identifier: BSD-2-Clause
"""Installing on a machine without a compiler: everything but the extension, which NumPy stands in for."""

import shutil
import sys
import sysconfig
from pathlib import Path

from programs import said_by

ROOT = Path(__file__).resolve().parents[2]

CHECK = """
import sys, warnings
sys.path[:0] = sys.argv[1:]
import numpy as np, inceptionn
from inceptionn import codec
assert inceptionn.__file__.startswith(sys.argv[1]), inceptionn.__file__
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    stream = inceptionn.Codec().compress(np.full(100, 0.25, np.float32))
print(codec.available_paths(), len(caught), len(stream))
"""


def test_no_compiler(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in ("sw", "hdl", "sim", "boards", "constraints"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    said_by(*command, "--target", target, source, CC=str(shutil.which("false")))
    assert not list(target.rglob("*.so"))
    # Without the site module the editable install of this checkout is not seen.
    said = said_by(sys.executable, "-S", "-c", CHECK, target, sysconfig.get_path("purelib"), cwd="/")
    assert said == "['numpy'] 1 226\n"
