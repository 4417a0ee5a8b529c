# SPDX-License-Identifier: BSD-2-Clause
"""Folders that are written as a whole: the working directory and mount points are folders like any other."""

import sys
from pathlib import Path

import pytest
from programs import said_by

from inceptionn.boards import output_folder
from inceptionn.netns import require

FILES = {"a.v": "module a;\n", output_folder.MANIFEST: '{"files": {"a.v": {}}}'}


@pytest.mark.parametrize("names", [[], ["mine"]])
def test_the_working_directory(names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    output_folder.check(Path(), force=bool(names))
    assert output_folder.write(Path(), FILES) == [Path(name) for name in FILES]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.v", "manifest.json", *names]
    assert Path.cwd().samefile(tmp_path)


def test_a_mount_point(tmp_path: Path) -> None:
    require()
    program = (
        "import os, sys; from pathlib import Path; from inceptionn.boards import output_folder\n"
        f"output_folder.write(Path(sys.argv[1]), {FILES!r}); print(*sorted(os.listdir(sys.argv[1])))"
    )
    script = 'mount -t tmpfs none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", tmp_path, sys.executable, program]
    assert said_by(*command, timeout=60) == "a.v manifest.json\n"


def test_a_link_is_followed_where_its_folder_is_still_missing(tmp_path: Path) -> None:
    link, real = tmp_path / "link", tmp_path / "real" / "folder"
    link.symlink_to(real)
    output_folder.check(link, force=False)
    assert output_folder.write(link, FILES) == [link / name for name in FILES]
    assert link.is_symlink()
    assert sorted(path.name for path in real.iterdir()) == ["a.v", "manifest.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_an_error_names_the_folder_that_was_asked_for() -> None:
    """Nobody can make a folder in /proc, and only the attempt shows it."""
    with pytest.raises(OSError, match=r"'/proc/inceptionn'$"):
        output_folder.write(Path("/proc/inceptionn"), FILES)
