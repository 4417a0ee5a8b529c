# SPDX-License-Identifier: BSD-2-Clause
"""The commands that messages name install from where the package came."""

import json
import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from programs import said_by

from inceptionn import cli
from inceptionn.system.extras import pip_install

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from inceptionn.system.extras import pip_install
print(pip_install("mpi"))
"""


@pytest.mark.parametrize(
    ("origin", "what"),
    [
        (None, "'inceptionn[mpi]'"),
        ({"url": "file:///my%20clone", "dir_info": {"editable": True}}, "-e '/my clone[mpi]'"),
        ({"url": "file:///clone", "dir_info": {}}, "'/clone[mpi]'"),
        ({"url": "file:///i-1.whl", "archive_info": {}}, "'/i-1.whl[mpi]'"),
        (
            {"url": "https://host/i", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            "'inceptionn[mpi] @ git+https://host/i'",
        ),
    ],
    ids=["index", "editable clone", "clone", "wheel", "repository"],
)
def test_it_installs_from_where_the_package_came(
    origin: dict[str, Any] | None, what: str, tmp_path: Path
) -> None:
    about = tmp_path / "inceptionn-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: inceptionn\nVersion: 0.1.0\n")
    if origin is not None:
        (about / "direct_url.json").write_text(json.dumps(origin))
    said = said_by(sys.executable, "-c", PROGRAM, tmp_path)
    assert said.removesuffix("\n").endswith(f" install {what}")


def test_a_build_in_the_folder_is_no_installation(tmp_path: Path) -> None:
    """Its ``egg-info`` is found first, and does not know the package's origin."""
    about = tmp_path / "inceptionn.egg-info"
    about.mkdir()
    (about / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: inceptionn\nVersion: 0.1.0\n")
    assert said_by(sys.executable, "-c", PROGRAM, tmp_path) == f"{pip_install('mpi')}\n"


def test_another_pip_on_the_path_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "pip"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pip_install("mpi").startswith(f"{sys.executable} -m pip install ")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert pip_install("mpi").startswith("pip install ") == bool(shutil.which("pip"))


def test_every_command_names_an_extra_that_exists() -> None:
    known = set(distribution("inceptionn").metadata.get_all("Provides-Extra") or ())
    commands = [command for top in cli.COMMANDS.values() for command in (top, *(top.commands or {}).values())]
    assert {command.extra for command in commands if command.extra} <= known
