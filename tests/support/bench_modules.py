# SPDX-License-Identifier: BSD-2-Clause
"""Modules that benches share, for tests in this process."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HDL = Path(__file__).parents[1] / "hdl"


def bench_module(place: str, monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> ModuleType:
    """Return the module at ``place`` below ``tests/hdl``, as a bench with these ``parameters`` sees it."""
    monkeypatch.setenv("INCEPTIONN_BENCH_PARAMETERS", json.dumps(parameters))
    monkeypatch.syspath_prepend(HDL / "support")
    path = HDL / place
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
