# SPDX-License-Identifier: BSD-2-Clause
"""The wheel: built from what git tracks, installed in an environment of its own, every module imported."""

import json
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from checkout import PACKAGES, source_files
from programs import ended, said_by

pytestmark = pytest.mark.slow  # it builds the wheel and installs it

FOLDERS = {folder: "inceptionn" if folder == "sw" else f"inceptionn/{folder}" for folder in PACKAGES}
DATA = (".cpp", ".h", ".xdc", ".tcl", ".typed", ".pyi", ".j2", ".csv", ".vlt")
NATIVE = {f"inceptionn/native/{name}{sysconfig.get_config_var('EXT_SUFFIX')}" for name in ("adt", "codec")}

WITH_TORCH = find_spec("torch") is not None
"""Without it, the packages for torch say what to install."""
LEFT_OUT = () if find_spec("torchft") else ("torchft",)
"""A module of the package for torch that needs another package, which no extra installs."""
run = partial(said_by, cwd="/")
"""Run a command outside the checkout."""


def packaged(name: Path) -> str | None:
    """Path in the wheel of a source file, None if it is not to be there."""
    if name.parts[0] not in FOLDERS or name.suffix not in (".py", *DATA):
        return None
    if name.parts[0] == "sw" and name.suffix == ".h":
        return None  # compiled into the extension
    return "/".join([FOLDERS[name.parts[0]], *name.parts[1:]])


@pytest.fixture(scope="module")
def wheel(packages: Path) -> Path:
    (path,) = packages.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Return an environment with the wheel, and after it the third-party packages of the tests' own.

    A line in a .pth file adds a folder without reading the .pth files there, so an editable install of the
    project is not seen.
    """
    folder = tmp_path_factory.mktemp("clean") / "environment"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    said_by(*pip, "--no-deps", "--no-index", wheel)
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return SimpleNamespace(python=python, site=site, command=folder / "bin" / "inceptionn")


def test_wheel_holds_every_source_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == NATIVE | {path for path in map(packaged, source_files()) if path is not None}


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    assert metadata["License-Expression"] == "BSD-2-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    extras = set(metadata.get_all("Provides-Extra", []))
    hardware = {"hdl", "sim", "prove", "timing", "litex"}
    software = {"mpi", "plot", "torch", "train", "bench", "deflate"}
    assert extras == hardware | software | {"docs", "dev"}
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {line.split(">")[0] for line in required} == {"numpy", "typer", "rich"}


def test_every_module_imports(installed: SimpleNamespace) -> None:
    code = (
        "import importlib, json, pkgutil, inceptionn\n"
        "names = [m.name for m in pkgutil.walk_packages(inceptionn.__path__, 'inceptionn.')]\n"
        f"names = [n for n in names if {WITH_TORCH} or 'torch' not in n.split('.')]\n"
        f"names = [n for n in names if n.rpartition('.')[2] not in {LEFT_OUT}]\n"
        "print(json.dumps({n: importlib.import_module(n).__file__ for n in ['inceptionn', *names]}))\n"
    )
    files = json.loads(run(installed.python, "-W", "ignore", "-c", code))
    expected = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in map(packaged, source_files())
        if path is not None
        and path.endswith(".py")
        and (WITH_TORCH or "/torch/" not in path)
        and Path(path).stem not in LEFT_OUT
    } | {"inceptionn.native.adt", "inceptionn.native.codec"}
    assert set(files) == expected
    outside = [file for file in files.values() if not Path(file).is_relative_to(installed.site)]
    assert not outside, outside


def test_command_line_and_data(installed: SimpleNamespace) -> None:
    code = "from importlib.metadata import version; print(version('inceptionn'))"
    assert run(installed.command, "--version") == f"inceptionn {run(installed.python, '-c', code)}"
    code = "from inceptionn.constraints import read; print(read('crossings.tcl'))"
    assert "set_max_delay" in run(installed.python, "-c", code)
    code = "from inceptionn.boards.templates import text; print(text('vc709/patch_trd.py'), text('core.j2'))"
    assert "CAPI=2" in run(installed.python, "-c", code)


def test_simulate_says_that_a_wheel_has_no_benches(installed: SimpleNamespace) -> None:
    done = ended(installed.command, "simulate", "nic", cwd="/")
    assert done.returncode == 2
    assert done.stderr == (
        "inceptionn: the benches are in the source tree, not in an installed wheel: "
        "run this in a clone of the project\n"
    )
