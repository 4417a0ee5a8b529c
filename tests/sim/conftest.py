# SPDX-License-Identifier: BSD-2-Clause
"""The Verilog that the tests of the in-process simulation run: a pass-through, and the real NIC."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from missing import missing

from inceptionn.sim.nic_codec import NIC_CODECS
from inceptionn.sim.verilated import VerilatedNic


@pytest.fixture(scope="session")
def passthrough() -> ModuleType:
    """Return the module ``passthrough.py`` beside this file."""
    try:
        import amaranth  # noqa: F401
    except ImportError:
        missing("Amaranth is not installed: pip install 'inceptionn[hdl]'")
    name = "inceptionn_tests_passthrough"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("passthrough.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def passthrough_verilog(passthrough: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from inceptionn.hdl.verilog import convert

    path = tmp_path_factory.mktemp("passthrough") / "inceptionn_nic.v"
    path.write_text(convert(passthrough.PassThrough(), "inceptionn_nic"))
    return path


@pytest.fixture
def pass_nic(passthrough_verilog: Path) -> Iterator[VerilatedNic]:
    """Yield the pass-through, verilated, fresh out of reset."""
    with VerilatedNic(passthrough_verilog, seed=7) as nic:
        yield nic


@pytest.fixture(scope="session", params=[1, 2, 4] if os.environ.get("EXHAUSTIVE") else [1])
def engines(request: pytest.FixtureRequest) -> int:
    """Engines per direction of the NIC; all numbers with ``EXHAUSTIVE=1``."""
    number: int = request.param
    return number


@pytest.fixture(scope="session", params=[8, 16] if os.environ.get("EXHAUSTIVE") else [8])
def lanes(request: pytest.FixtureRequest) -> int:
    """fp32 lanes of each engine; both numbers with ``EXHAUSTIVE=1``."""
    number: int = request.param
    return number


@pytest.fixture(scope="session", params=NIC_CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    """Return the codec of the NIC."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def nic_verilog(engines: int, lanes: int, codec: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Verilog of the real ``inceptionn_nic``.

    Of planes and unusual sizes it is the one with bf16, unless ``EXHAUSTIVE=1``.
    """
    from inceptionn.sim.nic_verilog import emit_nic

    # A model of these sizes takes two minutes to build, and `bf16_nic` needs this one anyway.
    bf16 = codec == "planes" and (engines, lanes) != (1, 8) and not os.environ.get("EXHAUSTIVE")
    path = tmp_path_factory.mktemp("nic") / "inceptionn_nic.v"
    path.write_text(emit_nic(codec, lanes, engines, bf16))
    return path


@pytest.fixture
def bf16_nic(engines: int, lanes: int, tmp_path: Path) -> Iterator[VerilatedNic]:
    """Yield the real NIC with bf16 lanes, verilated, fresh out of reset."""
    from inceptionn.sim.nic_verilog import emit_nic

    path = tmp_path / "inceptionn_nic.v"
    path.write_text(emit_nic("planes", lanes, engines, bf16=True))
    with VerilatedNic(path) as model:
        yield model


@pytest.fixture
def nic(nic_verilog: Path) -> Iterator[VerilatedNic]:
    """Yield the real NIC, verilated, fresh out of reset."""
    with VerilatedNic(nic_verilog) as model:
        yield model
