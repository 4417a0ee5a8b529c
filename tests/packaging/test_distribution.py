# SPDX-License-Identifier: BSD-2-Clause
"""The sdist and the wheel, installed with their dependencies in clean environments.

With ``EXHAUSTIVE=1`` of every Python here.
"""

import os
import re
import shutil
import sys
import tarfile
import tomllib
from functools import partial
from pathlib import Path

import pytest
from checkout import ROOT, source_files
from programs import ended, said_by

SMOKE = Path(__file__).parent / "smoke.py"
_VERSION = "import sys; print(*sys.version_info[:2], sys.base_prefix)"
run = partial(said_by, cwd="/")
"""Run a command outside the checkout."""


def pythons() -> list[str]:
    """One interpreter of each version from 3.11 on: this one, those on PATH, and those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    names = [sys.executable, *(f"python3.{minor}" for minor in range(11, 20))]
    candidates = [path for name in names if (path := shutil.which(name))]
    candidates += sorted(map(str, pyenv.glob("versions/3.*/bin/python3")))
    found: dict[tuple[int, int], str] = {}
    for candidate in candidates:
        done = ended(candidate, "-c", _VERSION)
        if done.returncode == 0:
            major, minor, _ = done.stdout.split(maxsplit=2)
            if (int(major), int(minor)) >= (3, 11):
                found.setdefault((int(major), int(minor)), candidate)
    return [found[key] for key in sorted(found)]


@pytest.mark.slow
def test_sdist_holds_what_a_checkout_holds(packages: Path) -> None:
    """All but the settings of editors and services."""
    with tarfile.open(next(packages.glob("*.tar.gz"))) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {str(name) for name in source_files()}
    missing = sorted(wanted - found - {".gitignore", "MANIFEST.in"})
    assert [name for name in missing if not name.startswith((".github/", ".ci/"))] == []


def install(python: str, package: Path, folder: Path) -> Path:
    """Installs a package with its dependencies in a new environment; its interpreter."""
    run(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    done = ended(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package, cwd="/")
    if re.search("No matching distribution|Connection|Temporary failure", done.stderr) and not os.environ.get(
        "CI"
    ):
        pytest.skip("the dependencies cannot be downloaded here")
    assert done.returncode == 0, done.stderr[-4000:]
    return inside


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("python", pythons() if os.environ.get("EXHAUSTIVE") else [sys.executable])
def test_sdist_installs_and_works(python: str, packages: Path, tmp_path: Path) -> None:
    inside = install(python, next(packages.glob("*.tar.gz")), tmp_path / "environment")
    assert "numpy" in run(inside, SMOKE, "--native").split()


@pytest.mark.network
@pytest.mark.slow
def test_wheel_installs_and_works(packages: Path, tmp_path: Path) -> None:
    inside = install(sys.executable, next(packages.glob("*.whl")), tmp_path / "environment")
    assert run(inside, SMOKE, "--native").split()[-1] == "numpy"


def test_metadata_agree() -> None:
    """One version everywhere; the workflow runs what a developer runs."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf"^version: {re.escape(version)}$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    for words in (".ci/run", "make docs", "cibuildwheel", "tests/packaging/smoke.py"):
        assert words in workflow
