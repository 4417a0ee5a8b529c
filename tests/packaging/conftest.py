# SPDX-License-Identifier: BSD-2-Clause
"""The sdist and the wheel, built once for all tests of a run."""

import shutil
import sys
from pathlib import Path

import pytest
from checkout import ROOT, source_files
from programs import said_by
from shared import shared_folder


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist and the wheel built from it, as ``python -m build`` makes them.

    They are built in a copy, so that old build folders cannot lend them files.
    """

    def make(out: Path) -> None:
        source = tmp_path_factory.mktemp("checkout")
        for name in source_files():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
        said_by(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, cwd="/")

    return shared_folder(tmp_path_factory, "packages", make)
