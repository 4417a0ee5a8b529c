# SPDX-License-Identifier: BSD-2-Clause
"""Folders that the workers of a run share: what takes long is made by the first that needs it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from inceptionn.sim.models.cache import built_once


def shared_folder(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the run's folder ``name``, which ``make`` has filled once; other workers wait meanwhile.

    ``make`` gets an empty folder of another name, so what it writes must not contain its own path.
    """
    base = factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with built_once(root / name) as scratch:
        if scratch is not None:
            make(scratch)
    return root / name
